//! Runs the sub-command `landfall-image inspect`.

use anyhow::{Context as _, Result, bail};
use landfall_network_plan::describe::describe;
use serde::Serialize;

use crate::cli::InspectArguments;
use crate::coreos_image;
use crate::extract;
use crate::inspect::{self, HostContent, Inspection, IsoContent, Member, RamdiskContent};
use crate::report::{Report, counted, megabytes};

pub(crate) fn run(arguments: &InspectArguments) -> Result<()> {
    let file = arguments.file.display();
    let mut inspection = inspect::inspect(&arguments.file)?;
    if arguments.verify && inspection.kind == "iso" && inspection.verified_files.is_none() {
        let fault = "the ISO has no SHA256SUMS: nothing can be verified -- build the ISO again";
        inspection.faults.push(fault.to_owned());
    }
    let report = Report::new(arguments.json);
    if let Some(name) = &arguments.host {
        let shown = HostInspection::find(&inspection, name)
            .with_context(|| format!("cannot show one host of {file}"))?;
        report.done(&shown, &format!("{file}: {}", shown.text()))?;
    } else {
        let mut title = format!("{file}: {}", text(&inspection));
        if let Some(directory) = &arguments.extract {
            let paths = extract::extract(&arguments.file, directory)
                .with_context(|| format!("cannot extract {file}"))?;
            let lines = paths.iter().map(|path| format!("\n  {}", path.display()));
            title += "\nextracted:";
            title.extend(lines);
        }
        report.done(&inspection, &title)?;
    }
    match inspection.fault_count() {
        0 => Ok(()),
        count => bail!("{file}: {}", counted(count, "fault")),
    }
}

/// What `--host` shows: one of the hosts, and what is wrong with the whole file.
#[derive(Debug, Serialize)]
struct HostInspection<'a> {
    host: &'a HostContent,
    /// Number of hosts in the file.
    hosts: usize,
    faults: Vec<&'a str>,
}

impl<'a> HostInspection<'a> {
    /// `wanted` is the name of a host, or one of its MAC addresses. A host that was
    /// built from a single network file has no name.
    fn find(inspection: &'a Inspection, wanted: &str) -> Result<Self> {
        let hosts = &inspection.ramdisk.hosts;
        let mac = wanted.replace('-', ":");
        let is_wanted = |host: &&HostContent| {
            host.host_name.as_deref() == Some(wanted)
                || host.macs.iter().any(|own| own.eq_ignore_ascii_case(&mac))
        };
        let Some(host) = hosts.iter().find(is_wanted) else {
            bail!(
                "expected the name or a MAC address of a host in the file ({}), found {wanted:?} -- leave out --host to see all hosts",
                counted(hosts.len(), "host")
            );
        };
        let faults = inspection.faults.iter().chain(&inspection.ramdisk.faults);
        Ok(Self {
            host,
            hosts: hosts.len(),
            faults: faults.map(String::as_str).collect(),
        })
    }

    fn text(&self) -> String {
        let mut lines = vec![counted(self.hosts, "host")];
        host_lines(self.host, &mut lines);
        lines.extend(self.faults.iter().map(|fault| format!("FAULT {fault}")));
        lines.join("\n")
    }
}

fn text(inspection: &Inspection) -> String {
    let mut lines = vec![format!(
        "{}, {}",
        inspection.kind,
        megabytes(inspection.bytes)
    )];
    lines.push(format!("  sha256   {}", inspection.sha256));
    if let Some(iso) = &inspection.iso {
        iso_lines(iso, &mut lines);
    }
    if let Some(uki) = &inspection.uki {
        let signed = if uki.is_signed {
            "signed"
        } else {
            "not signed"
        };
        let [release, arguments] = [&uki.kernel_release, &uki.kernel_args]
            .map(|text| text.as_deref().unwrap_or("not readable"));
        lines.push(format!("  kernel   {release} (the file is {signed})"));
        lines.push(format!("  kargs    {arguments}"));
    }
    match inspection.verified_files {
        Some(count) => lines.push(format!("  verified {}", counted(count, "file"))),
        None if inspection.kind == "iso" => {
            lines.push("  verified no, the ISO has no digests".to_owned())
        }
        None => {}
    }
    let is_whole = matches!(inspection.kind, "iso" | "uki" | "ramdisk");
    ramdisk_lines(&inspection.ramdisk, is_whole, &mut lines);
    lines.extend(
        inspection
            .faults
            .iter()
            .map(|fault| format!("FAULT {fault}")),
    );
    lines.join("\n")
}

fn iso_lines(iso: &IsoContent, lines: &mut Vec<String>) {
    let signed = if iso.kernel_is_signed {
        "signed"
    } else {
        "not signed"
    };
    lines.push(format!(
        "  volume   {}, uuid {}",
        iso.label, iso.volume_uuid
    ));
    lines.push(format!("  kernel   {} ({signed})", iso.kernel_release));
    let image = iso.coreos_image.as_ref().map(coreos_image::line);
    lines.extend(image.map(|line| line.trim_end().to_owned()));
    let changed = if iso.kernel_args_are_default {
        ""
    } else {
        " (changed since the build)"
    };
    let arguments = iso.kernel_args.as_deref().unwrap_or("not readable");
    lines.push(format!("  kargs    {arguments}{changed}"));
    lines.push(area_line("embed", iso.embed_size, &iso.embedded_files));
    if let Some(size) = iso.ignition_size {
        lines.push(area_line("ignition", size, &iso.ignition_files));
    }
}

fn area_line(name: &str, size: u64, files: &[String]) -> String {
    let content = match files {
        [] => "empty".to_owned(),
        files => files.join(", "),
    };
    format!("  {name:<8} {} KiB, {content}", size / 1024)
}

/// `is_whole`: the kernel can start with this ramdisk, which is not only an addition to
/// another ramdisk.
fn ramdisk_lines(ramdisk: &RamdiskContent, is_whole: bool, lines: &mut Vec<String>) {
    let mut packings: Vec<&str> = Vec::new();
    for packing in &ramdisk.packing {
        if !packings.contains(packing) {
            packings.push(packing);
        }
    }
    let packing = match packings.as_slice() {
        [] => "none".to_owned(),
        packings => packings.join(" + "),
    };
    lines.push(format!(
        "  ramdisk  {} unpacked, packing {packing}",
        megabytes(ramdisk.unpacked_bytes)
    ));
    lines.push(format!("  content  sha256 {}", ramdisk.unpacked_sha256));
    if is_whole {
        lines.push(format!(
            "  modules  for kernel {}",
            ramdisk.kernel_release.as_deref().unwrap_or("unknown")
        ));
    }
    if let Some(bytes) = ramdisk.init_bytes {
        lines.push(format!("  agent    {}", megabytes(bytes)));
    }
    if is_whole && ramdisk.authorities.is_empty() {
        lines.push("  trusts   no https server (no --ca-bundle, no --ca-file)".to_owned());
    }
    lines.extend(ramdisk.authorities.iter().map(|file| {
        format!(
            "  trusts   {} authorit{} in {}, sha256 {}",
            file.certificates,
            if file.certificates == 1 { "y" } else { "ies" },
            file.path,
            file.sha256
        )
    }));
    let groups = [
        ("modules", &ramdisk.modules),
        ("firmware", &ramdisk.firmware),
        ("config", &ramdisk.configuration),
        ("rescue layer", &ramdisk.rescue_layer),
        ("ignition", &ramdisk.ignition),
        ("other", &ramdisk.other_files),
    ];
    for (name, members) in groups
        .into_iter()
        .filter(|(_, members)| !members.is_empty())
    {
        let total = members.iter().map(|member| member.bytes).sum();
        lines.push(format!(
            "{name}: {}, {}",
            counted(members.len(), "file"),
            megabytes(total)
        ));
        lines.extend(members.iter().map(member_line));
    }
    if !ramdisk.hosts.is_empty() {
        lines.push(format!("hosts: {}", ramdisk.hosts.len()));
        ramdisk
            .hosts
            .iter()
            .for_each(|host| host_lines(host, lines));
    }
    lines.extend(ramdisk.faults.iter().map(|fault| format!("FAULT {fault}")));
}

fn host_lines(host: &HostContent, lines: &mut Vec<String>) {
    let name = host.host_name.as_deref().unwrap_or("(without a name)");
    let macs = match host.macs.join(" ") {
        none if none.is_empty() => "any machine".to_owned(),
        macs => macs,
    };
    lines.push(format!("  {name}, {macs}, {}", host.kind));
    if let Some(hints) = &host.root_device_hints {
        lines.push(format!("    root device hints: {hints}"));
    }
    let plan = describe(&host.plan);
    lines.extend(plan.iter().map(|line| format!("    {line}")));
}

fn member_line(member: &Member) -> String {
    format!("  {:>9} {}", member.bytes, member.path)
}
