//! Connects interfaces: ports with controllers, interfaces with the ones below
//! them, and interfaces that copy a MAC with its source.

use landfall_boot_params::ClonedMac;

use super::fields::Findings;
use super::interface::{Described, Interfaces, State};
use super::{ovs_profiles, veth};
use crate::plan::{InterfaceKind, Settings};

/// A port in the list of its controller.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) path: String,
    pub(super) name: String,
    /// The settings of the port's profile, and their section.
    pub(super) section: Option<&'static str>,
    pub(super) settings: Settings,
    /// The queue id of a bond's port.
    pub(super) queue: Option<u32>,
    /// True if a bridge filters the VLANs of this port.
    pub(super) has_vlans: bool,
}

impl Port {
    pub(super) fn new(name: &str, path: String) -> Port {
        Port {
            path,
            name: name.to_owned(),
            section: None,
            settings: Settings::new(),
            queue: None,
            has_vlans: false,
        }
    }
}

/// Reports queues that two ports of a bond share, which the kernel rejects.
pub(super) fn check_queues(ports: &Option<Vec<Port>>, findings: &Findings) {
    let mut taken = Vec::new();
    for port in ports.iter().flatten() {
        let Some(queue) = port.queue else {
            continue;
        };
        if taken.contains(&queue) {
            findings.fault(
                &port.path,
                format!("expected a queue-id that no other port has, found {queue}"),
            );
        }
        taken.push(queue);
    }
}

pub(super) fn connect(all: &mut Interfaces, findings: &Findings) {
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
        let described = &all.list[index];
        for (key, family) in [("ipv4", &described.ipv4), ("ipv6", &described.ipv6)] {
            if family.enabled && described.state == State::Up {
                findings.fault(
                    &format!("{}.{key}", described.path),
                    "a port cannot have addresses; move them to its controller",
                );
            }
        }
    }
    let bridges = std::mem::take(&mut all.ovs_bridges);
    ovs_profiles::connect(&bridges, all, findings);
    all.ovs_bridges = bridges;
    parents(all, findings);
}

/// Checks each `controller` that an interface names itself, and attaches the
/// interface if the controller has no list of ports.
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
    let place = all.list.iter().position(|d| d.name == port.name);
    let place = place.unwrap_or_else(|| {
        // A port that the document does not describe is a NIC.
        if !landfall_boot_params::dracut_net::is_interface_name(&port.name) {
            findings.fault(
                &port.path,
                format!("expected the name of an interface, found {:?}", port.name),
            );
        }
        all.list
            .push(Described::plain(&port.name, port.path.clone()));
        all.list.len() - 1
    });
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
    // nmstate finds these ports by the interface-name of their profile. A NIC that
    // is identified by its hardware address has no such name.
    if let Some(section) = port.section.filter(|_| !described.by_mac) {
        let settings = &mut described.interface.profile.settings;
        settings.insert(section, port.settings);
    }
}

/// Applies `copy-mac-from`. Like nmstate, only to controllers and interfaces of
/// Open vSwitch.
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
            Some(mac) if !super::bond::has_mac_of_port(described) => {
                all.list[index].interface.set_mac = mac.map(ClonedMac::Address);
            }
            Some(_) => {}
        }
    }
}

/// Finds the interface below each VLAN, MAC-VLAN and IPVLAN.
fn parents(all: &mut Interfaces, findings: &Findings) {
    for index in 0..all.list.len() {
        let path = all.list[index].parent_path.clone();
        let Some(name) = all.list[index].parent.clone() else {
            continue;
        };
        let found = all
            .find(&name)
            .or_else(|| all.list.iter().position(|d| d.name == name));
        let carrier = found.map(|index| &all.list[index]);
        let is_gone =
            |d: &Described| d.state == State::Absent && d.interface.kind != InterfaceKind::Ethernet;
        if carrier.is_some_and(is_gone) && all.list[index].state == State::Up {
            findings.fault(&path, format!("{name} is absent"));
        }
        if has_circle(all, index) {
            findings.fault(&path, format!("{name} itself depends on this interface"));
            all.list[index].parent = None;
            continue;
        }
        let mac = carrier
            .filter(|d| d.by_mac)
            .and_then(|d| d.interface.matches.mac);
        let name = carrier.map_or(name, |d| d.name.clone());
        if let Some((parent, parent_mac)) = all.list[index].interface.kind.parent_mut() {
            *parent_mac = mac;
            *parent = mac.is_none().then_some(name);
        }
    }
}

fn has_circle(all: &Interfaces, start: usize) -> bool {
    let mut at = start;
    // After as many steps as there are interfaces, one of them has come up twice.
    for _ in 0..all.list.len() {
        let parent = all.list[at].parent.as_deref();
        let Some(next) = parent.and_then(|name| all.list.iter().position(|d| d.name == name))
        else {
            return false;
        };
        if next == start {
            return true;
        }
        at = next;
    }
    true
}
