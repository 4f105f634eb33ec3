//! Reads the settings that only one type of interface has.

use std::collections::BTreeMap;

use landfall_boot_params::InfinibandAddr;
use landfall_boot_params::dracut_net::is_interface_name;

use super::keys::Keys;
use super::section_text::unescaped;
use crate::bond_option::{self, DEFAULT_MODE};
use crate::bond_rules::drop_conflicts;
use crate::plan::{InterfaceKind, IpVlanMode, MacVlanMode};
use crate::team_runner;

/// The highest VLAN id: IEEE 802.1Q reserves 4095.
const LAST_VLAN: u32 = 4094;
/// An option that NetworkManager implements with nftables rules; the kernel does not
/// have it.
const BALANCE_SLB: &str = "balance-slb";
/// The kernel's IPVLAN_F_PRIVATE and IPVLAN_F_VEPA.
const PRIVATE: u16 = 1;
const VEPA: u16 = 2;

/// The kind of the interface. `None` if the ramdisk does not have an interface of this
/// type.
pub(super) fn read(given: &str, keys: &Keys) -> Option<InterfaceKind> {
    Some(match given {
        "802-3-ethernet" | "ethernet" => InterfaceKind::Ethernet,
        "vlan" => vlan(keys),
        "bond" => bond(keys),
        "bridge" => InterfaceKind::Bridge {
            stp: keys.flag("bridge", "stp"),
        },
        "team" => InterfaceKind::Team {
            bond_mode: team_mode(keys),
        },
        "infiniband" => infiniband(keys),
        "vrf" => InterfaceKind::Vrf {
            table: keys.unsigned("vrf", "table", u32::MAX).unwrap_or_else(|| {
                let words = "expected the number of a routing table";
                keys.fault("vrf", "table", words);
                0
            }),
        },
        "macvlan" => InterfaceKind::MacVlan {
            parent: keys.string("macvlan", "parent"),
            parent_mac: None,
            mode: mac_vlan_mode(keys),
            tap: keys.flag("macvlan", "tap") == Some(true),
        },
        "ipvlan" => ip_vlan(keys),
        "veth" => InterfaceKind::Veth { peer: peer(keys) },
        "loopback" => InterfaceKind::Loopback,
        "ovs-bridge" => InterfaceKind::OpenVswitch {
            profile_type: "ovs-bridge",
        },
        "ovs-port" => InterfaceKind::OpenVswitch {
            profile_type: "ovs-port",
        },
        "ovs-interface" => InterfaceKind::OpenVswitch {
            profile_type: "ovs-interface",
        },
        _ => return None,
    })
}

fn vlan(keys: &Keys) -> InterfaceKind {
    let id = keys.unsigned("vlan", "id", LAST_VLAN);
    if id.is_none() && keys.text("vlan", "id").is_none() {
        keys.fault("vlan", "id", "expected the VLAN id, found nothing");
    }
    let service = match keys.text("vlan", "protocol") {
        None => false,
        Some(text) if text.eq_ignore_ascii_case("802.1q") => false,
        Some(text) if text.eq_ignore_ascii_case("802.1ad") => true,
        Some(text) => {
            keys.expected("vlan", "protocol", "802.1Q or 802.1ad", text);
            false
        }
    };
    InterfaceKind::Vlan {
        id: id.and_then(|id| u16::try_from(id).ok()).unwrap_or(0),
        parent: keys.string("vlan", "parent"),
        parent_mac: None,
        service,
    }
}

/// Reads the options of a bond. As for kernel arguments, drops with a warning options
/// that the kernel does not have and options that cannot be combined with the others. An
/// option with an invalid value is a fault.
fn bond(keys: &Keys) -> InterfaceKind {
    let given = keys.all().get("bond");
    let mut options = BTreeMap::new();
    for (name, value) in given.into_iter().flatten() {
        if name == "interface-name" || name == BALANCE_SLB || value.is_empty() {
            continue;
        }
        // Some programs separate the items by `;`, as in NetworkManager's other lists.
        let value = value.trim_end_matches(';').replace(';', ",");
        match bond_option::normal(name, &value) {
            Ok(normal) => drop(options.insert(name.clone(), normal)),
            Err(bond_option::InvalidOption::Name) => {
                keys.warn("bond", name, "the kernel has no such option; ignored");
            }
            Err(expected) => keys.expected("bond", name, expected, &value),
        }
    }
    for (name, why) in drop_conflicts(&mut options) {
        keys.warn("bond", &name, format!("{why}; ignored"));
    }
    let mode = options.entry("mode".to_owned());
    mode.or_insert_with(|| DEFAULT_MODE.to_owned());
    InterfaceKind::Bond { options }
}

/// The mode of the bond that the ramdisk creates instead of a team. The runner is in the
/// key `runner`, or in the JSON of the key `config`.
fn team_mode(keys: &Keys) -> &'static str {
    let of_config = || {
        let text = unescaped(keys.text("team", "config")?);
        let config: serde_json::Value = match serde_json::from_str(&text) {
            Ok(config) => config,
            Err(error) => {
                keys.fault("team", "config", format!("expected JSON, found {error}"));
                return None;
            }
        };
        let runner = &config["runner"];
        let name = runner["name"].as_str().or(runner.as_str())?;
        Some(("config", name.to_owned()))
    };
    let given = keys.string("team", "runner").map(|name| ("runner", name));
    let Some((key, runner)) = given.or_else(of_config) else {
        // NetworkManager and teamd use `roundrobin` by default.
        return team_runner::bond_mode("roundrobin").unwrap_or(team_runner::DEFAULT);
    };
    team_runner::bond_mode(&runner).unwrap_or_else(|| {
        let expected = "activebackup, broadcast, lacp, loadbalance or roundrobin as runner";
        keys.expected("team", key, expected, &runner);
        team_runner::DEFAULT
    })
}

fn infiniband(keys: &Keys) -> InterfaceKind {
    let expected = "a hardware address of 20 bytes";
    let mac: Option<InfinibandAddr> = keys.parsed("infiniband", "mac-address", expected);
    // A negative number means no partition.
    let p_key = keys.number("infiniband", "p-key", -1..=u16::MAX.into());
    let mode = match keys.text("infiniband", "transport-mode") {
        None => None,
        Some("datagram") => Some("datagram"),
        Some("connected") => Some("connected"),
        Some(other) => {
            let expected = "datagram or connected";
            keys.expected("infiniband", "transport-mode", expected, other);
            None
        }
    };
    InterfaceKind::Infiniband {
        mac,
        parent: keys.string("infiniband", "parent"),
        p_key: p_key.and_then(|key| u16::try_from(key).ok()),
        mode,
    }
}

fn mac_vlan_mode(keys: &Keys) -> Option<MacVlanMode> {
    let number = keys.unsigned("macvlan", "mode", 5)?;
    let modes = [
        MacVlanMode::Unknown,
        MacVlanMode::Vepa,
        MacVlanMode::Bridge,
        MacVlanMode::Private,
        MacVlanMode::Passthru,
        MacVlanMode::Source,
    ];
    modes.into_iter().find(|mode| *mode as u32 == number)
}

/// A file from nmstate has no section `ipvlan`, so the parent of the IPVLAN is missing.
/// The ramdisk then does not create the interface, and the reader warns about it.
fn ip_vlan(keys: &Keys) -> InterfaceKind {
    let parent = keys.string("ipvlan", "parent");
    if parent.is_none() {
        let words = "there is no interface below: the ramdisk does not create the interface";
        keys.warn("ipvlan", "parent", words);
    }
    let modes = [IpVlanMode::L2, IpVlanMode::L3, IpVlanMode::L3s];
    // NetworkManager counts the modes from one.
    let mode = keys.number("ipvlan", "mode", 1..=3);
    let mode = mode.and_then(|mode| modes.get(usize::try_from(mode - 1).ok()?).copied());
    let flag = |key, bit| match keys.flag("ipvlan", key) {
        Some(true) => bit,
        _ => 0,
    };
    InterfaceKind::IpVlan {
        parent,
        parent_mac: None,
        mode: mode.unwrap_or(IpVlanMode::L3),
        flags: flag("private", PRIVATE) | flag("vepa", VEPA),
    }
}

fn peer(keys: &Keys) -> String {
    let peer = keys.string("veth", "peer").unwrap_or_default();
    if !is_interface_name(&peer) {
        let expected = "the name of the other end";
        keys.expected("veth", "peer", expected, &peer);
    }
    peer
}
