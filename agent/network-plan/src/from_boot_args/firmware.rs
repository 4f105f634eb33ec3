//! What the firmware has set up for an iSCSI boot → interfaces.

use std::collections::BTreeMap;

use landfall_boot_params::firmware_nics::AddressOrigin;
use landfall_boot_params::{FirmwareNic, FirmwareNics, FirmwareRecord, MacAddr};

use super::profiles::{Profiles, automatic};
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, IpPlan, IpPrefix, Method};

/// `ip=ibft`, `rd.iscsi.ibft`: an interface for each NIC of the table.
pub(super) fn add_all(
    profiles: &mut Profiles,
    argument: &str,
    firmware: &FirmwareNics,
    warnings: &mut Vec<String>,
) {
    let mut complain = |fault: &str| warnings.push(format!("{argument}: {fault}; ignored"));
    // Of two records for one NIC the later counts; they are taken in the order
    // of their addresses.
    let mut records = BTreeMap::new();
    for record in &firmware.records {
        match record.mac() {
            Some(mac) => drop(records.insert(mac, record)),
            None => complain(&format!("{}: no hardware address", record.name)),
        }
    }
    if firmware.records.is_empty() {
        complain("the firmware has no table of NICs (iBFT)");
    }
    for record in records.values() {
        match record.parse() {
            Ok(nic) => match &nic.index {
                Some(index) => profiles.put(format!("ibft{index}"), interface(&nic)),
                None => complain(&format!("{}: index is missing", record.name)),
            },
            Err(fault) => complain(&fault),
        }
    }
}

/// `ip=INTERFACE:ibft`: what the table says of this one NIC.
pub(super) fn apply(
    interface: &mut Interface,
    argument: &str,
    firmware: &FirmwareNics,
    warnings: &mut Vec<String>,
) {
    let mut complain = |fault: &str| {
        warnings.push(format!(
            "{argument}: {fault}; the network is asked for addresses"
        ));
    };
    let Some(mac) = address_of(&interface.matches, firmware) else {
        complain(&format!("no NIC is called {} yet", interface.matches));
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
        Some(Err(fault)) => complain(&fault),
        None => complain(&format!("the firmware knows nothing of {mac}")),
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
        matches: InterfaceMatch::default(),
        kind: InterfaceKind::Ethernet,
        multi: false,
        controller: None,
        mtu: None,
        set_mac: None,
        ethtool: None,
        needed: false,
        ipv4: Some(automatic()),
        ipv6: Some(automatic()),
    };
    merge(&mut interface, nic);
    interface
}

/// Binds the interface to the NIC, or to the VLAN on it.
fn merge(interface: &mut Interface, nic: &FirmwareNic) {
    interface.matches = InterfaceMatch {
        name: None,
        mac: Some(nic.mac),
    };
    if let Some(id) = nic.vlan {
        interface.kind = InterfaceKind::Vlan {
            id,
            parent: None,
            parent_mac: Some(nic.mac),
        };
    }
    let Interface { ipv4, ipv6, .. } = interface;
    let (used, other) = if nic.is_ipv4 {
        (ipv4, ipv6)
    } else {
        (ipv6, ipv4)
    };
    other.get_or_insert_with(automatic).method = Method::Disabled;
    merge_family(used.get_or_insert_with(automatic), nic);
}

fn merge_family(ip: &mut IpPlan, nic: &FirmwareNic) {
    ip.method = match nic.origin {
        AddressOrigin::Static => Method::Manual,
        AddressOrigin::Dhcp if !nic.is_ipv4 => Method::Dhcp,
        AddressOrigin::Dhcp | AddressOrigin::RouterAdvertisement => Method::Auto,
    };
    ip.required = true;
    if let Some((address, length)) = nic.address {
        super::add_once(&mut ip.addresses, IpPrefix { address, length });
        ip.gateway = nic.gateway;
    }
    for server in &nic.dns {
        super::add_once(&mut ip.dns, *server);
    }
}
