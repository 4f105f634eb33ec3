//! Adds the NICs over which the firmware has booted by NVMe/TCP (the table NBFT), with the
//! network of the table.
//!
//! NetworkManager's generator has done the same since version 1.53
//! (`nmi-nbft-reader.c`, git of 2026-08). It needs no argument for this, but an
//! argument can prevent it: then [`NetArgs::uses_nbft_network`] is false. Three things
//! differ:
//!
//! * NetworkManager's profiles of arguments have a higher priority than those of the
//!   table. So with `ip=dhcp` NetworkManager requests a lease on every NIC. A NIC gets
//!   the address of the table only if no server offers a lease. Here the NIC gets both:
//!   the storage needs the address of the table, and the same NIC may lead to the
//!   provisioning network, where the machine needs a lease or router advertisements.
//!   Both programs give precedence to an argument with the name or the MAC address of
//!   the NIC.
//! * A host name of the arguments takes precedence over one of the table.
//! * With a VLAN, the NIC itself stays available for other interfaces of the plan: the
//!   provisioning network may be untagged on the same NIC.

use std::collections::BTreeMap;

use landfall_boot_params::{FirmwareNic, MacAddr, NetArgs};

use super::firmware::merge_family;
use super::profiles::{Profiles, automatic};
use super::storage_gateway;
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, Method, NetworkPlan, Profile};

/// Adds an interface for each NIC and each VLAN of the table. Skips a NIC if an interface
/// of the arguments has its MAC address.
pub(super) fn add_nics(profiles: &mut Profiles, args: &NetArgs, plan: &mut NetworkPlan) {
    if !args.uses_nbft_network() {
        return;
    }
    let general = profiles.of_all_nics().cloned();
    // A NIC with IPv4 and IPv6 has two entries in the table, one per family.
    let mut nics: BTreeMap<(MacAddr, Option<u16>), Interface> = BTreeMap::new();
    for nic in &args.firmware.nvme {
        let place = (nic.mac, nic.vlan);
        let interface = nics
            .entry(place)
            .or_insert_with(|| interface(nic, general.as_ref()));
        merge(interface, nic);
        plan.host_name = plan.host_name.take().or_else(|| nic.host_name.clone());
    }
    for ((mac, vlan), mut interface) in nics {
        if vlan.is_some() || !profiles.has_nic(mac) {
            let name = match vlan {
                None => format!("nbft-{mac}"),
                Some(id) => format!("nbft-{mac}.{id}"),
            };
            for ip in interface.families_mut() {
                storage_gateway::limit_to_static_addresses(ip, &mut plan.rules);
            }
            profiles.put(name, interface);
        }
    }
}

/// The new interface for an entry of the table. It starts with `general`, the plan's
/// settings for all NICs, or with both families off if there are none. A VLAN of the
/// table is only for the storage and never starts with `general`.
fn interface(nic: &FirmwareNic, general: Option<&Interface>) -> Interface {
    let profile = Profile {
        is_of_firmware: true,
        ..Profile::default()
    };
    let matches = InterfaceMatch::with_mac(nic.mac);
    if let Some(general) = general.filter(|_| nic.vlan.is_none()) {
        let mut interface = Interface {
            matches,
            multi: false,
            needed: false,
            profile,
            ..general.clone()
        };
        for ip in interface.families_mut() {
            // A gateway has no effect without a static address, and the settings for all
            // NICs have none. With the static address of the table, it would take effect.
            ip.gateway = None;
        }
        return interface;
    }
    let off = || {
        let mut ip = automatic();
        ip.method = Method::Disabled;
        Some(ip)
    };
    Interface {
        profile,
        kind: match nic.vlan {
            None => InterfaceKind::Ethernet,
            Some(id) => InterfaceKind::Vlan {
                id,
                parent: None,
                parent_mac: Some(nic.mac),
                service: false,
            },
        },
        ipv4: off(),
        ipv6: off(),
        ..Interface::new(matches)
    }
}

fn merge(interface: &mut Interface, nic: &FirmwareNic) {
    let family = interface.family_mut(nic.is_ipv4);
    let ip = family.get_or_insert_with(automatic);
    let (method, required) = (ip.method, ip.required);
    merge_family(ip, nic);
    // The boot continues without the storage network, so the table does not make the
    // family required.
    ip.required = required;
    if method.is_automatic() {
        ip.method = method;
    }
    if ip.method.is_automatic() && nic.host_name.is_some() {
        ip.automatic.host_name.clone_from(&nic.host_name);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use landfall_boot_params::IpPrefix;
    use landfall_boot_params::firmware_nics::AddressOrigin;

    use super::*;
    use crate::describe::describe;

    const MAC: MacAddr = MacAddr([0, 0x53, 0, 0xab, 0, 1]);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn fixed(address: &str, length: u8) -> FirmwareNic {
        let address = ip(address);
        FirmwareNic {
            index: Some("1".to_owned()),
            mac: MAC,
            vlan: None,
            origin: AddressOrigin::Static,
            is_ipv4: address.is_ipv4(),
            address: Some(IpPrefix { address, length }),
            gateway: None,
            dns: Vec::new(),
            host_name: None,
        }
    }

    fn lines(line: &str, nics: &[FirmwareNic]) -> Vec<String> {
        let mut args = NetArgs::parse(line);
        args.firmware.nvme = nics.to_vec();
        let mut plan = NetworkPlan::for_boot(&args);
        let mut lines = describe(&plan);
        lines.append(&mut plan.warnings);
        lines
    }

    const ADDRESS: &str = "the NIC with MAC 00:53:00:ab:00:01: IPv4 192.0.2.15/24";

    fn with_gateway() -> FirmwareNic {
        FirmwareNic {
            gateway: Some(ip("192.0.2.1")),
            dns: vec![ip("192.0.2.53")],
            ..fixed("192.0.2.15", 24)
        }
    }

    /// If this is the machine's only NIC, it may lead to both the storage and Ironic.
    #[test]
    fn the_nic_of_the_table_gets_its_network_and_the_default() {
        for line in ["", "quiet", "ip=dhcp", "rd.neednet=1", "rd.nvmf.nonbft=0"] {
            let found = lines(line, &[with_gateway()]);
            for expected in [
                format!("{ADDRESS}, by DHCP, 0.0.0.0/0 via 192.0.2.1, DNS 192.0.2.53"),
                "rule: priority 30001 from 192.0.2.15/32 table 4420".to_owned(),
                "the NIC with MAC 00:53:00:ab:00:01: IPv6 by router advertisements".to_owned(),
            ] {
                assert!(found.contains(&expected), "{line}: {expected}: {found:#?}");
            }
            let others = found
                .iter()
                .filter(|line| line.starts_with("every other NIC: "));
            assert_eq!(others.count(), 2, "{line}: {found:?}");
        }
    }

    #[test]
    fn without_dhcp_for_all_nics_there_is_the_network_of_the_table_alone() {
        for line in ["ip=off", "ip=eth7:dhcp", "ip=192.0.2.99:::24:::none"] {
            let found = lines(line, &[with_gateway()]);
            for expected in [
                format!("{ADDRESS}, 0.0.0.0/0 via 192.0.2.1, DNS 192.0.2.53"),
                "rule: priority 30001 from 192.0.2.15/32 table 4420".to_owned(),
                "the NIC with MAC 00:53:00:ab:00:01: IPv6 off".to_owned(),
            ] {
                assert!(found.contains(&expected), "{line}: {expected}: {found:#?}");
            }
        }
    }

    #[test]
    fn arguments_switch_the_table_off_or_take_the_nic() {
        for line in [
            "rd.nvmf.nonbft",
            "rd.nvmf.nonbft=1",
            "rd.nonvmf",
            "ifname=nbft0:00:53:00:ab:00:01",
            "ip=00-53-00-ab-00-01:dhcp",
            "ip=dhcp BOOTIF=01-00-53-00-ab-00-01",
        ] {
            let found = lines(line, &[with_gateway()]);
            let has = found.iter().any(|line| line.contains("192.0.2.15"));
            assert!(!has, "{line}: {found:?}");
        }
        // An argument with the name of a NIC is not compared with the table, because the
        // name is known only later. When the NIC appears, the interface with its name
        // takes precedence.
        let mut args = NetArgs::parse("ip=eth0:dhcp");
        args.firmware.nvme = vec![with_gateway()];
        let plan = NetworkPlan::for_boot(&args);
        let first = plan.candidates(&["eth0"], &[MAC])[0];
        assert_eq!(plan.interfaces[first].matches.name.as_deref(), Some("eth0"));
    }

    #[test]
    fn both_families_and_a_vlan() {
        let vlan = FirmwareNic {
            vlan: Some(7),
            ..fixed("198.51.100.15", 24)
        };
        let found = lines(
            "ip=off",
            &[fixed("192.0.2.15", 24), fixed("2001:db8::15", 64), vlan],
        );
        for expected in [
            "the NIC with MAC 00:53:00:ab:00:01: IPv4 192.0.2.15/24",
            "the NIC with MAC 00:53:00:ab:00:01: IPv6 2001:db8::15/64",
            "the NIC with MAC 00:53:00:ab:00:01: VLAN 7",
            "the NIC with MAC 00:53:00:ab:00:01: IPv4 198.51.100.15/24",
        ] {
            assert!(found.contains(&expected.to_owned()), "{found:?}");
        }
    }

    #[test]
    fn leases_and_host_names() {
        let dhcp = FirmwareNic {
            address: None,
            origin: AddressOrigin::Dhcp,
            host_name: Some("node7".to_owned()),
            ..fixed("192.0.2.15", 24)
        };
        let found = lines("", std::slice::from_ref(&dhcp));
        let expected = "the NIC with MAC 00:53:00:ab:00:01: IPv4 by DHCP";
        assert!(
            found.iter().any(|line| line.starts_with(expected)),
            "{found:?}"
        );
        for (line, name) in [
            ("", "node7"),
            ("ip=192.0.2.9::192.0.2.1:24:other:eth1:none", "other"),
        ] {
            let mut args = NetArgs::parse(line);
            args.firmware.nvme = vec![dhcp.clone()];
            let plan = NetworkPlan::for_boot(&args);
            assert_eq!(plan.host_name.as_deref(), Some(name), "{line}");
        }
    }
}
