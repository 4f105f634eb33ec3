//! The part of a plan that the form can show: one interface with addresses, and the
//! interfaces below it, down to one or two NICs.

use std::net::IpAddr;

use landfall_boot_params::MacAddr;
use landfall_network_plan::{
    Interface, InterfaceKind, InterfaceMatch, IpPlan, NetworkPlan, Route, RouteKind,
};

use super::OfferedNic;
use super::values::{BOND, Values, vlan_name};

/// The maximum number of interfaces on top of each other. No real network has so many.
const DEEPEST: usize = 16;
/// The form has fields for at most this many NICs of a bond.
const MOST_PORTS: usize = 2;
/// The prefix for the names of interfaces that the form cannot make. No interface name
/// contains a control character, so these names differ from the names of the form's own
/// interfaces.
pub(super) const OTHER: char = '\u{1}';
/// The kernel's RT_TABLE_MAIN.
const MAIN_TABLE: u32 = 254;

/// The interfaces from the one with the addresses down to the NICs.
#[derive(Default)]
pub(super) struct Chain {
    /// Index of the interface with the addresses.
    pub(super) top: Option<usize>,
    /// Index and ID of the VLAN.
    pub(super) vlan: Option<(usize, u16)>,
    /// Index of the bond.
    pub(super) bond: Option<usize>,
    pub(super) ports: Vec<Port>,
}

/// A device of the plan, and the NIC of this machine that the form shows for it.
pub(super) struct Port {
    /// The index of the device's interface, if the plan describes the device.
    interface: Option<usize>,
    /// The criteria by which the plan finds the device.
    pub(super) wanted: InterfaceMatch,
    /// Index of the NIC.
    pub(super) nic: usize,
    /// The plan names another NIC, which this machine does not have.
    pub(super) is_replacement: bool,
}

/// An interface of the plan, or a device that the plan only refers to.
enum Below {
    Interface(usize),
    Device(InterfaceMatch),
}

type Device = (Option<usize>, InterfaceMatch);

impl Chain {
    pub(super) fn of(plan: &NetworkPlan, nics: &[OfferedNic]) -> Self {
        let mut chain = Chain {
            top: top(plan),
            ..Chain::default()
        };
        let devices = chain.devices(plan);
        chain.choose_nics(devices, nics);
        chain
    }

    /// Follows the plan from the top interface down. Returns the devices at the bottom:
    /// the ports of a bond, or otherwise one device.
    fn devices(&mut self, plan: &NetworkPlan) -> Vec<Device> {
        let any = || vec![(None, InterfaceMatch::default())];
        let Some(top) = self.top else {
            return any();
        };
        let mut at = Below::Interface(top);
        for _ in 0..DEEPEST {
            let index = match at {
                Below::Interface(index) => index,
                Below::Device(wanted) => return vec![(None, wanted)],
            };
            let interface = &plan.interfaces[index];
            at = match &interface.kind {
                InterfaceKind::Vlan {
                    id,
                    parent,
                    parent_mac,
                    ..
                } => {
                    self.vlan.get_or_insert((index, *id));
                    below(plan, parent.as_deref(), *parent_mac)
                }
                InterfaceKind::MacVlan {
                    parent, parent_mac, ..
                }
                | InterfaceKind::IpVlan {
                    parent, parent_mac, ..
                } => below(plan, parent.as_deref(), *parent_mac),
                InterfaceKind::Bond { .. } | InterfaceKind::Team { .. } => {
                    self.bond = Some(index);
                    let ports = ports(plan, interface).into_iter();
                    let device = |port: usize| {
                        let matches = plan.interfaces[port].matches.clone();
                        (Some(port), matches)
                    };
                    return ports.map(device).collect();
                }
                InterfaceKind::Bridge { .. } => match ports(plan, interface).first() {
                    Some(port) => Below::Interface(*port),
                    None => return any(),
                },
                _ => return vec![(Some(index), interface.matches.clone())],
            };
        }
        any()
    }

    /// Finds the machine's NIC for each device. If the machine does not have the NIC,
    /// another NIC takes its place, so that the operator needs to correct only the NIC.
    fn choose_nics(&mut self, devices: Vec<Device>, nics: &[OfferedNic]) {
        let mut found: Vec<_> = { devices.into_iter() }
            .map(|(interface, wanted)| (interface, nic_of(&wanted, nics), wanted))
            .collect();
        found.sort_by_key(|(_, nic, _)| nic.is_none());
        found.truncate(MOST_PORTS);
        let mut taken: Vec<usize> = found.iter().filter_map(|(_, nic, _)| *nic).collect();
        for (interface, nic, wanted) in found {
            let free = || {
                let mut all = (0..nics.len()).filter(|number| !taken.contains(number));
                let first = all.clone().next();
                all.find(|number| nics[*number].carrier).or(first)
            };
            let Some(number) = nic.or_else(free) else {
                continue;
            };
            taken.push(number);
            self.ports.push(Port {
                interface,
                is_replacement: nic.is_none() && !wanted.is_any(),
                wanted,
                nic: number,
            });
        }
    }
}

/// The interface whose values the form shows: one with a static address and a gateway,
/// otherwise one with a static address, otherwise one with automatic addresses.
fn top(plan: &NetworkPlan) -> Option<usize> {
    let worth = |interface: &Interface| {
        let mut fixed = interface.families().filter(|ip| !ip.addresses.is_empty());
        let has_gateway = fixed.clone().any(|ip| gateway_of(ip).is_some());
        let is_particular = !interface.matches.is_any();
        let has_address = fixed.next().is_some();
        (
            has_gateway,
            has_address,
            interface.priority >= 0,
            is_particular,
        )
    };
    let is_used = |interface: &Interface| {
        let has_address = |ip: &IpPlan| ip.method.is_automatic() || !ip.addresses.is_empty();
        let is_loopback = matches!(interface.kind, InterfaceKind::Loopback);
        !interface.down && !is_loopback && interface.families().any(has_address)
    };
    // `max_by_key` returns the last of equal elements, so search backwards.
    (0..plan.interfaces.len())
        .rev()
        .filter(|index| is_used(&plan.interfaces[*index]))
        .max_by_key(|index| worth(&plan.interfaces[*index]))
}

/// The gateway of a family, also if the source gives it as a default route.
pub(super) fn gateway_of(ip: &IpPlan) -> Option<IpAddr> {
    let of_route = || ip.routes.iter().find(|route| is_default(route))?.via;
    ip.gateway.or_else(of_route)
}

/// True for a route that expresses only the gateway.
pub(super) fn is_default(route: &Route) -> bool {
    route.destination.length == 0
        && route.via.is_some()
        && route.kind == RouteKind::Unicast
        && route.table.is_none_or(|table| table == MAIN_TABLE)
        && route.options.is_empty()
}

fn ports(plan: &NetworkPlan, controller: &Interface) -> Vec<usize> {
    let name = controller.matches.name.as_deref();
    name.map(|name| plan.ports_of(name)).unwrap_or_default()
}

/// The interface below another one. If `mac` is given, `name` is only a label.
fn below(plan: &NetworkPlan, name: Option<&str>, mac: Option<MacAddr>) -> Below {
    let wanted = match (mac, name) {
        (Some(mac), _) => InterfaceMatch::with_mac(mac),
        (None, Some(name)) => InterfaceMatch::named(name),
        (None, None) => InterfaceMatch::default(),
    };
    let is_it = |interface: &Interface| match mac {
        Some(_) => interface.matches.mac == mac,
        None => name.is_some() && interface.matches.name.as_deref() == name,
    };
    match plan.interfaces.iter().position(is_it) {
        Some(index) => Below::Interface(index),
        None => Below::Device(wanted),
    }
}

fn nic_of(wanted: &InterfaceMatch, nics: &[OfferedNic]) -> Option<usize> {
    if wanted.is_any() {
        return None;
    }
    let fits = |nic: &OfferedNic| nic.names().any(|name| wanted.fits(name, &nic.macs));
    nics.iter().position(fits)
}

/// The names that the form gives to the interfaces of a plan.
pub(super) struct Names<'a> {
    plan: &'a NetworkPlan,
    nics: &'a [OfferedNic],
    chain: &'a Chain,
    /// The name of each interface.
    list: Vec<String>,
    /// There are NICs that the plan does not mention.
    has_other_nics: bool,
    is_bond: bool,
}

impl<'a> Names<'a> {
    /// The names for the plan that the form shows.
    pub(super) fn of_shown(
        plan: &'a NetworkPlan,
        nics: &'a [OfferedNic],
        chain: &'a Chain,
        values: &Values,
    ) -> Self {
        let is_bond = values.second.is_some();
        let base = if is_bond { BOND } else { values.nic.as_str() };
        let mut list: Vec<String> = { plan.interfaces.iter() }
            .map(|interface| match physical(interface, nics) {
                Some(nic) => nics[nic].name.clone(),
                None => format!("{OTHER}{}", interface.matches),
            })
            .collect();
        for port in &chain.ports {
            if let Some(index) = port.interface {
                list[index].clone_from(&nics[port.nic].name);
            }
        }
        if let Some(bond) = chain.bond {
            base.clone_into(&mut list[bond]);
        }
        let vlan = chain.vlan.map(|(index, id)| (index, vlan_name(id)));
        if let Some((index, name)) = &vlan {
            list[*index].clone_from(name);
        }
        if let Some(top) = chain.top {
            list[top] = vlan.map_or_else(|| base.to_owned(), |(_, name)| name);
        }
        let is_mentioned = |nic: &OfferedNic| {
            let fits = |interface: &Interface| {
                let matches = &interface.matches;
                !matches.is_any() && nic.names().any(|name| matches.fits(name, &nic.macs))
            };
            nic.name == values.nic
                || values.second.as_ref() == Some(&nic.name)
                || plan.interfaces.iter().any(fits)
        };
        Self {
            plan,
            nics,
            chain,
            list,
            has_other_nics: !nics.iter().all(is_mentioned),
            is_bond,
        }
    }

    /// The names for a plan that the form's arguments make.
    pub(super) fn of_made(
        plan: &'a NetworkPlan,
        nics: &'a [OfferedNic],
        nothing: &'a Chain,
    ) -> Self {
        let name = |interface: &Interface| match physical(interface, nics) {
            Some(nic) => nics[nic].name.clone(),
            None => interface.matches.to_string(),
        };
        Self {
            plan,
            nics,
            chain: nothing,
            list: plan.interfaces.iter().map(name).collect(),
            has_other_nics: false,
            is_bond: false,
        }
    }

    /// For each device that the interface represents: its name in the form, and its
    /// name in the plan.
    pub(super) fn of(&self, index: usize) -> Vec<(String, String)> {
        let interface = &self.plan.interfaces[index];
        let name = interface.matches.to_string();
        let mut all = Vec::new();
        let is_for_all = interface.matches.is_any() && interface.multi;
        if !is_for_all || self.chain.top == Some(index) {
            all.push((self.list[index].clone(), name));
        }
        if is_for_all && self.has_other_nics {
            let others = "every other NIC".to_owned();
            all.push((format!("{OTHER}{others}"), others));
        }
        all
    }

    /// The hardware addresses that the interface has if the plan sets none.
    pub(super) fn macs(&self, index: usize) -> &[MacAddr] {
        let is_in_chain = [self.chain.top, self.chain.bond].contains(&Some(index))
            || self.chain.vlan.is_some_and(|(vlan, _)| vlan == index);
        let first = || self.chain.ports.first().map(|port| port.nic);
        let own = physical(&self.plan.interfaces[index], self.nics);
        let nic = own.or_else(|| first().filter(|_| is_in_chain));
        nic.map_or(&[][..], |nic| self.nics[nic].macs.as_slice())
    }

    /// The name of the interface below another one.
    pub(super) fn below(&self, name: Option<&str>, mac: Option<MacAddr>) -> String {
        let wanted = match below(self.plan, name, mac) {
            Below::Interface(index) => return self.list[index].clone(),
            Below::Device(wanted) => wanted,
        };
        let mut ports = self.chain.ports.iter();
        let nic = { ports.find(|port| port.wanted == wanted) }
            .map(|port| port.nic)
            .or_else(|| nic_of(&wanted, self.nics));
        match nic {
            Some(nic) => self.nics[nic].name.clone(),
            None => format!("{OTHER}{wanted}"),
        }
    }

    /// The name of a port's controller.
    pub(super) fn controller(&self, name: &str) -> String {
        let is_bond = |bond: usize| {
            self.is_bond && self.plan.interfaces[bond].matches.name.as_deref() == Some(name)
        };
        match self.chain.bond.is_some_and(is_bond) {
            true => BOND.to_owned(),
            false => name.to_owned(),
        }
    }
}

/// The index of the NIC that an interface of a plan represents.
fn physical(interface: &Interface, nics: &[OfferedNic]) -> Option<usize> {
    let is_nic = matches!(
        interface.kind,
        InterfaceKind::Ethernet | InterfaceKind::Infiniband { .. }
    );
    nic_of(&interface.matches, nics).filter(|_| is_nic)
}
