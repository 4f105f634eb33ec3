//! Adds the VLANs of `ipa-enable-vlan-interfaces` to those of the plan.
//!
//! Like Ironic's agent, the agent creates these VLANs for inspection, so that the report
//! shows the switch ports of a trunk and the networks behind them. The VLANs get the same
//! configuration as NICs that the plan does not mention.

use std::collections::BTreeSet;

use landfall_boot_params::MacAddr;
use landfall_boot_params::dracut_net::is_interface_name;

use crate::from_boot_args::automatic;
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, NetworkPlan};

/// The valid VLAN ids. IEEE 802.1Q: 0 means no VLAN, 4095 is reserved.
const IDS: std::ops::RangeInclusive<u16> = 1..=4094;

/// One entry of `ipa-enable-vlan-interfaces`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// This VLAN on a NIC.
    Vlan(Parent, u16),
    /// The VLANs that the switch announces by LLDP, on one NIC or (`None`) on all.
    Neighbours(Option<Parent>),
}

/// A NIC, and the VLANs that its switch has announced by LLDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnouncedVlans {
    /// The name of the NIC.
    pub nic: String,
    /// Other names of the NIC, and its addresses as text.
    pub other_names: Vec<String>,
    /// The VLAN ids.
    pub tags: Vec<u16>,
}

/// Returns one entry `NIC.ID` for each VLAN that a switch announces on the NICs for which
/// `list` asks for the switch's VLANs. [`NetworkPlan::add_found_vlans`] accepts these
/// entries.
#[must_use]
pub fn vlans_by_lldp(list: &[String], nics: &[AnnouncedVlans]) -> Vec<String> {
    let mut words = BTreeSet::new();
    for text in list {
        let Some(Wanted::Neighbours(of)) = Wanted::parse(text) else {
            continue;
        };
        for AnnouncedVlans {
            nic,
            other_names,
            tags,
        } in nics
        {
            let mut names = std::iter::once(nic).chain(other_names);
            let is_this = |name: &String| match (&of, name.parse()) {
                (Some(Parent::Mac(wanted)), Ok(mac)) => *wanted == mac,
                (Some(Parent::Name(wanted)), _) => wanted == name,
                _ => false,
            };
            if of.is_none() || names.any(is_this) {
                words.extend(tags.iter().map(|tag| format!("{nic}.{tag}")));
            }
        }
    }
    words.into_iter().collect()
}

/// True if an entry of the list (`all`, or a NIC without a VLAN id) stands for the VLANs
/// that the switches announce by LLDP.
#[must_use]
pub fn needs_lldp(list: &[String]) -> bool {
    let of_switch = |text: &String| matches!(Wanted::parse(text), Some(Wanted::Neighbours(_)));
    list.iter().any(of_switch)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Parent {
    Name(String),
    Mac(MacAddr),
}

impl Wanted {
    /// Parses `eth0.100`, `52:54:00:00:00:01.100`, `eth0` or `all`.
    fn parse(text: &str) -> Option<Wanted> {
        let parent = |text: &str| match text.parse() {
            Ok(mac) => Some(Parent::Mac(mac)),
            Err(_) if is_interface_name(text) => Some(Parent::Name(text.to_owned())),
            Err(_) => None,
        };
        match text.rsplit_once('.') {
            Some((nic, id)) => {
                let id = id.parse().ok().filter(|id| IDS.contains(id))?;
                Some(Wanted::Vlan(parent(nic)?, id))
            }
            None if text == "all" => Some(Wanted::Neighbours(None)),
            None => Some(Wanted::Neighbours(Some(parent(text)?))),
        }
    }
}

impl NetworkPlan {
    /// Adds the VLANs of the list that the plan does not have yet. An entry that cannot
    /// be parsed becomes a warning. An entry that stands for the VLANs of a switch also
    /// becomes a warning, unless the agent collects LLDP (`listens`).
    pub fn add_vlans(&mut self, list: &[String], listens: bool) {
        for text in list {
            match Wanted::parse(text) {
                Some(Wanted::Vlan(parent, id)) => self.add_vlan(&parent, id),
                Some(Wanted::Neighbours(_)) if listens => {}
                Some(Wanted::Neighbours(_)) => self.warnings.push(format!(
                    "ipa-enable-vlan-interfaces: {text}: expected ipa-collect-lldp=1 as well, to learn the VLANs of the switch; ignored"
                )),
                None => self.warnings.push(format!(
                    "ipa-enable-vlan-interfaces: {text}: expected NIC.ID, MAC.ID, NIC or all; ignored"
                )),
            }
        }
        self.sort();
    }

    /// Adds the VLANs from [`vlans_by_lldp`]. The existing interfaces keep their
    /// positions in the list.
    pub fn add_found_vlans(&mut self, words: &[String]) {
        for word in words {
            if let Some(Wanted::Vlan(parent, id)) = Wanted::parse(word) {
                self.add_vlan(&parent, id);
            }
        }
    }

    fn add_vlan(&mut self, on: &Parent, tag: u16) {
        let is_same = |interface: &Interface| match (&interface.kind, on) {
            (InterfaceKind::Vlan { id, parent, .. }, Parent::Name(name)) => {
                *id == tag && parent.as_ref() == Some(name)
            }
            (InterfaceKind::Vlan { id, parent_mac, .. }, Parent::Mac(mac)) => {
                *id == tag && *parent_mac == Some(*mac)
            }
            _ => false,
        };
        if self.interfaces.iter().any(is_same) {
            return;
        }
        let (label, parent_mac) = match on {
            Parent::Name(name) => (name.clone(), None),
            // The VLAN keeps this provisional name until the NIC appears.
            Parent::Mac(mac) => ("nic".to_owned(), Some(*mac)),
        };
        let mut name = format!("{label}.{tag}");
        let is_taken = |name: &String| {
            let mut names = self.interfaces.iter().map(|i| &i.matches.name);
            names.any(|known| known.as_ref() == Some(name))
        };
        let mut number = 0;
        while !is_interface_name(&name) || is_taken(&name) {
            name = format!("vlan{number}.{tag}");
            number += 1;
        }
        let others = self
            .interfaces
            .iter()
            .find(|i| i.multi && i.matches.is_any());
        let (ipv4, ipv6) = match others {
            Some(others) => (others.ipv4.clone(), others.ipv6.clone()),
            None => (Some(automatic()), Some(automatic())),
        };
        let matches = InterfaceMatch::named(name);
        self.interfaces.push(Interface {
            kind: InterfaceKind::Vlan {
                id: tag,
                parent: Some(label),
                parent_mac,
                service: false,
            },
            ipv4,
            ipv6,
            ..Interface::new(matches)
        });
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::NetArgs;

    use super::*;
    use crate::plan::Method;

    fn plan(line: &str, list: &[&str]) -> NetworkPlan {
        let args = NetArgs::parse(line);
        let mut plan = NetworkPlan::for_boot(&args);
        let list: Vec<_> = list.iter().map(|text| (*text).to_owned()).collect();
        plan.add_vlans(&list, false);
        plan
    }

    fn vlans(plan: &NetworkPlan) -> Vec<String> {
        let vlans = plan.interfaces.iter().filter_map(|i| match &i.kind {
            InterfaceKind::Vlan { id, parent, .. } => {
                let name = i.matches.name.as_deref()?;
                let method = i.ipv4.as_ref()?.method;
                Some(format!("{name}: {id} on {} {method:?}", parent.as_deref()?))
            }
            _ => None,
        });
        vlans.collect()
    }

    #[test]
    fn explicit_forms_become_vlans() {
        let mut plan = plan("", &["eth0.100", "52:54:00:00:00:01.7", "eth0.100"]);
        assert_eq!(
            vlans(&plan),
            ["eth0.100: 100 on eth0 Auto", "nic.7: 7 on nic Auto"]
        );
        assert_eq!(plan.warnings, [""; 0]);
        plan.name_vlans("eth1", &[MacAddr([0x52, 0x54, 0, 0, 0, 1])]);
        assert!(vlans(&plan).contains(&"eth1.7: 7 on eth1 Auto".to_owned()));
    }

    #[test]
    fn vlans_of_the_plan_stay_and_off_stays_off() {
        let same = plan("vlan=storage5:eth0 ip=storage5:dhcp", &["eth0.5"]);
        assert_eq!(vlans(&same), ["storage5: 5 on eth0 Auto"]);
        let off = plan("ip=off", &["eth0.5"]);
        assert_eq!(vlans(&off), ["eth0.5: 5 on eth0 Disabled"]);
        assert_eq!(
            off.interfaces[1].ipv6.as_ref().unwrap().method,
            Method::Disabled
        );
    }

    #[test]
    fn the_rest_is_reported() {
        let plan = plan("", &["all", "eth0", "eth0.4095", "eth0.0", "a/b.5"]);
        assert_eq!(vlans(&plan), [""; 0]);
        let is_reported = |text: &str| {
            let mut warnings = plan.warnings.iter();
            warnings.any(|w| w.starts_with(&format!("ipa-enable-vlan-interfaces: {text}: ")))
        };
        for text in ["all", "eth0", "eth0.4095", "eth0.0", "a/b.5"] {
            assert!(is_reported(text), "{text}: {:?}", plan.warnings);
        }
    }

    #[test]
    fn switches_name_vlans() {
        let named = |nic: &str, other_names: &[&str], tags: &[u16]| AnnouncedVlans {
            nic: nic.to_owned(),
            other_names: other_names.iter().map(|name| (*name).to_owned()).collect(),
            tags: tags.to_vec(),
        };
        let nics = [
            named("eth0", &[], &[100, 7]),
            named("eth1", &[], &[]),
            named("eth2", &["enp2s0", "52:54:00:00:00:02"], &[100]),
        ];
        for (list, expected) in [
            (&["all"][..], &["eth0.100", "eth0.7", "eth2.100"][..]),
            (&["eth2", "eth2"], &["eth2.100"]),
            (&["enp2s0"], &["eth2.100"]),
            (&["52:54:00:00:00:02"], &["eth2.100"]),
            (&["eth0.5", "eth1", "eth9", "a b"], &[]),
            (&["eth2", "all"], &["eth0.100", "eth0.7", "eth2.100"]),
        ] {
            let list: Vec<_> = list.iter().map(|text| (*text).to_owned()).collect();
            let words = vlans_by_lldp(&list, &nics);
            assert_eq!(words, expected, "{list:?}");
            let mut plan = plan("ip=dhcp", &[]);
            plan.add_vlans(&list, true);
            assert!(plan.warnings.iter().all(|w| w.contains("a b")), "{list:?}");
            let before = plan.interfaces.clone();
            plan.add_found_vlans(&words);
            plan.add_found_vlans(&words);
            assert_eq!(plan.interfaces[..before.len()], before);
            assert_eq!(plan.interfaces.len(), before.len() + words.len());
        }
    }
}
