//! Writes the name of an interface as arguments refer to it, and the arguments
//! about its link.

use std::net::Ipv6Addr;

use crate::bond_option::{BondValue, bond_value};
use crate::plan::{Interface, InterfaceKind};
use crate::team_runner;

/// Characters that separate fields, so no name may contain them.
const SEPARATORS: &[char] = &[':', ',', ';', '=', '[', ']', '"'];

/// The text by which arguments refer to this interface: its name, or its
/// hardware address if it has no name. The text is empty for the interface that
/// matches every NIC. Returns `None` if no argument can refer to it, for
/// example to a VLAN that has no name yet.
pub(super) fn device(interface: &Interface) -> Option<String> {
    let matches = &interface.matches;
    match (&matches.name, &interface.kind) {
        (Some(name), _) => (!name.contains(SEPARATORS)).then(|| name.clone()),
        // Write hyphens, because a colon would end the field.
        (None, InterfaceKind::Ethernet) => {
            let mac = matches.mac.map(|mac| mac.to_string().replace(':', "-"));
            Some(mac.unwrap_or_default())
        }
        (None, InterfaceKind::Infiniband { mac: Some(mac), .. }) => {
            Some(mac.to_string().replace(':', "-"))
        }
        (None, _) => None,
    }
}

/// The arguments that create a virtual interface or configure a driver.
pub(super) fn link_arguments(interface: &Interface, all: &[Interface]) -> Vec<String> {
    let Some(device) = device(interface).filter(|device| !device.is_empty()) else {
        return Vec::new();
    };
    let mut arguments = Vec::new();
    match &interface.kind {
        InterfaceKind::Ethernet => {}
        // NetworkManager cannot find a parent by its address, so a VLAN without the
        // parent's name gets no argument.
        InterfaceKind::Vlan { parent, .. } => {
            arguments.extend(
                parent
                    .as_ref()
                    .map(|parent| format!("vlan={device}:{parent}")),
            );
        }
        InterfaceKind::Bond { options } => {
            let options: Vec<_> = options
                .iter()
                .map(|(name, value)| format!("{name}={}", bond_text(name, value)))
                .collect();
            let ports = ports(&device, all);
            arguments.push(format!("bond={device}:{ports}:{}", options.join(",")));
        }
        InterfaceKind::Bridge { .. } => {
            arguments.push(format!("bridge={device}:{}", ports(&device, all)));
        }
        InterfaceKind::Team { bond_mode } => {
            let runner =
                team_runner::runner(bond_mode).filter(|_| *bond_mode != team_runner::DEFAULT);
            let end = runner
                .map(|runner| format!(":{runner}"))
                .unwrap_or_default();
            arguments.push(format!("team={device}:{}{end}", ports(&device, all)));
        }
        // No argument creates these.
        InterfaceKind::Vrf { .. }
        | InterfaceKind::MacVlan { .. }
        | InterfaceKind::IpVlan { .. }
        | InterfaceKind::Veth { .. }
        | InterfaceKind::Loopback
        | InterfaceKind::OpenVswitch { .. } => {}
        InterfaceKind::Infiniband { parent, p_key, .. } => {
            if let (Some(parent), Some(key)) = (parent, p_key) {
                arguments.push(format!("ib.pkey={parent}.{key:04x}"));
            }
        }
    }
    if let Some(ethtool) = interface.ethtool {
        let autoneg = if ethtool.autoneg { "on" } else { "" };
        let speed = ethtool.speed.map(|speed| format!(":{speed}"));
        let speed = speed.unwrap_or_default();
        arguments.push(format!("rd.ethtool={device}:{autoneg}{speed}"));
    }
    arguments
}

fn ports(controller: &str, all: &[Interface]) -> String {
    let is_port = |port: &&Interface| port.controller.as_deref() == Some(controller);
    let mut ports: Vec<_> = all.iter().filter(is_port).collect();
    ports.sort_by_key(|port| port.port_number);
    let ports: Vec<_> = ports.into_iter().filter_map(device).collect();
    ports.join(",")
}

/// The value of a bond option in `bond=`. Commas separate options, so lists use
/// semicolons. Addresses with colons are in brackets.
fn bond_text(name: &str, value: &str) -> String {
    match bond_value(name) {
        Some(BondValue::Mac) => format!("[{value}]"),
        Some(BondValue::Ipv6List) => {
            let is_address = |item: &&str| item.parse::<Ipv6Addr>().is_ok();
            let items = value.split(',').filter(is_address);
            let items: Vec<_> = items.map(|item| format!("[{item}]")).collect();
            items.join(";")
        }
        _ => value.replace(',', ";"),
    }
}
