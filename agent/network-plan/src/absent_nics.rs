//! Compares the plan with the NICs of the machine: which NICs of the plan the machine
//! does not have, and which bonds and bridges have no port because of that.

use std::collections::BTreeMap;

use landfall_boot_params::MacAddr;

use crate::plan::{Interface, InterfaceKind, InterfaceMatch, NetworkPlan};

/// The maximum number of names in one list of a message.
const MOST_LISTED: usize = 8;

/// A NIC of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentNic {
    /// Its current name first, then its alternative names.
    pub names: Vec<String>,
    /// The current hardware address, and the permanent one if it differs.
    pub macs: Vec<MacAddr>,
}

impl NetworkPlan {
    /// The NICs of the plan that the machine does not have: one line, with a remedy, for
    /// the NICs below each interface such as a bond or a VLAN, and one for all other NICs.
    /// Each of these lines is split in two if the plan gives some of its NICs by name and
    /// others by MAC address.
    pub fn absent_nics(&self, nics: &[PresentNic]) -> Vec<String> {
        let mut wanted: Vec<(String, InterfaceMatch)> = Vec::new();
        let mut add = |role: String, matches: InterfaceMatch| {
            if wanted.iter().all(|(_, known)| *known != matches) {
                wanted.push((role, matches));
            }
        };
        for interface in self.interfaces.iter().filter(|interface| !interface.down) {
            if is_absent(interface, nics) {
                let above = self.above(interface).map(|name| format!(", for {name}"));
                add(above.unwrap_or_default(), interface.matches.clone());
            }
        }
        for interface in self.interfaces.iter().filter(|interface| !interface.down) {
            if let Some(parent) = self.absent_parent(interface, nics) {
                let vlan = interface.matches.name.as_ref();
                let role = vlan.map(|name| format!(", for {name}"));
                add(role.unwrap_or_default(), parent);
            }
        }
        let mut groups: BTreeMap<(String, bool), Vec<String>> = BTreeMap::new();
        for (role, matches) in wanted {
            let (by_name, text) = match (&matches.name, matches.mac) {
                (None, Some(mac)) => (false, mac.to_string()),
                _ => (true, matches.to_string()),
            };
            groups.entry((role, by_name)).or_default().push(text);
        }
        let groups = groups.into_iter();
        groups
            .map(|((role, by_name), wanted)| absent(&role, by_name, wanted, nics))
            .collect()
    }

    /// The bond, bridge, team or VRF that has no port because the machine has none of
    /// the NICs that the plan assigns to it. The result is the interface called `name`
    /// or an interface below it, for example the bond that carries a VLAN.
    pub fn without_ports(&self, name: &str, nics: &[PresentNic]) -> Option<&str> {
        self.without_ports_below(name, nics, self.interfaces.len())
    }

    /// `depth` limits the recursion, because interfaces may form a circle.
    fn without_ports_below(&self, name: &str, nics: &[PresentNic], depth: usize) -> Option<&str> {
        let depth = depth.checked_sub(1)?;
        let interface = self.named(name)?;
        if let Some((Some(parent), _)) = interface.kind.parent() {
            return self.without_ports_below(parent, nics, depth);
        }
        let ports = self.ports_of(name);
        if ports.is_empty() {
            return None;
        }
        let mut below = None;
        for port in ports.into_iter().map(|index| &self.interfaces[index]) {
            if !is_absent(port, nics) {
                let port = port.matches.name.as_deref()?;
                below = Some(self.without_ports_below(port, nics, depth)?);
            }
        }
        below.or(interface.matches.name.as_deref())
    }

    /// The name of this NIC's controller, or of the first VLAN, MAC-VLAN or IPVLAN on it.
    fn above<'a>(&'a self, nic: &'a Interface) -> Option<&'a str> {
        if nic.controller.is_some() {
            return nic.controller.as_deref();
        }
        let is_on_it = |above: &&Interface| match above.kind.parent() {
            Some((_, Some(mac))) => nic.matches.mac == Some(mac),
            Some((Some(parent), None)) => nic.matches.name.as_deref() == Some(parent),
            _ => false,
        };
        let above = self.interfaces.iter().find(is_on_it)?;
        above.matches.name.as_deref()
    }

    fn named(&self, name: &str) -> Option<&Interface> {
        let mut interfaces = self.interfaces.iter();
        interfaces.find(|interface| interface.matches.name.as_deref() == Some(name))
    }

    /// The parent of this VLAN, MAC-VLAN or IPVLAN, if the machine does not have it and
    /// no interface of the plan has its name.
    fn absent_parent(&self, interface: &Interface, nics: &[PresentNic]) -> Option<InterfaceMatch> {
        match interface.kind.parent()? {
            (_, Some(mac)) => {
                let is_there = nics.iter().any(|nic| nic.macs.contains(&mac));
                (!is_there).then(|| InterfaceMatch::with_mac(mac))
            }
            (Some(parent), None) => {
                let is_it = |name: &String| name == parent;
                let is_there = nics.iter().any(|nic| nic.names.iter().any(is_it));
                let is_known = is_there || self.named(parent).is_some();
                (!is_known).then(|| InterfaceMatch::named(parent))
            }
            (None, None) => None,
        }
    }
}

/// Whether this is a particular Ethernet NIC of the plan that no device of the machine
/// matches.
fn is_absent(interface: &Interface, nics: &[PresentNic]) -> bool {
    let matches = &interface.matches;
    let fits = |nic: &PresentNic| {
        let mut names = nic.names.iter();
        names.any(|name| matches.fits(name, &nic.macs))
    };
    interface.kind == InterfaceKind::Ethernet
        && !interface.multi
        && !matches.is_any()
        && !nics.iter().any(fits)
}

fn absent(role: &str, by_name: bool, wanted: Vec<String>, nics: &[PresentNic]) -> String {
    let wanted = joined(wanted, "or");
    let found = { nics.iter() }.map(|nic| {
        let name = nic.names.first().map_or("", String::as_str);
        match (by_name, nic.macs.last()) {
            (false, Some(mac)) => format!("{name} ({mac})"),
            _ => name.to_owned(),
        }
    });
    let found = joined(found.collect(), "and");
    match by_name {
        true => format!(
            "no NIC is called {wanted}{role}; this machine has {found} -- correct the names in the network configuration, or identify the NICs by MAC address"
        ),
        false => format!(
            "no NIC has the MAC address {wanted}{role}; this machine has {found} -- correct the MAC addresses in the network configuration"
        ),
    }
}

/// `a, b or c`
fn joined(mut words: Vec<String>, last: &str) -> String {
    if words.len() > MOST_LISTED {
        let left = words.len() - MOST_LISTED;
        words.truncate(MOST_LISTED);
        return format!("{} {last} {left} more", words.join(", "));
    }
    match words.pop() {
        None => "none".to_owned(),
        Some(word) if words.is_empty() => word,
        Some(word) => format!("{} {last} {word}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::NetArgs;

    use super::*;

    /// A machine with the NICs enp0s3 and enp0s4. The first is also called eno7.
    fn nics() -> Vec<PresentNic> {
        let nic = |names: &[&str], last| PresentNic {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            macs: vec![MacAddr([0x52, 0x54, 0, 0, 0, last])],
        };
        vec![nic(&["enp0s3", "eno7"], 3), nic(&["enp0s4"], 4)]
    }

    fn plan(line: &str) -> NetworkPlan {
        NetworkPlan::for_boot(&NetArgs::parse(line))
    }

    const NAMES: &str =
        "correct the names in the network configuration, or identify the NICs by MAC address";
    const MACS: &str = "correct the MAC addresses in the network configuration";

    #[test]
    fn the_nics_that_a_plan_names_and_a_machine_does_not_have() {
        let has = "this machine has enp0s3 and enp0s4";
        for (line, expected) in [
            ("ip=dhcp", vec![]),
            ("ip=eno7:dhcp ip=52-54-00-00-00-04:dhcp", vec![]),
            (
                "bond=bond0:eno1,eno2:mode=802.3ad vlan=bond0.100:bond0 ip=bond0.100:dhcp",
                vec![format!(
                    "no NIC is called eno1 or eno2, for bond0; {has} -- {NAMES}"
                )],
            ),
            (
                "bond=bond0:enp0s3,eno2 ip=bond0:dhcp ip=eth0:dhcp ip=eth1:dhcp",
                vec![
                    format!("no NIC is called eth0 or eth1; {has} -- {NAMES}"),
                    format!("no NIC is called eno2, for bond0; {has} -- {NAMES}"),
                ],
            ),
            (
                "vlan=eno1.5:eno1 ip=eno1.5:dhcp",
                vec![format!(
                    "no NIC is called eno1, for eno1.5; {has} -- {NAMES}"
                )],
            ),
            ("vlan=eno7.5:eno7 ip=eno7.5:dhcp", vec![]),
            (
                "ip=52-54-00-00-00-09:dhcp",
                vec![format!(
                    "no NIC has the MAC address 52:54:00:00:00:09; this machine has \
                     enp0s3 (52:54:00:00:00:03) and enp0s4 (52:54:00:00:00:04) -- {MACS}"
                )],
            ),
        ] {
            assert_eq!(plan(line).absent_nics(&nics()), expected, "{line}");
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        let line = (0..20).map(|number| format!("ip=eno{number}x:dhcp "));
        let found = plan(&line.collect::<String>()).absent_nics(&nics());
        assert!(found[0].contains(" or 12 more; "), "{found:?}");
    }

    #[test]
    fn the_bond_without_ports_is_found_below_a_vlan_and_a_bridge() {
        let bond = "bond=bond0:eno1,eno2:mode=802.3ad";
        for (line, name, expected) in [
            (bond.to_owned(), "bond0", Some("bond0")),
            (
                format!("{bond} vlan=bond0.100:bond0 ip=bond0.100:dhcp"),
                "bond0.100",
                Some("bond0"),
            ),
            (format!("{bond} bridge=br0:bond0"), "br0", Some("bond0")),
            (format!("{bond} bridge=br0:bond0,enp0s3"), "br0", None),
            ("bond=bond0:eno1,enp0s3".to_owned(), "bond0", None),
            (
                "bond=bond0:eno1,52-54-00-00-00-03".to_owned(),
                "bond0",
                None,
            ),
            ("vlan=enp0s3.5:enp0s3".to_owned(), "enp0s3.5", None),
            (bond.to_owned(), "enp0s3", None),
        ] {
            let plan = plan(&line);
            assert_eq!(plan.without_ports(name, &nics()), expected, "{line} {name}");
        }
    }
}
