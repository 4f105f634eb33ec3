//! Turns bridges of Open vSwitch into profiles of the installed system, and into a
//! replacement for the ramdisk: the uplink of a bridge gets the addresses of the
//! bridge's interfaces, so that the ramdisk reaches Ironic.

use super::described::{Described, Interfaces, State};
use super::family::Family;
use super::fields::Findings;
use super::ovs::{OvsBridge, OvsPort};
use crate::plan::{Interface, InterfaceKind, InterfaceMatch};

/// Attaches interfaces to the bridges.
pub(super) fn connect(bridges: &[OvsBridge], all: &mut Interfaces, findings: &Findings) {
    for bridge in bridges {
        for port in &bridge.ports {
            match &port.bond {
                Some((_, members)) => {
                    for (path, name) in members {
                        attach(name, &port.name, path, all, findings);
                    }
                }
                None => attach(&port.name, &port.name, &port.path, all, findings),
            }
        }
        if bridge.ports.is_empty() {
            // nmstate gives a bridge without ports an interface with the bridge's
            // name.
            let named = |d: &&mut Described| d.name == bridge.name;
            match all.list.iter_mut().find(named) {
                Some(described) => described.ovs_port = Some(bridge.name.clone()),
                None => all.list.push(own_interface(bridge)),
            }
        }
    }
    for described in &all.list {
        if described.ovs_port.is_some() && !described.is_ovs_interface() {
            let words = "a port cannot have addresses; move them to an ovs-interface of its bridge";
            described.reject_addresses(words, findings);
        }
    }
}

fn own_interface(bridge: &OvsBridge) -> Described {
    let mut described = Described::plain(&bridge.name, bridge.path.clone());
    described.interface.kind = InterfaceKind::OpenVswitch {
        profile_type: "ovs-interface",
    };
    described.set("ovs-interface", "type", "internal");
    described.ovs_port = Some(bridge.name.clone());
    described
}

fn attach(name: &str, port: &str, path: &str, all: &mut Interfaces, findings: &Findings) {
    if all.ignored.iter().any(|ignored| ignored == name) {
        return;
    }
    let place = all.port(name, path, findings);
    let described = &mut all.list[place];
    if described.ovs_port.is_some() || described.interface.controller.is_some() {
        return findings.fault(path, format!("{name} is a port of something else already"));
    }
    described.ovs_port = Some(port.to_owned());
}

/// Changes `all` so that the ramdisk has a replacement for each bridge. Returns the
/// bridges and their ports, which only the installed system has.
pub(super) fn split(
    bridges: Vec<OvsBridge>,
    all: &mut Interfaces,
    findings: &Findings,
) -> Vec<Interface> {
    let mut installed = Vec::new();
    for bridge in bridges {
        in_ramdisk(&bridge, all, findings);
        installed.push(bridge_profile(&bridge));
        if bridge.ports.is_empty() {
            installed.push(port_profile(&bridge.name, &bridge.name));
        }
        for port in bridge.ports {
            let mut profile = port_profile(&port.name, &bridge.name);
            let settings = &mut profile.profile.settings;
            settings.insert("ovs-port", port.settings);
            settings.extend(port.sections);
            installed.push(profile);
        }
    }
    installed
}

fn bridge_profile(bridge: &OvsBridge) -> Interface {
    let mut interface = profile(&bridge.name, "ovs-bridge");
    interface.down = bridge.is_down;
    let id = bridge.id.clone();
    interface.profile.id = Some(id.unwrap_or_else(|| format!("{}-br", bridge.name)));
    interface.profile.settings.clone_from(&bridge.sections);
    interface.ipv4 = Some(Family::default().plan);
    interface.ipv6 = Some(Family::default().plan);
    interface
}

fn port_profile(name: &str, bridge: &str) -> Interface {
    let mut interface = profile(name, "ovs-port");
    interface.profile.id = Some(format!("{name}-port"));
    interface.controller = Some(bridge.to_owned());
    interface.profile.port_type = Some("ovs-bridge");
    interface
}

fn profile(name: &str, profile_type: &'static str) -> Interface {
    let mut interface = Interface::new(InterfaceMatch::named(name));
    interface.kind = InterfaceKind::OpenVswitch { profile_type };
    interface.profile.label = Some(name.to_owned());
    interface
}

/// Gives the uplink the addresses of the bridge's interfaces.
fn in_ramdisk(bridge: &OvsBridge, all: &mut Interfaces, findings: &Findings) {
    let warn = |words: String| findings.warn(&bridge.path, words);
    let is_inside = |port: &&OvsPort| {
        let index = all.position(&port.name);
        index.is_some_and(|index| all.list[index].is_ovs_interface())
    };
    let ports = bridge.ports.iter();
    let outside: Vec<_> = ports.filter(|port| !is_inside(port)).collect();
    let is_of_bridge =
        |name: &String| *name == bridge.name || bridge.ports.iter().any(|port| port.name == *name);
    let has_addresses = |index: &usize| {
        let described = &all.list[*index];
        described.is_ovs_interface()
            && described.ovs_port.as_ref().is_some_and(is_of_bridge)
            && (described.ipv4.enabled || described.ipv6.enabled)
            && described.state == State::Up
    };
    let with_addresses: Vec<usize> = (0..all.list.len()).filter(has_addresses).collect();
    let [port] = outside[..] else {
        if !with_addresses.is_empty() {
            warn(format!(
                "the ramdisk has no Open vSwitch and expects one uplink, found {}: it configures \
                 no address of this bridge",
                outside.len()
            ));
        }
        return;
    };
    match uplink(port, all) {
        Ok(uplink) => give_addresses(bridge, &with_addresses, uplink, all, findings),
        // `connect` has added an entry for every other interface of the bridge, so only
        // an ignored interface can be missing.
        Err(name) => warn(format!(
            "{name} has `state: ignore`: the ramdisk configures no address of this bridge"
        )),
    }
}

/// Gives the uplink the addresses of the interfaces at these indexes. An interface with a
/// VLAN tag becomes a VLAN on the uplink. Of the interfaces without a tag, only the first
/// one's addresses are used; the others cause a warning.
fn give_addresses(
    bridge: &OvsBridge,
    with_addresses: &[usize],
    uplink: usize,
    all: &mut Interfaces,
    findings: &Findings,
) {
    let warn = |words: String| findings.warn(&bridge.path, words);
    let mut untagged = None;
    for &index in with_addresses {
        let inside = &all.list[index];
        let (name, up) = (inside.name.clone(), all.list[uplink].name.clone());
        let is_its_port = |port: &&OvsPort| inside.ovs_port.as_ref() == Some(&port.name);
        let port = bridge.ports.iter().find(is_its_port);
        let tag = port.and_then(|port| port.tag);
        match (tag, &untagged) {
            (Some(tag), _) => {
                add_vlan(index, tag, uplink, all);
                warn(format!(
                    "the ramdisk has no Open vSwitch: {name} is VLAN {tag} on {up}"
                ));
            }
            (None, None) => {
                let (ipv4, ipv6) = (inside.ipv4.clone(), inside.ipv6.clone());
                let set_mac = inside.interface.set_mac;
                let target = &mut all.list[uplink];
                target.in_ramdisk.ip = Some((ipv4, ipv6));
                target.in_ramdisk.set_mac = set_mac;
                untagged = Some(name.clone());
                warn(format!(
                    "the ramdisk has no Open vSwitch: {up} has the addresses of {name}"
                ));
            }
            (None, Some(first)) => warn(format!(
                "the ramdisk has no Open vSwitch: {up} has the addresses of {first}, and nothing \
                 has those of {name}"
            )),
        }
    }
}

/// Index of the interface that connects the bridge with the external network. A bond of
/// Open vSwitch becomes a bond of the kernel.
///
/// # Errors
/// Returns the name of an interface of the port that has no entry.
fn uplink<'a>(port: &'a OvsPort, all: &mut Interfaces) -> Result<usize, &'a str> {
    let Some((mode, members)) = &port.bond else {
        return all.position(&port.name).ok_or(port.name.as_str());
    };
    let members = members
        .iter()
        .map(|(_, name)| all.position(name).ok_or(name.as_str()))
        .collect::<Result<Vec<_>, _>>()?;
    for member in members {
        all.list[member].in_ramdisk.controller = Some(port.name.clone());
    }
    let mut bond = Described::plain(&port.name, port.path.clone());
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    bond.interface.kind = InterfaceKind::Bond {
        options: [option("mode", mode), option("miimon", "100")].into(),
    };
    bond.interface.profile.is_ramdisk_only = true;
    all.list.push(bond);
    Ok(all.list.len() - 1)
}

fn add_vlan(inside: usize, tag: u16, uplink: usize, all: &mut Interfaces) {
    let (inside, below) = (&all.list[inside], &all.list[uplink]);
    let mut vlan = Described::plain(&inside.name, inside.path.clone());
    vlan.interface.kind = InterfaceKind::Vlan {
        id: tag,
        parent: below.interface.matches.name.clone(),
        parent_mac: below.interface.matches.mac,
        service: false,
    };
    vlan.interface.profile.is_ramdisk_only = true;
    vlan.interface.set_mac = inside.interface.set_mac;
    vlan.interface.mtu = inside.interface.mtu;
    (vlan.ipv4, vlan.ipv6) = (inside.ipv4.clone(), inside.ipv6.clone());
    all.list.push(vlan);
}
