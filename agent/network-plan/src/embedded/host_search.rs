//! Finds the embedded host that matches a machine.

use landfall_boot_params::MacAddr;

use super::host::{Document, EmbeddedHost};
use super::metal3_hints::Metal3Hints;
use crate::keyfile::Keyfile;
use crate::plan::NetworkPlan;
use crate::vlan_names::listed;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedHosts {
    /// The hosts in a fixed order. If two hosts have equally many of the machine's NICs,
    /// the first one is chosen.
    pub hosts: Vec<EmbeddedHost>,
    /// The files that were not read, one line each.
    pub faults: Vec<String>,
    /// True if a file that was not read may contain root device hints.
    pub unread_hints: bool,
}

/// The agent cannot determine which root device hints are for this machine. It must not
/// choose a disk then, because another disk may match without the hints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell which root device hints in the ramdisk are for this machine: {0}")]
pub struct UnclearHints(String);

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
    /// Set if the agent cannot determine which host's hints are for this machine;
    /// contains the reason.
    pub unclear_hints: Option<UnclearHints>,
}

impl Embedded {
    /// True if the embedded plan or the keyfiles in the ramdisk can be used.
    pub fn has_plan(&self) -> bool {
        let host = self.host.as_ref();
        host.is_some_and(|host| host.document != Document::None && host.plan().is_ok())
            || (!self.keyfiles.is_empty() && NetworkPlan::from_keyfiles(&self.keyfiles).is_ok())
    }

    /// A copy with the same host, but without descriptions of networks and without
    /// faults, for a plan from the console, which replaces all these descriptions.
    pub(crate) fn without_networks(&self) -> Embedded {
        let host = self.host.clone().map(|host| EmbeddedHost {
            document: Document::None,
            ..host
        });
        Embedded {
            host,
            hosts: self.hosts,
            keyfiles: Vec::new(),
            faults: Vec::new(),
            unclear_hints: self.unclear_hints.clone(),
        }
    }

    /// The hints for the root disk of this machine, and the host that has them. `None` if
    /// there are no hints for it.
    ///
    /// # Errors
    /// If two hosts with different hints have NICs of this machine. If no host has one of
    /// its NICs and a file cannot be read, which may contain this machine's hints. If no
    /// host matches this machine at all, but some hosts have hints.
    pub fn root_device_hints(&self) -> Result<Option<(&EmbeddedHost, &Metal3Hints)>, UnclearHints> {
        if let Some(unclear) = &self.unclear_hints {
            return Err(unclear.clone());
        }
        let host = self.host.as_ref();
        Ok(host.and_then(|host| Some((host, host.root_device_hints.as_ref()?))))
    }
}

impl EmbeddedHosts {
    /// The host that has the most of these NICs, by their hardware addresses. `None` if
    /// no host has any of them.
    pub fn with_mac(&self, macs: &[MacAddr]) -> Option<&EmbeddedHost> {
        let there = |host: &EmbeddedHost| host.macs.iter().filter(|m| macs.contains(m)).count();
        let fitting = self.hosts.iter().filter(|host| there(host) > 0);
        // `max_by_key` returns the last of several equal elements. The search must return
        // the first host of the list, so it goes backwards.
        fitting.rev().max_by_key(|host| there(host))
    }

    /// True if any host has root device hints. The agent must then wait for all NICs,
    /// because a late NIC may belong to another host, whose hints choose another disk.
    pub fn have_hints(&self) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|host| host.root_device_hints.is_some())
    }

    /// The host without hardware addresses. It is for every machine that no other host
    /// matches.
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
            unclear_hints: self.unclear_hints(by_mac, &macs).map(UnclearHints),
        }
    }

    fn unclear_hints(&self, by_mac: Option<&EmbeddedHost>, macs: &[MacAddr]) -> Option<String> {
        match by_mac {
            Some(host) => {
                let other = self.hosts.iter().find(|other| {
                    other.macs.iter().any(|mac| macs.contains(mac))
                        && other.root_device_hints != host.root_device_hints
                })?;
                Some(format!(
                    "{host} and {other} have NICs of it and different hints"
                ))
            }
            None if self.unread_hints => Some("the file of a host cannot be read".to_owned()),
            None if self.have_hints() && self.for_any_machine().is_none() => Some(format!(
                "expected a NIC of one of the {} hosts, found none",
                self.hosts.len()
            )),
            None => None,
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
            ..EmbeddedHosts::default()
        };
        let nics: Vec<_> = nics
            .iter()
            .map(|last| (format!("eth{last}"), vec![mac(*last)]))
            .collect();
        hosts.decide(&nics)
    }

    #[test]
    fn any_nic_identifies_the_host() {
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
    fn an_unknown_machine_is_reported_with_its_nics() {
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
    fn a_host_without_nics_is_for_every_unlisted_machine() {
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
    #[test]
    fn hints_that_may_be_another_hosts_choose_nothing() {
        let hinted = |name: &str, macs: &[u8], serial: &str| {
            let hints = serde_json::json!({"serialNumber": serial});
            let root_device_hints = Metal3Hints::from_json(&hints).unwrap();
            EmbeddedHost {
                root_device_hints,
                ..host(name, macs)
            }
        };
        let (a, b) = (hinted("a", &[1, 2], "A"), hinted("b", &[3], "B"));
        let same = hinted("c", &[4], "A");
        let (plain, any) = (host("d", &[5]), host("any", &[]));
        let serial = |hosts: &[&EmbeddedHost], nics: &[u8], unread_hints| {
            let hosts = EmbeddedHosts {
                hosts: hosts.iter().map(|host| (*host).clone()).collect(),
                unread_hints,
                ..EmbeddedHosts::default()
            };
            let nics: Vec<_> = nics
                .iter()
                .map(|last| (format!("eth{last}"), vec![mac(*last)]))
                .collect();
            let found = hosts.decide(&nics);
            let hints = found.root_device_hints();
            hints
                .map(|hints| hints.map(|(_, hints)| hints.to_string()))
                .map_err(|error| error.to_string())
        };
        let of_a = serial(&[&a], &[1], false);
        assert!(of_a.as_ref().unwrap().is_some());
        assert_eq!(serial(&[&a, &b, &plain], &[9, 2], false), of_a);
        assert_eq!(serial(&[&a, &same], &[1, 4], false), of_a);
        // If a host matches by MAC address, the agent assumes that the file that cannot
        // be read belongs to another host.
        assert_eq!(serial(&[&a, &b], &[1], true), of_a);
        assert_eq!(serial(&[&a, &any], &[9], false), Ok(None));
        assert_eq!(serial(&[&a, &plain], &[5], false), Ok(None));
        assert_eq!(serial(&[&plain], &[9], false), Ok(None));
        for (hosts, nics, unread, expected) in [
            (&[&a, &b][..], &[1, 3][..], false, "different hints"),
            (&[&a, &plain], &[2, 5], false, "different hints"),
            (&[&a, &b], &[9], false, "one of the 2 hosts, found none"),
            (&[&plain], &[9], true, "cannot be read"),
            (&[&any], &[9], true, "cannot be read"),
            (&[], &[9], true, "cannot be read"),
        ] {
            let error = serial(hosts, nics, unread).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
