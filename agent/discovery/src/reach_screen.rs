//! Formats the console's overview of how far each NIC has come on its way to
//! the service. No I/O.
//!
//! A line has at most 80 ASCII columns, including the prefix that the console adds.
//! The output is plain lines, because it must be readable on a serial line and in a
//! log.

use landfall_boot_params::without_secrets;
use landfall_network::NetworkState;
use landfall_network::reach::{Outcome, Reach, Step, StepResult};
use landfall_network::state::{AddressOrigin, NicState};
use landfall_report::failure::with_remedy;
use serde_json::{Value, json};

/// The width of a text line: 80 columns without the prefix `[  123.456]
/// discovery: `.
const WIDTH: usize = 80 - 23;
const INDENT: usize = 10;

/// How far a NIC has come on its way to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicWay {
    /// The kernel's name of the NIC.
    pub name: String,
    /// The hardware address of the NIC.
    pub mac: String,
    /// The steps up to the first one that is not done, starting with the carrier.
    pub steps: Vec<StepResult>,
}

impl NicWay {
    /// As JSON, for the output of the sub-command `discover`.
    pub fn json(&self) -> Value {
        let steps: Vec<_> = self.steps.iter().map(StepResult::json).collect();
        json!({"name": self.name, "mac": self.mac, "way_to_service": steps})
    }
}

/// The progress of all NICs that the plan uses or that are online, in the kernel's order.
pub fn ways(network: &NetworkState, reach: &Reach) -> Vec<NicWay> {
    let meant = network.nics.iter().filter(|nic| is_meant(nic));
    meant
        .map(|nic| {
            let mut steps = first_steps(nic);
            if steps.iter().all(|step| step.outcome == Outcome::Done) {
                steps.extend(reach.ways.get(&nic.index).into_iter().flatten().cloned());
            }
            NicWay {
                name: nic.name.clone(),
                mac: nic.mac.to_string(),
                steps,
            }
        })
        .collect()
}

fn is_meant(nic: &NicState) -> bool {
    nic.shall_have_address || nic.is_online()
}

/// The steps carrier and address, from the state of the network.
fn first_steps(nic: &NicState) -> Vec<StepResult> {
    if !nic.carrier {
        let firmware = nic.trouble.as_deref().and_then(|trouble| {
            let at = trouble.find("firmware ")?;
            Some(&trouble[at..])
        });
        if let Some(name) = &nic.without_ports {
            let text = format!(
                "none, because {name} has no port -- correct the ports of {name} in the network configuration"
            );
            return vec![StepResult::failed(Step::Carrier, text)];
        }
        return vec![match (nic.awaits_carrier, firmware) {
            (_, Some(missing)) => StepResult::failed(Step::Carrier, format!("none, {missing}")),
            (true, None) => StepResult::waiting(Step::Carrier, "none yet"),
            (false, None) => StepResult::failed(Step::Carrier, "none"),
        }];
    }
    let far = |usable: bool| {
        let fits = move |address: &&_| {
            let address: &landfall_network::state::AddressState = address;
            address.usable == usable && address.origin != AddressOrigin::LinkLocal
        };
        nic.addresses.iter().filter(fits)
    };
    let addresses: Vec<_> = far(true)
        .map(|known| format!("{} from {}", known.prefix, known.origin))
        .collect();
    let address = match (&nic.trouble, far(false).next()) {
        _ if !addresses.is_empty() => StepResult::done(Step::Address, addresses.join(", ")),
        (Some(trouble), _) => {
            let trouble = trouble.strip_prefix(&nic.name).unwrap_or(trouble);
            StepResult::failed(Step::Address, trouble.trim_start())
        }
        (None, Some(tentative)) => {
            let text = format!(
                "{}: checking whether another machine has it",
                tentative.prefix
            );
            StepResult::waiting(Step::Address, text)
        }
        (None, None) => StepResult::waiting(Step::Address, "none yet, still waiting"),
    };
    vec![StepResult::done(Step::Carrier, "ok"), address]
}

/// The whole screen: what the search looks for, and how far each NIC has come.
pub fn screen(service: &str, network: &NetworkState, reach: &Reach) -> Vec<String> {
    let mut lines = wrapped("", &format!("looking for {service}"), 2);
    if let Some(source) = network.source {
        lines.extend(wrapped("", &format!("network: {source}"), 2));
    }
    for fault in &network.faults {
        lines.extend(wrapped("", &format!("FAULT {fault}"), 2));
    }
    let ways = ways(network, reach);
    if network.nics.is_empty() {
        lines.push("no NIC found".to_owned());
        let why = network.no_nic.as_deref();
        let why = why.unwrap_or("-- check that the ramdisk has its driver");
        lines.extend(wrapped("", why, 2));
    }
    for way in &ways {
        lines.push(format!("{} ({})", way.name, way.mac));
        for step in &way.steps {
            let label = format!("  {:<8}", step.step.name());
            let word = match step.outcome {
                Outcome::Failed => "FAILED: ",
                Outcome::Done | Outcome::Waiting => "",
            };
            let (text, own_remedy) = with_remedy(&step.text);
            lines.extend(wrapped(&label, &format!("{word}{text}"), INDENT));
            let own_remedy = own_remedy.map(str::to_owned);
            if step.outcome == Outcome::Failed
                && let Some(advice) = own_remedy.or_else(|| remedy(step, network))
            {
                let margin = " ".repeat(INDENT);
                lines.extend(wrapped(&margin, &format!("-- {advice}"), INDENT));
            }
        }
    }
    let unused = network.nics.iter().filter(|nic| !is_meant(nic));
    let unused: Vec<_> = unused.map(|nic| nic.name.as_str()).collect();
    if !unused.is_empty() {
        let text = format!("NICs that get no address: {}", unused.join(" "));
        lines.extend(wrapped("", &text, 2));
    }
    lines
}

/// The NIC and its route in one line, for a successful search: `over eth0, route
/// via 192.0.2.1`.
pub fn short(index: u32, network: &NetworkState, reach: &Reach) -> String {
    let nic = network.nics.iter().find(|nic| nic.index == index);
    let name = nic.map_or("a NIC that is gone", |nic| nic.name.as_str());
    let steps = reach.ways.get(&index).map_or(&[][..], Vec::as_slice);
    let route = steps.iter().find(|step| step.step == Step::Route);
    match route {
        Some(route) => format!("over {name}, route {}", route.text),
        None => format!("over {name}"),
    }
}

/// What an operator can do about a failed step if the text of the step contains no
/// remedy.
pub fn remedy(step: &StepResult, network: &NetworkState) -> Option<String> {
    let text = &step.text;
    Some(match step.step {
        Step::Carrier if text.contains("firmware") => {
            "build the ramdisk with --firmware debian".to_owned()
        }
        Step::Carrier => "check cable and switch port".to_owned(),
        Step::Address if text.contains("DHCP: no answer") => {
            "check that this network has a DHCP server; a switch port may take 50 s to forward"
                .to_owned()
        }
        Step::Address => return None,
        Step::Route => "no gateway leads there: give one (ip=, rd.route=)".to_owned(),
        Step::Dns if network.dns.is_empty() => "no name server is known: add nameserver=".to_owned(),
        Step::Dns => {
            let servers: Vec<_> = network.dns.iter().map(ToString::to_string).collect();
            format!("check the name, and the name servers {}", servers.join(" "))
        }
        Step::Tcp if text.contains("refused") => {
            "the host answers, but nothing listens on this port: check the port and that the service runs".to_owned()
        }
        Step::Tcp => {
            "the host cannot be reached: check VLAN, gateway and firewall; a switch port may \
             take 50 s to forward"
                .to_owned()
        }
        // The TLS error already contains the remedy, after ` -- `.
        Step::Tls => return None,
        Step::Http => "a server answers there, but not as expected: check the URL".to_owned(),
    })
}

/// The text without its secrets, in lines of at most [`WIDTH`] characters. Masking comes
/// first, because half a secret cannot be recognised.
fn wrapped(label: &str, text: &str, indent: usize) -> Vec<String> {
    landfall_report::wrap::wrapped(label, &without_secrets(text), indent, WIDTH)
}

#[cfg(test)]
mod tests;
