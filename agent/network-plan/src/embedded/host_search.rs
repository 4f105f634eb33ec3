//! Finds the embedded host that matches a machine.

use landfall_boot_params::MacAddr;

use super::host::{Document, EmbeddedHost};
use super::metal3_hints::Metal3Hints;
use crate::keyfile::Keyfile;
use crate::plan::NetworkPlan;
use crate::vlan_names::listed;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedHosts {
    /// The hosts in a fixed order. If two of them match equally well, the first one
    /// is chosen.
    pub hosts: Vec<EmbeddedHost>,
    /// The files that cannot be read, one line each.
    pub faults: Vec<String>,
}

/// The embedded host of this machine, and the faults of the search for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedded {
    /// The host that matches the machine.
    pub host: Option<EmbeddedHost>,
    /// The number of hosts in the ramdisk.
    pub hosts: usize,
    /// NetworkManager's profiles for this machine, if CoreOS' tools have put any into
    /// the ramdisk.
    pub keyfiles: Vec<Keyfile>,
    /// Faults of all embedded hosts and of the search, one line each.
    pub faults: Vec<String>,
}

impl Embedded {
    /// True if there is a plan and it can be used.
    pub fn has_plan(&self) -> bool {
        let host = self.host.as_ref();
        host.is_some_and(|host| host.document != Document::None && host.plan().is_ok())
            || (!self.keyfiles.is_empty() && NetworkPlan::from_keyfiles(&self.keyfiles).is_ok())
    }

    /// The hints for the root disk of this machine, and the host that has them.
    pub fn root_device_hints(&self) -> Option<(&EmbeddedHost, &Metal3Hints)> {
        let host = self.host.as_ref()?;
        Some((host, host.root_device_hints.as_ref()?))
    }
}

impl EmbeddedHosts {
    /// The host with the most NICs among these hardware addresses; `None` if no
    /// host has any of them.
    pub fn with_mac(&self, macs: &[MacAddr]) -> Option<&EmbeddedHost> {
        let there = |host: &EmbeddedHost| host.macs.iter().filter(|m| macs.contains(m)).count();
        let fitting = self.hosts.iter().filter(|host| there(host) > 0);
        // `max_by_key` returns the last of equals, so this searches backwards.
        fitting.rev().max_by_key(|host| there(host))
    }

    /// The host for every machine that no other host matches.
    fn for_any_machine(&self) -> Option<&EmbeddedHost> {
        self.hosts.iter().find(|host| host.macs.is_empty())
    }

    /// Chooses the host for a machine with these NICs (name and hardware
    /// addresses).
    pub fn decide(&self, nics: &[(String, Vec<MacAddr>)]) -> Embedded {
        let macs: Vec<MacAddr> = nics.iter().flat_map(|(_, macs)| macs).copied().collect();
        let by_mac = self.with_mac(&macs);
        let host = by_mac.or_else(|| self.for_any_machine());
        let mut faults = self.faults.clone();
        let count = self.hosts.len();
        if let Some(host) = by_mac {
            let others = self.hosts.iter().filter(|other| *other != host);
            let also = others.filter(|other| other.macs.iter().any(|mac| macs.contains(mac)));
            faults.extend(also.map(|other| {
                format!(
                    "embedded plans: {other} also matches this machine; the plan of {host} is used"
                )
            }));
        } else if host.is_none() && count > 0 {
            let what = match count {
                1 => "the only one is for another machine".to_owned(),
                _ => format!("none of the {count} is for this machine"),
            };
            let nics = listed(nics);
            faults.push(format!(
                "embedded plans: {what} (its NICs: {nics}); the next source is used"
            ));
        }
        Embedded {
            host: host.cloned(),
            hosts: count,
            keyfiles: Vec::new(),
            faults,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn mac(last: u8) -> MacAddr {
        MacAddr([0x52, 0x54, 0, 0, 0, last])
    }

    fn host(name: &str, macs: &[u8]) -> EmbeddedHost {
        EmbeddedHost {
            host_name: Some(name.to_owned()),
            macs: macs.iter().copied().map(mac).collect(),
            nics: BTreeMap::new(),
            root_device_hints: None,
            document: Document::None,
        }
    }

    fn decide(hosts: &[EmbeddedHost], nics: &[u8]) -> Embedded {
        let hosts = EmbeddedHosts {
            hosts: hosts.to_vec(),
            faults: Vec::new(),
        };
        let nics: Vec<_> = nics
            .iter()
            .map(|last| (format!("eth{last}"), vec![mac(*last)]))
            .collect();
        hosts.decide(&nics)
    }

    #[test]
    fn any_nic_tells_the_host() {
        let hosts = [host("a", &[1, 2]), host("b", &[3, 4, 5]), host("c", &[6])];
        for (nics, expected) in [
            (&[1][..], Some("a")),
            (&[9, 2], Some("a")),
            (&[4], Some("b")),
            (&[7, 6], Some("c")),
            (&[7], None),
            (&[], None),
        ] {
            let found = decide(&hosts, nics);
            let name = found.host.and_then(|host| host.host_name);
            assert_eq!(name.as_deref(), expected, "{nics:?}");
            assert_eq!(found.faults.is_empty(), expected.is_some(), "{nics:?}");
            assert_eq!(found.hosts, 3);
        }
    }

    #[test]
    fn a_machine_that_is_none_of_them_is_told_with_its_nics() {
        let hosts = [host("a", &[1]), host("b", &[2])];
        assert_eq!(
            decide(&hosts, &[8, 9]).faults,
            [
                "embedded plans: none of the 2 is for this machine (its NICs: \
                 eth8 52:54:00:00:00:08, eth9 52:54:00:00:00:09); the next source is used"
            ]
        );
        assert_eq!(
            decide(&hosts[..1], &[]).faults,
            [
                "embedded plans: the only one is for another machine (its NICs: none); \
                 the next source is used"
            ]
        );
        assert_eq!(decide(&[], &[1]), Embedded::default());
    }

    #[test]
    fn a_host_without_nics_is_for_every_machine_that_is_no_other() {
        let hosts = [host("any", &[]), host("a", &[1])];
        let name = |nics: &[u8]| decide(&hosts, nics).host.unwrap().host_name.unwrap();
        assert_eq!(name(&[1]), "a");
        assert_eq!(name(&[2]), "any");
        assert_eq!(name(&[]), "any");
    }

    #[test]
    fn of_two_that_fit_most_nics_decide_and_the_other_is_reported() {
        let hosts = [host("a", &[1]), host("b", &[2, 3]), host("c", &[4])];
        let found = decide(&hosts, &[1, 2, 3]);
        assert_eq!(found.host.as_ref().unwrap().host_name.as_deref(), Some("b"));
        assert_eq!(
            found.faults,
            [
                "embedded plans: a (52:54:00:00:00:01) also matches this machine; the plan of \
                 b (52:54:00:00:00:02 52:54:00:00:00:03) is used"
            ]
        );
        let equal = decide(&hosts, &[4, 1]);
        assert_eq!(equal.host.unwrap().host_name.as_deref(), Some("a"));
    }
}
