//! Replaces bridges of Open vSwitch, because the ramdisk has no Open vSwitch. In the
//! ramdisk, the uplink of a bridge gets the addresses of the bridge's interfaces, as for
//! NMState (`from_nmstate/ovs_profiles.rs`).

use crate::findings::Findings;
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, IpPlan, Method};

/// A port of Open vSwitch with one of these settings is a bond, even if it has one
/// member.
const BOND_KEYS: &[&str] = &["bond-mode", "lacp", "bond-updelay", "bond-downdelay"];

/// Splits the interfaces into those of the ramdisk and those that only the installed
/// system has.
pub(super) fn split(all: Vec<Interface>, findings: &Findings) -> (Vec<Interface>, Vec<Interface>) {
    let mut ramdisk = Vec::new();
    let mut installed = Vec::new();
    for interface in all {
        let is_part = matches!(interface.kind, InterfaceKind::OpenVswitch { .. });
        let is_port = interface.profile.port_type == Some("ovs-port");
        if is_port && !is_part {
            ramdisk.push(without_bridge(&interface));
        }
        match is_part || is_port {
            true => installed.push(interface),
            false => ramdisk.push(interface),
        }
    }
    let bridges: Vec<String> = { installed.iter() }
        .filter(|interface| is_of(interface, "ovs-bridge"))
        .map(name_of)
        .collect();
    for bridge in bridges {
        in_ramdisk(&bridge, &installed, &mut ramdisk, findings);
    }
    (ramdisk, installed)
}

fn is_of(interface: &Interface, wanted: &str) -> bool {
    matches!(interface.kind, InterfaceKind::OpenVswitch { profile_type } if profile_type == wanted)
}

fn name_of(interface: &Interface) -> String {
    interface.matches.name.clone().unwrap_or_default()
}

/// Returns a port of Open vSwitch as it is in the ramdisk: an interface without
/// controller and without addresses.
fn without_bridge(interface: &Interface) -> Interface {
    let mut interface = interface.clone();
    interface.controller = None;
    interface.profile.port_type = None;
    interface.profile.is_ramdisk_only = true;
    for section in ["ovs-external-ids", "ovs-other-config"] {
        interface.profile.settings.remove(section);
    }
    interface.ipv4 = Some(IpPlan::new(Method::Disabled));
    interface.ipv6 = Some(IpPlan::new(Method::Disabled));
    interface
}

/// Gives the uplink of a bridge the addresses of the bridge's interfaces.
fn in_ramdisk(
    bridge: &str,
    installed: &[Interface],
    ramdisk: &mut Vec<Interface>,
    findings: &Findings,
) {
    let ports: Vec<&Interface> = { installed.iter() }
        .filter(|port| is_of(port, "ovs-port") && port.controller.as_deref() == Some(bridge))
        .collect();
    let is_inside = |interface: &&Interface, port: &Interface| {
        is_of(interface, "ovs-interface") && interface.controller == port.matches.name
    };
    let has_addresses =
        |interface: &Interface| interface.families().any(|ip| ip.method != Method::Disabled);
    let mut inside = Vec::new();
    let mut outside = Vec::new();
    for port in ports {
        match installed.iter().find(|i| is_inside(i, port)) {
            Some(found) if has_addresses(found) && !found.down => inside.push((port, found)),
            Some(_) => {}
            None => outside.push(port),
        }
    }
    let [port] = outside[..] else {
        if inside.is_empty() {
            return;
        }
        let words = format!(
            "the ramdisk has no Open vSwitch and expects one uplink, found {}: it configures no \
             address of this bridge",
            outside.len()
        );
        return findings.warn(bridge, words);
    };
    match uplink(port, installed, ramdisk) {
        Some(uplink) => give_addresses(bridge, &inside, uplink, ramdisk, findings),
        None if inside.is_empty() => {}
        None => {
            let words = "no file describes its uplink: the ramdisk configures no address of it";
            findings.warn(bridge, words);
        }
    }
}

/// Returns the index in `ramdisk` of the interface that connects the bridge with the
/// external network. `None` if no file describes it. A bond of Open vSwitch becomes a
/// bond of the kernel.
fn uplink(
    port: &Interface,
    installed: &[Interface],
    ramdisk: &mut Vec<Interface>,
) -> Option<usize> {
    let is_member = |interface: &&Interface| {
        interface.profile.port_type == Some("ovs-port")
            && !is_of(interface, "ovs-interface")
            && interface.controller == port.matches.name
    };
    let members = installed.iter().filter(is_member);
    let place = |member: &Interface| {
        let mut interfaces = ramdisk.iter();
        interfaces.position(|i| i.profile.is_ramdisk_only && i.matches == member.matches)
    };
    let members: Vec<usize> = members.filter_map(place).collect();
    let settings = port.profile.settings.get("ovs-port");
    let has = |key: &&str| settings.is_some_and(|settings| settings.contains_key(*key));
    if members.len() < 2 && !BOND_KEYS.iter().any(has) {
        return members.first().copied();
    }
    let lacp = settings.and_then(|settings| settings.get("lacp"));
    let mode = match lacp.map(String::as_str) {
        Some("active") => "802.3ad",
        _ => "active-backup",
    };
    for member in members {
        let member = &mut ramdisk[member];
        member.controller.clone_from(&port.matches.name);
        (member.ipv4, member.ipv6) = (None, None);
    }
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut bond = Interface::new(InterfaceMatch::named(name_of(port)));
    bond.kind = InterfaceKind::Bond {
        options: [option("mode", mode), option("miimon", "100")].into(),
    };
    bond.profile.is_ramdisk_only = true;
    bond.ipv4 = Some(IpPlan::new(Method::Disabled));
    bond.ipv6 = Some(IpPlan::new(Method::Disabled));
    ramdisk.push(bond);
    Some(ramdisk.len() - 1)
}

/// Gives the uplink the addresses of these pairs of port and interface. An interface
/// whose port has a VLAN tag becomes a VLAN on the uplink. Of the interfaces without a
/// tag, only the first one's addresses are used; the others cause a warning.
fn give_addresses(
    bridge: &str,
    inside: &[(&Interface, &Interface)],
    uplink: usize,
    ramdisk: &mut Vec<Interface>,
    findings: &Findings,
) {
    let warn = |words: String| {
        findings.warn(bridge, format!("the ramdisk has no Open vSwitch: {words}"));
    };
    let up = name_of(&ramdisk[uplink]);
    let mut first: Option<String> = None;
    for (port, interface) in inside {
        let name = name_of(interface);
        let settings = port.profile.settings.get("ovs-port");
        let tag = settings.and_then(|settings| settings.get("tag")?.parse().ok());
        if let Some(id) = tag.filter(|id| *id != 0) {
            let mut vlan = Interface::new(interface.matches.clone());
            vlan.kind = InterfaceKind::Vlan {
                id,
                parent: ramdisk[uplink].matches.name.clone(),
                parent_mac: ramdisk[uplink].matches.mac,
                service: false,
            };
            vlan.profile.is_ramdisk_only = true;
            (vlan.set_mac, vlan.mtu) = (interface.set_mac, interface.mtu);
            (vlan.ipv4, vlan.ipv6) = (interface.ipv4.clone(), interface.ipv6.clone());
            ramdisk.push(vlan);
            warn(format!("{name} is VLAN {id} on {up}"));
            continue;
        }
        match &first {
            None => {
                let target = &mut ramdisk[uplink];
                (target.ipv4, target.ipv6) = (interface.ipv4.clone(), interface.ipv6.clone());
                target.set_mac = interface.set_mac.or(target.set_mac);
                warn(format!("{up} has the addresses of {name}"));
                first = Some(name);
            }
            Some(first) => warn(format!(
                "{up} has the addresses of {first}, and nothing has those of {name}"
            )),
        }
    }
}
