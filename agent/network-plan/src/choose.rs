//! Chooses one plan from several sources.
//!
//! A configuration file overrides kernel arguments, as in CoreOS. An operator at the
//! console overrides everything ([`Choice::on_console`]). Below that, the order of
//! precedence is: the plan for this host in the ramdisk, NetworkManager's keyfiles in the
//! ramdisk, network_data from the boot medium, kernel arguments, and finally DHCP and
//! router advertisements on every NIC. With kernel arguments and with DHCP on every NIC,
//! the NICs over which the firmware has booted by NVMe/TCP also get the network from the
//! firmware's NVMe boot table (NBFT), unless an argument prevents this. If a source
//! cannot be used, its faults are reported and the next source applies.

use std::fmt;

use landfall_boot_params::NetArgs;
use landfall_boot_params::dracut_net::{InterfaceArgument, IpMethod};

use crate::embedded::{Document, Embedded};
use crate::keyfile::Keyfile;
use crate::plan::{ADDED, NetworkPlan};

/// The source of the network configuration of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The operator's values in the form on a console.
    Console,
    /// The plan for this host that the image builder put into the ramdisk.
    Embedded,
    /// NetworkManager's keyfiles that CoreOS' tools put into the ramdisk.
    Keyfiles,
    /// network_data.json of the medium that the machine booted from.
    NetworkData,
    /// dracut's network arguments.
    KernelArguments,
    /// No source describes a network, but the firmware has booted by NVMe/TCP, and its
    /// boot table (NBFT) describes the network of some NICs.
    Firmware,
    /// No source describes a network: every NIC gets its addresses by DHCP and SLAAC.
    Default,
}

impl Source {
    /// True for the sources that are files.
    pub fn is_document(self) -> bool {
        matches!(
            self,
            Source::Embedded | Source::Keyfiles | Source::NetworkData
        )
    }

    /// The name of the source in the state file.
    pub fn key(self) -> &'static str {
        match self {
            Source::Console => "console",
            Source::Embedded => "embedded",
            Source::Keyfiles => "keyfiles",
            Source::NetworkData => "network_data",
            Source::KernelArguments => "kernel_arguments",
            Source::Firmware => "firmware",
            Source::Default => "default",
        }
    }

    /// The source of a static address, as the console prints it.
    pub fn of_address(self) -> &'static str {
        match self {
            Source::Console => "the console",
            Source::Embedded => "embedded plan",
            Source::Keyfiles => "keyfile",
            Source::NetworkData => "network_data",
            Source::Firmware => "the firmware's NVMe boot table",
            Source::KernelArguments | Source::Default => "kernel argument ip=",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Console => "the form on the console",
            Source::Embedded => "plan embedded in the ramdisk",
            Source::Keyfiles => "NetworkManager keyfiles in the ramdisk",
            Source::NetworkData => "network_data of the boot medium",
            Source::KernelArguments => "kernel arguments",
            Source::Firmware => {
                "NVMe boot table of the firmware (NBFT), DHCP and SLAAC on every other NIC"
            }
            Source::Default => "no configuration, DHCP and SLAAC on every NIC",
        })
    }
}

/// The plan to boot with, its source, and the faults of sources that are not used.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The plan, with the warnings of its source.
    pub plan: NetworkPlan,
    pub source: Source,
    /// The embedded host that matches this machine, even if its plan is not used:
    /// `node7 (52:54:00:00:00:01), one of 50 hosts in the image`.
    pub host: Option<String>,
    /// The keyfiles in the ramdisk. Empty if the source of the plan is the embedded plan
    /// or the console. Keyfiles that the agent cannot use are included, although the plan
    /// then comes from another source.
    pub given_keyfiles: Vec<Keyfile>,
    /// Faults of the embedded hosts, and the reasons why other sources are not used, one
    /// line each.
    pub faults: Vec<String>,
}

impl Choice {
    /// Chooses the plan. `embedded` is the ramdisk's data for this machine.
    /// `network_data` is the text of network_data.json on the boot medium, if there is
    /// one.
    pub fn for_boot(embedded: &Embedded, network_data: Option<&str>, args: &NetArgs) -> Choice {
        let mut faults = embedded.faults.clone();
        let host = embedded.host.as_ref();
        let host_text = host.map(|host| match embedded.hosts {
            0 | 1 => host.to_string(),
            count => format!("{host}, one of {count} hosts in the image"),
        });
        if let Some(host) = host.filter(|host| host.document != Document::None) {
            match host.plan() {
                Ok(plan) => {
                    if !embedded.keyfiles.is_empty() {
                        let words = "keyfiles in the ramdisk: they are not used, because there is an embedded plan";
                        faults.push(words.to_owned());
                    }
                    return Choice {
                        plan: complete_embedded(plan, args),
                        source: Source::Embedded,
                        host: host_text,
                        given_keyfiles: Vec::new(),
                        faults,
                    };
                }
                Err(error) => {
                    faults.push(format!("embedded plan of {host}: it is not used"));
                    let found = error.lines().into_iter();
                    faults.extend(found.map(|fault| format!("embedded plan: {fault}")));
                }
            }
        }
        let of_keyfiles = from_keyfiles(&embedded.keyfiles, args, &mut faults);
        let (mut plan, source) =
            of_keyfiles.unwrap_or_else(|| without_embedded(network_data, args, &mut faults));
        if let Some(name) = host.and_then(|host| host.host_name.as_ref()) {
            plan.host_name = Some(name.clone());
        }
        Choice {
            plan,
            source,
            host: host_text,
            given_keyfiles: embedded.keyfiles.clone(),
            faults,
        }
    }

    /// The plan of an operator who has entered these arguments in the form on a console.
    /// The machine keeps the name and the hints of its embedded host, but no embedded
    /// plan, keyfile or network_data applies.
    pub fn on_console(embedded: &Embedded, args: &NetArgs) -> Choice {
        Choice {
            source: Source::Console,
            ..Choice::for_boot(&embedded.without_networks(), None, args)
        }
    }

    /// The keyfiles for the installed system: the keyfiles in the ramdisk unchanged, as
    /// coreos-installer copies them, or else keyfiles made from the plan. The former
    /// include keyfiles that the agent cannot use, because NetworkManager may be able to
    /// use them.
    pub fn keyfiles(&self) -> Vec<Keyfile> {
        match self.given_keyfiles.is_empty() {
            false => self.given_keyfiles.clone(),
            true => self.plan.keyfiles(),
        }
    }

    /// True if a file describes the network of the installed system: an embedded plan,
    /// keyfiles or network_data.
    pub fn has_files(&self) -> bool {
        self.source.is_document() || !self.given_keyfiles.is_empty()
    }

    /// The source and the host, as the console prints them.
    pub fn description(&self) -> String {
        match (&self.host, self.source) {
            (None, source) => source.to_string(),
            (Some(host), Source::Embedded) => format!("{}: {host}", self.source),
            (Some(host), source) => format!("{source} (this machine is {host})"),
        }
    }
}

/// The plan of the keyfiles. `None` if there are no keyfiles, or if they cannot be used;
/// then `faults` gets the reasons.
fn from_keyfiles(
    files: &[Keyfile],
    args: &NetArgs,
    faults: &mut Vec<String>,
) -> Option<(NetworkPlan, Source)> {
    if files.is_empty() {
        return None;
    }
    match NetworkPlan::from_keyfiles(files) {
        Ok(plan) => {
            let plan = complete_document(plan, args, "keyfiles");
            Some((plan, Source::Keyfiles))
        }
        Err(error) => {
            faults.push("keyfiles in the ramdisk: they are not used".to_owned());
            let found = error.lines().into_iter();
            faults.extend(found.map(|fault| format!("keyfiles: {fault}")));
            None
        }
    }
}

fn without_embedded(
    network_data: Option<&str>,
    args: &NetArgs,
    faults: &mut Vec<String>,
) -> (NetworkPlan, Source) {
    match network_data.map(NetworkPlan::from_network_data) {
        Some(Ok(plan)) => {
            let plan = complete_document(plan, args, "network_data");
            return (plan, Source::NetworkData);
        }
        Some(Err(error)) => {
            faults.push(format!("network_data: {error}; it is not used"));
            let single = error.warnings().iter();
            faults.extend(single.map(|fault| format!("network_data: {fault}")));
        }
        None => {}
    }
    let source = if args.configures_interfaces() {
        Source::KernelArguments
    } else if args.uses_nbft_network() && !args.firmware.nvme.is_empty() {
        Source::Firmware
    } else {
        Source::Default
    };
    (NetworkPlan::for_boot(args), source)
}

/// Adds the arguments that apply in addition to the embedded plan. Switches off every NIC
/// that the plan does not mention, because no DHCP request may leave the machine on such
/// a NIC.
fn complete_embedded(mut plan: NetworkPlan, args: &NetArgs) -> NetworkPlan {
    take_the_rest(&mut plan, args, "an embedded plan", args.interfaces.iter());
    let off = NetArgs::parse("ip=off");
    plan.interfaces
        .extend(NetworkPlan::for_boot(&off).interfaces);
    plan.sort();
    plan
}

/// Adds the arguments that apply in addition to the document, and automatic configuration
/// for the NICs that the document does not mention. `ip=off` switches these NICs off
/// instead. NetworkManager does the same in CoreOS' live system.
fn complete_document(mut plan: NetworkPlan, args: &NetArgs, document: &str) -> NetworkPlan {
    let is_off = |argument: &&InterfaceArgument| match argument {
        InterfaceArgument::Ip(ip) => {
            ip.device.is_none() && ip.address.is_none() && ip.method == IpMethod::None
        }
        _ => false,
    };
    let unused = args.interfaces.iter().filter(|argument| !is_off(argument));
    take_the_rest(&mut plan, args, document, unused);
    let others = NetArgs {
        interfaces: args.interfaces.iter().filter(is_off).cloned().collect(),
        accept_peer_dns: args.accept_peer_dns,
        dhcp_timeout: args.dhcp_timeout,
        dhcp_vendor_class: args.dhcp_vendor_class.clone(),
        dhcp_dscp: args.dhcp_dscp,
        ..NetArgs::default()
    };
    for mut interface in NetworkPlan::for_boot(&others).interfaces {
        // Every interface of the document takes precedence over these interfaces, even if
        // its priority is low.
        interface.priority = ADDED;
        plan.interfaces.push(interface);
    }
    plan.sort();
    plan
}

/// Adds the host name, the carrier timeout and the warnings of the arguments to the plan
/// of a document, and warns about the arguments that the document overrides: `unused`,
/// routes and DNS servers. `document` is the document's name in the warnings, and the
/// plan's own warnings get it as a prefix.
fn take_the_rest<'a>(
    plan: &mut NetworkPlan,
    args: &NetArgs,
    document: &str,
    unused: impl Iterator<Item = &'a InterfaceArgument>,
) {
    let title = document.trim_start_matches("an ");
    for warning in &mut plan.warnings {
        warning.insert_str(0, &format!("{title}: "));
    }
    plan.warnings.extend(args.warnings.iter().cloned());
    if plan.host_name.is_none() {
        let names = args.ip().filter_map(|argument| argument.host_name.as_ref());
        plan.host_name = names.last().cloned();
    }
    plan.carrier_timeout = args.carrier_timeout;
    let mut warn = |text: &str| {
        let verb = if document == "keyfiles" { "are" } else { "is" };
        plan.warnings
            .push(format!("{text}: ignored, because there {verb} {document}"));
    };
    for argument in unused {
        warn(argument.text());
    }
    if !args.routes.is_empty() {
        warn("rd.route=");
    }
    if !args.nameservers.is_empty() {
        warn("nameserver=");
    }
    if !args.global_dns.is_empty() {
        warn("rd.net.dns=");
    }
}

#[cfg(test)]
mod tests;
