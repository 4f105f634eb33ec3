//! Reads `ovs-bridge` and `ovs-interface`. Only the installed system has Open
//! vSwitch.

use std::collections::BTreeMap;

use super::bridge::vlan_range;
use super::described::{Described, State};
use super::fields::{Fields, Findings};
use super::yaml::Yaml;
use crate::plan::{InterfaceKind, Settings};

/// The highest VLAN id; IEEE 802.1Q reserves 4095.
const LAST_VLAN: u32 = 4094;

const BRIDGE_KEYS: &[&str] = &[
    "allow-extra-patch-ports",
    "allow-extra-ports",
    "options",
    "port",
    "ports",
];
const OPTION_KEYS: &[&str] = &[
    "stp",
    "rstp",
    "mcast-snooping-enable",
    "fail-mode",
    "datapath",
];
const PORT_KEYS: &[&str] = &["name", "link-aggregation", "bond", "vlan"];
const BOND_KEYS: &[&str] = &[
    "mode",
    "port",
    "ports",
    "bond-downdelay",
    "bond-updelay",
    "ovs-db",
];
const VLAN_KEYS: &[&str] = &["enable-native", "mode", "tag", "trunk-tags"];

/// A bridge of Open vSwitch. An interface often has the same name.
pub(super) struct OvsBridge {
    pub(super) path: String,
    pub(super) name: String,
    /// The name of its profile, if the document gives one.
    pub(super) id: Option<String>,
    pub(super) is_down: bool,
    pub(super) sections: BTreeMap<&'static str, Settings>,
    pub(super) ports: Vec<OvsPort>,
}

/// One port of a bridge: a single interface, or a bond of several interfaces.
pub(super) struct OvsPort {
    pub(super) path: String,
    pub(super) name: String,
    /// Settings in the section `ovs-port` of its profile.
    pub(super) settings: Settings,
    pub(super) sections: BTreeMap<&'static str, Settings>,
    /// The VLAN id that the port adds to its frames.
    pub(super) tag: Option<u16>,
    /// If the port is a bond: the most similar bond mode of the kernel, and the
    /// path and name of each interface.
    pub(super) bond: Option<(&'static str, Vec<(String, String)>)>,
}

/// Reads a bridge. Returns `None` if it is absent or ignored, or has no name.
pub(super) fn read_bridge(fields: &Fields, keys: &[&str], state: State) -> Option<OvsBridge> {
    fields.expect_keys(&[keys, &["bridge"]]);
    let name = fields.text("name")?;
    if fields.has("mac-address") {
        fields.fault(
            "mac-address",
            "a bridge cannot have it; move it to its ovs-interface",
        );
    }
    let mut bridge = OvsBridge {
        path: fields.path.clone(),
        name: name.to_owned(),
        id: fields.text("profile-name").map(str::to_owned),
        is_down: state == State::Down,
        sections: BTreeMap::new(),
        ports: Vec::new(),
    };
    bridge.sections.insert("ovs-bridge", Settings::new());
    bridge.sections.extend(database(fields));
    if let Some(fields) = fields.child("bridge", BRIDGE_KEYS) {
        for key in ["allow-extra-patch-ports", "allow-extra-ports"] {
            let _ = fields.strict_flag(key);
        }
        if let Some(options) = fields.child("options", OPTION_KEYS) {
            bridge.sections.insert("ovs-bridge", read_options(&options));
        }
        let ports = fields.items(ports_key(&fields), PORT_KEYS);
        bridge.ports = ports.filter_map(|item| read_port(&item)).collect();
        bridge.ports.sort_by(|a, b| a.name.cmp(&b.name));
    }
    matches!(state, State::Up | State::Down).then_some(bridge)
}

fn read_options(fields: &Fields) -> Settings {
    let mut settings = Settings::new();
    let stp = match fields.get("stp") {
        Some(Yaml::Map(_)) => fields
            .child("stp", &["enabled"])
            .and_then(|stp| stp.flag("enabled")),
        _ => fields.flag("stp"),
    };
    for (setting, on) in [
        ("stp-enable", stp),
        ("rstp-enable", fields.flag("rstp")),
        (
            "mcast-snooping-enable",
            fields.flag("mcast-snooping-enable"),
        ),
    ] {
        settings.extend(on.map(|on| (setting.to_owned(), on.to_string())));
    }
    for (setting, key) in [("fail-mode", "fail-mode"), ("datapath-type", "datapath")] {
        let text = fields.text(key).filter(|text| !text.is_empty());
        settings.extend(text.map(|text| (setting.to_owned(), text.to_owned())));
    }
    settings
}

fn read_port(fields: &Fields) -> Option<OvsPort> {
    if !fields.has("name") {
        fields.fault("name", "expected the name of the port, found nothing");
    }
    let mut port = OvsPort {
        path: fields.path.clone(),
        name: fields.text("name")?.to_owned(),
        settings: Settings::new(),
        sections: BTreeMap::new(),
        tag: None,
        bond: None,
    };
    for key in ["link-aggregation", "bond"] {
        if let Some(fields) = fields.child(key, BOND_KEYS) {
            read_bond(&fields, &mut port);
        }
    }
    if let Some(fields) = fields.child("vlan", VLAN_KEYS) {
        read_vlan(&fields, &mut port);
    }
    Some(port)
}

fn read_bond(fields: &Fields, port: &mut OvsPort) {
    // Each row has NMState's mode, the mode in Open vSwitch, the LACP setting, and
    // the most similar mode of the kernel.
    let modes = [
        ("active-backup", ("active-backup", "off", "active-backup")),
        ("balance-slb", ("balance-slb", "off", "active-backup")),
        ("balance-tcp", ("balance-tcp", "active", "802.3ad")),
        ("lacp", ("", "active", "802.3ad")),
    ];
    let mut kernel_mode = "active-backup";
    if let Some((mode, lacp, kernel)) = fields.word("mode", &modes, false) {
        kernel_mode = kernel;
        port.settings.insert("lacp".to_owned(), lacp.to_owned());
        if !mode.is_empty() {
            port.settings
                .insert("bond-mode".to_owned(), mode.to_owned());
        }
    }
    for key in ["bond-downdelay", "bond-updelay"] {
        let delay = fields.unsigned(key, u32::MAX);
        port.settings
            .extend(delay.map(|ms| (key.to_owned(), ms.to_string())));
    }
    port.sections.extend(database(fields));
    let members = fields.items(ports_key(fields), &["name"]);
    let members =
        members.filter_map(|item| Some((item.path.clone(), item.text("name")?.to_owned())));
    port.bond = Some((kernel_mode, members.collect()));
}

/// The key of the list of ports, of which there are two spellings.
fn ports_key(fields: &Fields) -> &'static str {
    match fields.get("port") {
        Some(_) => "port",
        None => "ports",
    }
}

fn read_vlan(fields: &Fields, port: &mut OvsPort) {
    let _ = fields.flag("enable-native");
    let modes = [("access", "access"), ("trunk", "trunk")];
    if let Some(mode) = fields.word("mode", &modes, false) {
        port.settings
            .insert("vlan-mode".to_owned(), mode.to_owned());
    }
    if let Some(tag) = fields.unsigned("tag", LAST_VLAN) {
        port.settings.insert("tag".to_owned(), tag.to_string());
        port.tag = u16::try_from(tag).ok().filter(|tag| *tag != 0);
    }
    let mut ranges = Vec::new();
    for item in fields.items("trunk-tags", &["id", "id-range"]) {
        let range = item.child("id-range", &["min", "max"]);
        let range = range.as_ref().and_then(|range| vlan_range(0, range));
        let id = item.unsigned("id", LAST_VLAN).map(|id| (id, id));
        ranges.extend(id.or(range));
    }
    if fields.has("trunk-tags") {
        ranges.sort_unstable();
        let words = ranges.iter().map(|(min, max)| match min == max {
            true => min.to_string(),
            false => format!("{min}-{max}"),
        });
        let words: Vec<_> = words.collect();
        port.settings.insert("trunks".to_owned(), words.join(","));
    }
}

/// Reads the keys that only an ovs-interface may have, and returns these keys.
pub(super) fn read_interface(
    fields: &Fields,
    described: &mut Described,
) -> &'static [&'static str] {
    described.interface.kind = InterfaceKind::OpenVswitch {
        profile_type: "ovs-interface",
    };
    let mut kind = "internal";
    if let Some(patch) = fields.child("patch", &["peer"]) {
        match patch.text("peer") {
            Some(peer) => described.set("ovs-patch", "peer", peer),
            None => patch.fault("peer", "expected the other patch port, found nothing"),
        }
        kind = "patch";
        for key in ["mtu", "ipv4", "ipv6"] {
            let is_off = matches!(fields.child(key, &["enabled"]), Some(ip) if ip.flag("enabled") != Some(true));
            if fields.has(key) && (key == "mtu" || !is_off) {
                fields.fault(key, "a patch port cannot have it");
            }
        }
    }
    described.set("ovs-interface", "type", kind);
    &["patch"]
}

/// Reads `ovs-db` of an interface into sections of its profile.
pub(super) fn database(fields: &Fields) -> Vec<(&'static str, Settings)> {
    let mut sections = Vec::new();
    let Some(fields) = fields.child("ovs-db", &["external_ids", "other_config"]) else {
        return sections;
    };
    for (key, section) in [
        ("external_ids", "ovs-external-ids"),
        ("other_config", "ovs-other-config"),
    ] {
        let Some(Yaml::Map(map)) = fields.get(key) else {
            continue;
        };
        let mut settings = Settings::new();
        for (name, value) in map {
            let text = match value {
                Yaml::Text(text) => text.clone(),
                Yaml::Integer(number) => number.to_string(),
                Yaml::Bool(on) => on.to_string(),
                Yaml::Null => continue,
                other => {
                    let found = other.kind();
                    let words = format!("expected a text for {name:?}, found {found}");
                    fields.fault(key, words);
                    continue;
                }
            };
            if name.contains(|c: char| c.is_control() || "=[]".contains(c)) {
                let words = format!(
                    "expected a name without =, [, ] and control characters, found {name:?}"
                );
                fields.fault(key, words);
            } else if text.contains(|c: char| c.is_control()) {
                let words = format!(
                    "expected a value of {name:?} without control characters, found {text:?}"
                );
                fields.fault(key, words);
            } else {
                settings.insert(format!("data.{name}"), text);
            }
        }
        if !settings.is_empty() {
            sections.push((section, settings));
        }
    }
    sections
}

/// Reports bridges that have the same name, because they would share one
/// profile.
pub(super) fn check_names(bridges: &[OvsBridge], findings: &Findings) {
    for (index, bridge) in bridges.iter().enumerate() {
        let mut earlier = bridges[..index].iter();
        if earlier.any(|other| other.name == bridge.name) {
            let words = format!("expected one bridge called {}, found two", bridge.name);
            findings.fault(&bridge.path, words);
        }
    }
}
