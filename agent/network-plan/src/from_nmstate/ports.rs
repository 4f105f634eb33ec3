//! Resolves the names by which interfaces refer to others: ports and controllers, VLANs
//! and their parents, and the sources of copied MAC addresses.

use landfall_boot_params::ClonedMac;

use super::bond::has_mac_of_port;
use super::described::{Described, Interfaces, Port, State};
use super::fields::Findings;
use super::ovs::OvsBridge;
use super::{ovs_profiles, veth};
use crate::plan::InterfaceKind;

pub(super) fn connect(all: &mut Interfaces, bridges: &[OvsBridge], findings: &Findings) {
    copy_macs(all, findings);
    controllers_exist(all, findings);
    for index in 0..all.list.len() {
        let controller = &mut all.list[index];
        if controller.state == State::Absent {
            continue;
        }
        let name = controller.name.clone();
        let ports = controller.ports.take().unwrap_or_default();
        for (number, port) in ports.into_iter().enumerate() {
            attach(all, &name, (number, port), findings);
        }
    }
    veth::add_peers(all, findings);
    for index in 0..all.list.len() {
        let controller = all.list[index].interface.controller.as_ref();
        if controller.is_none_or(|controller| all.is_vrf(controller)) {
            continue;
        }
        let words = "a port cannot have addresses; move them to its controller";
        all.list[index].reject_addresses(words, findings);
    }
    ovs_profiles::connect(bridges, all, findings);
    parents(all, findings);
}

/// Checks each `controller` key of an interface. If the controller has no list of ports,
/// attaches the interface to it.
fn controllers_exist(all: &mut Interfaces, findings: &Findings) {
    for index in 0..all.list.len() {
        let Described {
            path, name, state, ..
        } = &all.list[index];
        let (path, name) = (format!("{path}.controller"), name.clone());
        if *state == State::Absent {
            continue;
        }
        let Some(wanted) = all.list[index].controller.clone() else {
            continue;
        };
        let controller = all.list.iter_mut().find(|d| d.name == wanted);
        let Some(controller) = controller.filter(|d| d.state != State::Absent) else {
            findings.fault(&path, format!("no interface is called {wanted:?}"));
            continue;
        };
        if !is_controller(controller) {
            findings.fault(
                &path,
                format!("{wanted} is not a bond, linux-bridge or vrf"),
            );
            continue;
        }
        match &controller.ports {
            Some(ports) if !ports.iter().any(|port| port.name == name) => {
                findings.fault(
                    &path,
                    format!("expected {name} among the ports of {wanted}"),
                );
            }
            Some(_) => {}
            None => all.list[index].interface.controller = Some(wanted),
        }
    }
}

fn is_controller(described: &Described) -> bool {
    matches!(
        described.interface.kind,
        InterfaceKind::Bond { .. } | InterfaceKind::Bridge { .. } | InterfaceKind::Vrf { .. }
    )
}

fn attach(
    all: &mut Interfaces,
    controller: &str,
    (number, port): (usize, Port),
    findings: &Findings,
) {
    if all.ignored.contains(&port.name) {
        return;
    }
    let place = all.port(&port.name, &port.path, findings);
    let described = &mut all.list[place];
    if described.name == controller {
        return findings.fault(&port.path, "an interface cannot be its own port");
    }
    if let Some(wanted) = &described.controller
        && wanted != controller
    {
        let words = format!("{} says that its controller is {wanted}", described.path);
        return findings.fault(&port.path, words);
    }
    match &described.interface.controller {
        Some(other) => {
            let words = format!("{} is a port of {other} already", described.name);
            return findings.fault(&port.path, words);
        }
        None => {
            described.interface.controller = Some(controller.to_owned());
            described.interface.port_number = number;
        }
    }
    // nmstate finds the ports of a bond or bridge by the interface-name of their profile.
    // A NIC that is identified by its MAC address has no such name, so it gets no port
    // settings.
    if let Some(section) = port.section.filter(|_| !described.by_mac) {
        let settings = &mut described.interface.profile.settings;
        settings.insert(section, port.settings);
    }
}

/// Applies `copy-mac-from`. As in nmstate, it has an effect only on controllers and on
/// interfaces of Open vSwitch.
fn copy_macs(all: &mut Interfaces, findings: &Findings) {
    for index in 0..all.list.len() {
        let described = &all.list[index];
        let Some(source) = described.copy_mac_from.clone() else {
            continue;
        };
        let path = format!("{}.copy-mac-from", described.path);
        if !is_controller(described) && !described.is_ovs_interface() {
            findings.warn(
                &path,
                "nmstate applies it to bonds and bridges only; ignored",
            );
            continue;
        }
        let found = all.find(&source).map(|index| &all.list[index]);
        match found.map(|found| found.mac) {
            None => findings.fault(&path, format!("no interface is called {source:?}")),
            Some(None) => findings.fault(
                &path,
                format!("{source} has no mac-address in this document, and the address of the NIC is not known yet"),
            ),
            Some(mac) if !has_mac_of_port(described) => {
                all.list[index].interface.set_mac = mac.map(ClonedMac::Address);
            }
            Some(_) => {}
        }
    }
}

/// Finds the parent interface of each VLAN, MAC-VLAN and IPVLAN.
fn parents(all: &mut Interfaces, findings: &Findings) {
    for index in 0..all.list.len() {
        let path = all.list[index].parent_path.clone();
        let Some(name) = all.list[index].parent.clone() else {
            continue;
        };
        let found = all.find(&name).or_else(|| all.position(&name));
        let parent = found.map(|index| &all.list[index]);
        let is_gone =
            |d: &Described| d.state == State::Absent && d.interface.kind != InterfaceKind::Ethernet;
        if parent.is_some_and(is_gone) && all.list[index].state == State::Up {
            findings.fault(&path, format!("{name} is absent"));
        }
        if has_circle(all, index) {
            findings.fault(&path, format!("{name} itself depends on this interface"));
            all.list[index].parent = None;
            continue;
        }
        let mac = parent
            .filter(|d| d.by_mac)
            .and_then(|d| d.interface.matches.mac);
        let name = parent.map_or(name, |d| d.name.clone());
        if let Some((parent, parent_mac)) = all.list[index].interface.kind.parent_mut() {
            *parent_mac = mac;
            *parent = mac.is_none().then_some(name);
        }
    }
}

fn has_circle(all: &Interfaces, start: usize) -> bool {
    let mut at = start;
    // After as many steps as there are interfaces, the loop has visited one of them
    // twice, so the interfaces form a cycle.
    for _ in 0..all.list.len() {
        let parent = all.list[at].parent.as_deref();
        let Some(next) = parent.and_then(|name| all.position(name)) else {
            return false;
        };
        if next == start {
            return true;
        }
        at = next;
    }
    true
}
