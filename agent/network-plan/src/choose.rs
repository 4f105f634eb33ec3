//! Several sources, one plan.
//!
//! As CoreOS has it, a file beats arguments: network_data of this boot's
//! media, then kernel arguments, then DHCP and router advertisements on every
//! NIC. A source that is of no use is told, and the next takes its place.

use std::fmt;

use landfall_boot_params::NetArgs;
use landfall_boot_params::dracut_net::{InterfaceArgument, IpMethod};

use crate::plan::NetworkPlan;

/// What describes the network of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// network_data.json of the medium that the machine was booted from.
    NetworkData,
    /// dracut's network arguments.
    KernelArguments,
    /// Nothing: the network itself is asked.
    Default,
}

impl Source {
    /// How the state file calls it.
    pub fn key(self) -> &'static str {
        match self {
            Source::NetworkData => "network_data",
            Source::KernelArguments => "kernel_arguments",
            Source::Default => "default",
        }
    }

    /// Where a static address is from, as the console tells it.
    pub fn of_address(self) -> &'static str {
        match self {
            Source::NetworkData => "network_data",
            Source::KernelArguments | Source::Default => "kernel argument ip=",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::NetworkData => "network_data of the boot medium",
            Source::KernelArguments => "kernel arguments",
            Source::Default => "no instructions, every NIC asks its network",
        })
    }
}

/// The plan to boot with, and why it is that one.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The plan. Its warnings are those of its source.
    pub plan: NetworkPlan,
    /// Where it is from.
    pub source: Source,
    /// Faults of sources that would have come first, one line each.
    pub faults: Vec<String>,
}

impl Choice {
    /// Chooses. `network_data` is the text of the file, where there is one.
    pub fn for_boot(network_data: Option<&str>, args: &NetArgs) -> Choice {
        let mut faults = Vec::new();
        match network_data.map(NetworkPlan::from_network_data) {
            Some(Ok(plan)) => {
                return Choice {
                    plan: complete(plan, args),
                    source: Source::NetworkData,
                    faults,
                };
            }
            Some(Err(error)) => {
                faults.push(format!("network_data: {error}; it is not used"));
                let single = error.warnings().iter();
                faults.extend(single.map(|fault| format!("network_data: {fault}")));
            }
            None => {}
        }
        let source = if args.says_something() {
            Source::KernelArguments
        } else {
            Source::Default
        };
        Choice {
            plan: NetworkPlan::for_boot(args),
            source,
            faults,
        }
    }
}

/// Adds what a boot has besides: NICs that the document does not mention are
/// asked for their network, unless `ip=off` forbids it.
fn complete(mut plan: NetworkPlan, args: &NetArgs) -> NetworkPlan {
    for warning in &mut plan.warnings {
        warning.insert_str(0, "network_data: ");
    }
    plan.warnings.extend(args.warnings.iter().cloned());
    for argument in args.ip() {
        if argument.host_name.is_some() {
            plan.host_name.clone_from(&argument.host_name);
        }
    }
    plan.carrier_timeout = args.carrier_timeout;
    let is_off = |argument: &&InterfaceArgument| match argument {
        InterfaceArgument::Ip(ip) => {
            ip.device.is_none() && ip.address.is_none() && ip.method == IpMethod::None
        }
        _ => false,
    };
    for argument in args.interfaces.iter().filter(|argument| !is_off(argument)) {
        let text = argument.text();
        plan.warnings
            .push(format!("{text}: not used, as there is network_data"));
    }
    let others = NetArgs {
        interfaces: args.interfaces.iter().filter(is_off).cloned().collect(),
        accept_peer_dns: args.accept_peer_dns,
        dhcp_timeout: args.dhcp_timeout,
        dhcp_vendor_class: args.dhcp_vendor_class.clone(),
        ..NetArgs::default()
    };
    plan.interfaces
        .extend(NetworkPlan::for_boot(&others).interfaces);
    plan.sort();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Method;
    use landfall_boot_params::CommandLine;

    const DATA: &str = r#"{"links": [
        {"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
        "networks": [{"id": "n", "type": "ipv4", "link": "a",
            "ip_address": "192.0.2.10", "netmask": "255.255.255.0"}]}"#;

    fn choice(data: Option<&str>, line: &str) -> Choice {
        let args = NetArgs::from_command_line(&CommandLine::parse(line));
        Choice::for_boot(data, &args)
    }

    #[test]
    fn the_medium_goes_before_arguments_and_these_before_nothing() {
        for (data, line, source) in [
            (Some(DATA), "ip=dhcp", Source::NetworkData),
            (Some("{"), "ip=dhcp", Source::KernelArguments),
            (Some("{}"), "quiet", Source::Default),
            (None, "ip=dhcp", Source::KernelArguments),
            (
                None,
                "rd.route=10.0.0.0/8:192.0.2.1",
                Source::KernelArguments,
            ),
            (None, "BOOTIF=01-52-54-00-00-00-01", Source::Default),
            (None, "", Source::Default),
        ] {
            let choice = choice(data, line);
            assert_eq!(choice.source, source, "{data:?} {line}");
            assert_eq!(
                choice.faults.is_empty(),
                source == Source::NetworkData || data.is_none()
            );
        }
        assert_eq!(
            choice(Some("[]"), "").faults,
            ["network_data: expected an object with links and networks; it is not used"]
        );
        let bad = r#"{"links": [{"id": "a", "type": "phy"}]}"#;
        assert_eq!(
            choice(Some(bad), "").faults,
            [
                "network_data: no link of it can be used; it is not used",
                "network_data: link a has no usable ethernet_mac_address; ignored"
            ]
        );
    }

    #[test]
    fn other_nics_are_asked_unless_that_is_off() {
        for (line, method) in [
            ("", Method::Auto),
            ("ip=eth0:off", Method::Auto),
            ("ip=off", Method::Disabled),
            ("ip=:off", Method::Disabled),
        ] {
            let choice = choice(Some(DATA), line);
            assert_eq!(choice.plan.interfaces.len(), 2, "{line}");
            let others = &choice.plan.interfaces[0];
            assert!(others.matches.is_any() && others.multi, "{line}");
            assert_eq!(others.ipv4.as_ref().unwrap().method, method, "{line}");
            assert_eq!(others.ipv6.as_ref().unwrap().method, method, "{line}");
        }
        let told = choice(
            Some(DATA),
            "ip=192.0.2.1:::24:node7:eth0:none rd.net.timeout.carrier=3",
        );
        assert_eq!(
            told.plan.warnings,
            ["ip=192.0.2.1:::24:node7:eth0:none: not used, as there is network_data"]
        );
        assert_eq!(told.plan.host_name.as_deref(), Some("node7"));
        assert_eq!(told.plan.carrier_timeout, Some(3));
    }
}
