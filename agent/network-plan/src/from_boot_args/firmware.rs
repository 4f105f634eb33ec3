//! Turns the firmware's configuration for an iSCSI boot into interfaces.

use std::collections::BTreeMap;

use landfall_boot_params::firmware_nics::AddressOrigin;
use landfall_boot_params::{FirmwareNic, FirmwareNics, FirmwareRecord, MacAddr};

use super::profiles::{Profiles, add_once, automatic};
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, IpPlan, Method};

/// `ip=ibft`, `rd.iscsi.ibft`: adds an interface for each NIC in the firmware's
/// table.
pub(super) fn add_all(
    profiles: &mut Profiles,
    argument: &str,
    firmware: &FirmwareNics,
    warnings: &mut Vec<String>,
) {
    let mut complain = |fault: &str| warnings.push(format!("{argument}: {fault}"));
    // If two records are for one NIC, the later one takes effect. The interfaces
    // are in the order of the hardware addresses.
    let mut records = BTreeMap::new();
    for record in &firmware.records {
        match record.mac() {
            Some(mac) => drop(records.insert(mac, record)),
            None => complain(&format!(
                "the firmware's record {} has no hardware address; this NIC is ignored",
                record.name
            )),
        }
    }
    if firmware.records.is_empty() {
        complain(
            "expected a table of NICs from the firmware (iBFT), found none; the argument is ignored",
        );
    }
    for record in records.values() {
        match record.parse() {
            Ok(nic) => match &nic.index {
                Some(index) => profiles.put(format!("ibft{index}"), interface(&nic)),
                None => complain(&format!(
                    "the firmware's record {} has no index; this NIC is ignored",
                    record.name
                )),
            },
            Err(fault) => complain(&format!("{fault}; this NIC is ignored")),
        }
    }
}

/// `ip=INTERFACE:ibft`: applies the table's record for this one NIC.
pub(super) fn apply(
    interface: &mut Interface,
    argument: &str,
    firmware: &FirmwareNics,
    warnings: &mut Vec<String>,
) {
    let mut complain = |fault: &str| {
        warnings.push(format!(
            "{argument}: {fault}; DHCP and router advertisements are used instead"
        ));
    };
    let Some(mac) = address_of(&interface.matches, firmware) else {
        complain(&format!(
            "no NIC was called {} when the agent read the argument",
            interface.matches
        ));
        return;
    };
    let is_for = |record: &&FirmwareRecord| record.mac() == Some(mac);
    match firmware
        .records
        .iter()
        .rfind(is_for)
        .map(FirmwareRecord::parse)
    {
        Some(Ok(nic)) => merge(interface, &nic),
        Some(Err(fault)) => complain(&fault.to_string()),
        None => complain(&format!(
            "the firmware's table of NICs (iBFT) has no entry for {mac}"
        )),
    }
}

fn address_of(matches: &InterfaceMatch, firmware: &FirmwareNics) -> Option<MacAddr> {
    matches.mac.or_else(|| {
        let name = matches.name.as_deref()?;
        let mut known = firmware.interfaces.iter();
        known.find(|(known, _)| known == name).map(|(_, mac)| *mac)
    })
}

fn interface(nic: &FirmwareNic) -> Interface {
    let mut interface = Interface {
        ipv4: Some(automatic()),
        ipv6: Some(automatic()),
        ..Interface::new(InterfaceMatch::default())
    };
    merge(&mut interface, nic);
    interface
}

/// Binds the interface to the NIC of the record, or to the VLAN on that NIC. Gives it the
/// record's IP settings and switches the other IP family off.
fn merge(interface: &mut Interface, nic: &FirmwareNic) {
    interface.matches = InterfaceMatch::with_mac(nic.mac);
    if let Some(id) = nic.vlan {
        interface.kind = InterfaceKind::Vlan {
            id,
            parent: None,
            parent_mac: Some(nic.mac),
            service: false,
        };
    }
    let other = interface.family_mut(!nic.is_ipv4);
    other.get_or_insert_with(automatic).method = Method::Disabled;
    let used = interface.family_mut(nic.is_ipv4);
    merge_family(used.get_or_insert_with(automatic), nic);
}

pub(super) fn merge_family(ip: &mut IpPlan, nic: &FirmwareNic) {
    ip.method = match nic.origin {
        AddressOrigin::Static => Method::Manual,
        AddressOrigin::Dhcp if !nic.is_ipv4 => Method::Dhcp,
        AddressOrigin::Dhcp | AddressOrigin::RouterAdvertisement => Method::Auto,
    };
    ip.required = true;
    if let Some(prefix) = nic.address {
        add_once(&mut ip.addresses, prefix);
        ip.gateway = nic.gateway;
    }
    for server in &nic.dns {
        add_once(&mut ip.dns, *server);
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::NetArgs;

    use super::*;
    use crate::NetworkPlan;
    use crate::describe::describe;

    const V4: &str = "index=0 mac=00:53:00:ab:00:01 origin=1 ip-addr=192.0.2.15 prefix-len=24 \
                      gateway=192.0.2.1 primary-dns=192.0.2.53 secondary-dns=0.0.0.0";
    const V6: &str = "index=1 mac=00:53:00:ab:00:02 origin=4 ip-addr=2001:db8::15 prefix-len=64 \
                      gateway=2001:db8::1 vlan=7";

    fn record(name: &str, text: &str) -> FirmwareRecord {
        let files = text.split_whitespace().filter_map(|w| w.split_once('='));
        FirmwareRecord {
            name: name.to_owned(),
            files: files
                .map(|(name, content)| (name.to_owned(), content.to_owned()))
                .collect(),
        }
    }

    /// The plan for the command line `line` on a machine with these two NICs in its iBFT,
    /// as the console prints it, and its warnings. `more` overrides values of the first
    /// record.
    fn lines(line: &str, more: &str) -> Vec<String> {
        let mut args = NetArgs::parse(line);
        args.firmware = FirmwareNics {
            records: vec![
                record("ethernet0", &format!("{V4} {more}")),
                record("ethernet1", V6),
            ],
            interfaces: vec![
                ("eth0".to_owned(), MacAddr([0, 0x53, 0, 0xab, 0, 1])),
                ("eth5".to_owned(), MacAddr([0, 0x53, 0, 0xab, 0, 5])),
            ],
            nvme: Vec::new(),
        };
        let mut plan = NetworkPlan::from_boot_args(&args);
        let mut lines = describe(&plan);
        lines.append(&mut plan.warnings);
        lines
    }

    // NetworkManager's generator (git of 2026-08) gives the same result for this
    // table.
    #[test]
    fn interfaces_are_as_the_firmware_has_them() {
        let first = [
            "the NIC with MAC 00:53:00:ab:00:01: IPv4 192.0.2.15/24, gateway 192.0.2.1, \
             DNS 192.0.2.53 0.0.0.0",
            "the NIC with MAC 00:53:00:ab:00:01: IPv6 off",
        ];
        let second = [
            "the NIC with MAC 00:53:00:ab:00:02: VLAN 7",
            "the NIC with MAC 00:53:00:ab:00:02: IPv4 off",
            "the NIC with MAC 00:53:00:ab:00:02: IPv6 2001:db8::15/64, \
             by router advertisements, gateway 2001:db8::1",
        ];
        let both = [&first[..], &second].concat();
        for (line, expected) in [
            ("ip=ibft", both.clone()),
            ("rd.iscsi.ibft", both.clone()),
            ("rd.iscsi.ibft=1 ip=ibft", both),
            ("ip=eth0:ibft", first.to_vec()),
            ("ip=00-53-00-ab-00-02:ibft", second.to_vec()),
            (
                "ip=eth5:ibft",
                vec![
                    "eth5: IPv4 by DHCP",
                    "eth5: IPv6 by router advertisements",
                    "ip=eth5:ibft: the firmware's table of NICs (iBFT) has no entry for 00:53:00:ab:00:05; DHCP and router advertisements are used instead",
                ],
            ),
            (
                "ip=eth9:ibft",
                vec![
                    "eth9: IPv4 by DHCP",
                    "eth9: IPv6 by router advertisements",
                    "ip=eth9:ibft: no NIC was called eth9 when the agent read the argument; DHCP and router advertisements are used instead",
                ],
            ),
        ] {
            assert_eq!(lines(line, ""), expected, "{line}");
        }
        let late = lines("ip=ibft nameserver=192.0.2.99", "");
        assert!(
            late[0].ends_with("DNS 192.0.2.53 0.0.0.0 192.0.2.99"),
            "{late:?}"
        );
        let by_dhcp = lines("ip=ibft", "origin=3");
        assert!(by_dhcp[0].contains("192.0.2.15/24, by DHCP"), "{by_dhcp:?}");
    }

    #[test]
    fn a_record_that_cannot_be_used_is_a_warning() {
        let found = lines("ip=ibft", "prefix-len=33");
        assert_eq!(
            found.last().map(String::as_str),
            Some("ip=ibft: ethernet0: prefix-len: \"33\" cannot be used; this NIC is ignored")
        );
        assert!(found[0].contains("00:53:00:ab:00:02"), "{found:?}");
    }
}
