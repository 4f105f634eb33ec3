//! Collects the sections and keys of a keyfile, and writes it in nmstate's
//! order.

use std::collections::BTreeMap;
use std::fmt;

use landfall_boot_params::{ClonedMac, MacAddr};

use crate::plan::{Ethtool, Interface, InterfaceKind};

/// All sections, in the order of nmstate's writer.
const ORDER: &[&str] = &[
    "connection",
    "bond",
    "bond-port",
    "bridge",
    "bridge-port",
    "team",
    "ipv4",
    "ipv6",
    "ovs-bridge",
    "ovs-port",
    "ovs-interface",
    "ovs-patch",
    "ethernet",
    "vlan",
    "sriov",
    "macvlan",
    "vrf",
    "veth",
    "user",
    "ethtool",
    "infiniband",
    "ovs-external-ids",
    "ovs-other-config",
];

/// Sections, and the keys of each in alphabetical order. A later value replaces an
/// earlier one.
#[derive(Default)]
pub(crate) struct Sections(BTreeMap<&'static str, BTreeMap<String, String>>);

/// The section with this name, if the writer can write it.
pub(crate) fn section_name(name: &str) -> Option<&'static str> {
    ORDER.iter().find(|known| **known == name).copied()
}

impl Sections {
    pub(crate) fn has(&self, section: &str) -> bool {
        self.0.contains_key(section)
    }

    /// The value of a key, if it is written.
    pub(crate) fn get(&self, section: &str, key: &str) -> Option<&str> {
        self.0.get(section)?.get(key).map(String::as_str)
    }

    pub(super) fn begin(&mut self, section: &'static str) {
        self.0.entry(section).or_default();
    }

    pub(super) fn add(&mut self, section: &'static str, key: &str, value: impl fmt::Display) {
        let keys = self.0.entry(section).or_default();
        // No text of a plan contains a line break: every parser checks that.
        keys.insert(key.to_owned(), value.to_string());
    }

    /// Writes the settings of the link, whatever its kind.
    pub(super) fn ethernet(&mut self, interface: &Interface) {
        if let Some(address) = interface.matches.mac {
            self.add("ethernet", "mac-address", mac(address));
        }
        match interface.set_mac {
            Some(ClonedMac::Address(address)) => {
                self.add("ethernet", "cloned-mac-address", mac(address));
            }
            Some(word) => self.add("ethernet", "cloned-mac-address", word),
            None => {}
        }
        if let Some(mtu) = interface.mtu {
            let section = match interface.kind {
                InterfaceKind::Infiniband { .. } => "infiniband",
                _ => "ethernet",
            };
            self.add(section, "mtu", mtu);
        }
        if let Some(Ethtool { autoneg, speed }) = interface.ethtool {
            self.add("ethernet", "auto-negotiate", autoneg);
            if let Some(speed) = speed {
                self.add("ethernet", "speed", speed);
                self.add("ethernet", "duplex", "full");
            }
        }
    }

    pub(super) fn kind(&mut self, kind: &InterfaceKind) {
        match kind {
            InterfaceKind::Ethernet => {}
            InterfaceKind::Vlan { id, service, .. } => {
                // NM_VLAN_FLAG_REORDER_HEADERS, which is also the kernel's default.
                self.add("vlan", "flags", 1);
                self.add("vlan", "id", id);
                if *service {
                    self.add("vlan", "protocol", "802.1ad");
                }
            }
            InterfaceKind::Bond { options } => {
                self.begin("bond");
                for (name, value) in options {
                    self.add("bond", name, value);
                }
            }
            InterfaceKind::Bridge { stp } => {
                self.begin("bridge");
                if let Some(stp) = stp {
                    self.add("bridge", "stp", stp);
                }
            }
            InterfaceKind::Team { .. } => self.begin("team"),
            InterfaceKind::Infiniband {
                mac,
                parent,
                p_key,
                mode,
            } => {
                self.begin("infiniband");
                if let Some(mac) = mac {
                    self.add("infiniband", "mac-address", mac);
                }
                if let (Some(parent), Some(key)) = (parent, p_key) {
                    self.add("infiniband", "p-key", key);
                    self.add("infiniband", "parent", parent);
                }
                if let Some(mode) = mode {
                    self.add("infiniband", "transport-mode", mode);
                }
            }
            InterfaceKind::Vrf { table } => self.add("vrf", "table", table),
            InterfaceKind::MacVlan { mode, tap, .. } => {
                if let Some(mode) = mode {
                    self.add("macvlan", "mode", *mode as u8);
                    self.add("macvlan", "tap", tap);
                }
            }
            InterfaceKind::Veth { peer } => self.add("veth", "peer", peer),
            // nmstate writes no section for an IPVLAN.
            InterfaceKind::IpVlan { .. } | InterfaceKind::Loopback => {}
            InterfaceKind::OpenVswitch { profile_type } => self.begin(profile_type),
        }
    }
}

impl fmt::Display for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for section in ORDER {
            let Some(keys) = self.0.get(section) else {
                continue;
            };
            if !is_first {
                writeln!(f)?;
            }
            is_first = false;
            writeln!(f, "[{section}]")?;
            for (key, value) in keys.iter().filter(|(_, value)| !value.is_empty()) {
                writeln!(f, "{key}={value}")?;
            }
        }
        Ok(())
    }
}

/// A hardware address in NetworkManager's spelling.
pub(super) fn mac(address: MacAddr) -> String {
    address.to_string().to_ascii_uppercase()
}
