//! The status page for a browser: one HTML file without scripts, readable on a phone.

use std::fmt::{self, Write as _};

use landfall_report::status::{LastError, Network, Nic, RootDisk, Status};
use landfall_report::{Event, mib};
use landfall_status_page::{END, Head, Text};

/// How many disks that were not chosen are listed. `/status.json` has all of them.
const MOST_DISKS: usize = 20;

/// The page. It loads itself again every five seconds.
pub(super) fn page(status: &Status, events: &[Event], now: f64) -> String {
    let mut out = String::with_capacity(16 << 10);
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, status, events, now);
    out
}

fn write_page(out: &mut String, status: &Status, events: &[Event], now: f64) -> fmt::Result {
    let host = &status.host;
    let name = if host.name.is_empty() {
        "unnamed host"
    } else {
        &host.name
    };
    let head = Head {
        title: &format!("{name} - Landfall"),
        more_style: "",
        refresh: Some(5),
    };
    writeln!(
        out,
        "{head}<header><h1>{}</h1><p>Landfall {} &middot; up {} s</p></header>\n<main>",
        Text(name),
        Text(&status.build),
        now as u64,
    )?;
    now_section(out, status, now)?;
    if let Some(error) = &status.last_error {
        error_section(out, error, now)?;
    }
    host_section(out, status)?;
    network_section(out, &status.network)?;
    log_section(out, events)?;
    out.push_str("</main>");
    out.push_str(END);
    Ok(())
}

fn now_section(out: &mut String, status: &Status, now: f64) -> fmt::Result {
    out.push_str("<section><h2>Now</h2><dl>");
    match (&status.done, &status.step) {
        (Some(done), _) => fact(out, "Done", done)?,
        (None, Some(step)) => {
            let since = (now - step.since).max(0.0) as u64;
            fact(out, "Step", &format!("{}, for {since} s", step.name))?;
        }
        (None, None) => {}
    }
    if let Some(service) = &status.service {
        let answers = status.service_in_words();
        fact(out, "Service", &format!("{service} {answers}"))?;
    }
    if let Some(node) = &status.node {
        fact(out, "Node", node)?;
    }
    if let Some(progress) = &status.progress {
        fact(out, "Progress", &progress.to_string())?;
        if let Some(total) = progress.total {
            write!(
                out,
                "</dl><progress aria-label=\"{}\" max=\"{total}\" value=\"{}\">{}</progress><dl>",
                Text(&progress.what),
                progress.done,
                mib(progress.done)
            )?;
        }
    }
    out.push_str("</dl></section>\n");
    Ok(())
}

fn error_section(out: &mut String, error: &LastError, now: f64) -> fmt::Result {
    write!(
        out,
        "<section class=\"error\"><h2>Last error</h2><p>{}: {}</p>",
        Text(&error.stage),
        Text(&error.text)
    )?;
    if let Some(remedy) = &error.remedy {
        write!(out, "<p class=\"remedy\">{}</p>", Text(remedy))?;
    }
    writeln!(
        out,
        "<p class=\"dim\">{} s ago</p></section>",
        (now - error.time).max(0.0) as u64
    )
}

fn host_section(out: &mut String, status: &Status) -> fmt::Result {
    let host = &status.host;
    out.push_str("<section><h2>Host</h2><dl>");
    let secure_boot = match host.secure_boot {
        Some(true) => ", Secure Boot",
        Some(false) => ", no Secure Boot",
        None => "",
    };
    fact(out, "Product", &format!("{} {}", host.vendor, host.product))?;
    fact(out, "Serial number", &host.serial)?;
    fact(
        out,
        "Boot mode",
        &format!("{}{secure_boot}", host.boot_mode),
    )?;
    if let Some(memory) = host.memory {
        fact(out, "Memory", &format!("{memory} MiB"))?;
    }
    if let Some(disk) = &status.root_disk {
        root_disk(out, disk)?;
    }
    out.push_str("</dl></section>\n");
    Ok(())
}

fn network_section(out: &mut String, network: &Network) -> fmt::Result {
    out.push_str("<section><h2>Network</h2>");
    if let Some(source) = &network.source {
        write!(out, "<p>Configured by: {}</p>", Text(source))?;
    }
    for fault in network.faults.iter().chain(&network.no_nic) {
        write!(out, "<p class=\"failed\">{}</p>", Text(fault))?;
    }
    for nic in &network.nics {
        nic_table(out, nic)?;
    }
    out.push_str("</section>\n");
    Ok(())
}

fn log_section(out: &mut String, events: &[Event]) -> fmt::Result {
    out.push_str("<section><h2>Log</h2><pre>");
    for event in events {
        let class = match event.severity() {
            ..=3 => "failed",
            4 => "waiting",
            _ => "plain",
        };
        // Add no line break: each span is a block, so a line break would show as an empty
        // line.
        write!(
            out,
            "<span class=\"{class}\">{}</span>",
            Text(&event.for_consoles())
        )?;
    }
    out.push_str(
        "</pre><p><a href=\"/log.txt\">Whole log</a> &middot; <a href=\"/status.json\">JSON</a> \
         &middot; <a href=\"/metrics\">Metrics</a></p></section>\n",
    );
    Ok(())
}

fn root_disk(out: &mut String, disk: &RootDisk) -> fmt::Result {
    fact(out, "Root disk", &format!("{}: {}", disk.path, disk.why))?;
    let Some(others) = disk.rejected_in_words(MOST_DISKS) else {
        return Ok(());
    };
    fact(out, "Not chosen", &others)?;
    match &disk.remedy {
        Some(remedy) => fact(out, "What to do", remedy),
        None => Ok(()),
    }
}

fn nic_table(out: &mut String, nic: &Nic) -> fmt::Result {
    write!(
        out,
        "<h3>{} <small>{}</small></h3><ul>",
        Text(&nic.name),
        Text(&nic.in_words())
    )?;
    for address in &nic.addresses {
        write!(out, "<li>{}</li>", Text(address))?;
    }
    out.push_str("</ul><table>");
    for step in &nic.way {
        write!(
            out,
            "<tr class=\"{outcome}\"><th>{}</th><td>{}",
            Text(&step.step),
            Text(&step.text),
            outcome = Text(&step.outcome),
        )?;
        if let Some(remedy) = &step.remedy {
            write!(out, "<p class=\"remedy\">{}</p>", Text(remedy))?;
        }
        out.push_str("</td></tr>");
    }
    out.push_str("</table>");
    Ok(())
}

fn fact(out: &mut String, name: &str, value: &str) -> fmt::Result {
    write!(out, "<dt>{name}</dt><dd>{}</dd>", Text(value))
}
