//! Keeps, for the installed system, the values of a file that are not a part of the plan.
//! Reports unknown keys.

use super::connection::Draft;
use super::keys::{as_flag, shown};
use super::known_keys::{difference, is_known};
use crate::bond_option::bond_value;
use crate::keyfile;
use crate::plan::{Interface, InterfaceKind, NetworkPlan};

/// Keys that the plan expresses completely, so that the writer writes them.
const IN_PLAN: &[(&str, &[&str])] = &[
    (
        "connection",
        &[
            "id",
            "uuid",
            "type",
            "interface-name",
            "master",
            "controller",
        ],
    ),
    ("bond", &["interface-name"]),
    ("bridge", &["interface-name", "mac-address"]),
    ("ethernet", &["mac-address", "cloned-mac-address"]),
    ("infiniband", &["mac-address", "parent", "p-key"]),
    ("ipv4", FAMILY),
    ("ipv6", FAMILY),
    ("ipvlan", &["parent", "mode", "private", "vepa"]),
    ("macvlan", &["parent"]),
    ("team", &["interface-name"]),
    ("veth", &["peer"]),
    ("vlan", &["id", "parent", "interface-name"]),
];
const FAMILY: &[&str] = &["gateway", "dns", "dns-search"];
/// Numbered keys that the plan expresses completely.
const NUMBERED_IN_PLAN: &[&str] = &["address", "route"];
/// NetworkManager's new names of keys, and the old names, which the writer uses.
const ALIASES: &[(&str, &str)] = &[
    ("port-type", "slave-type"),
    ("autoconnect-ports", "autoconnect-slaves"),
];

/// Adds to the interface the settings of its file that the writer would not write from
/// the plan alone. `plan` contains all interfaces.
pub(super) fn keep(draft: &mut Draft, plan: &NetworkPlan) {
    identify(draft);
    let id = keyfile::id(&draft.interface);
    let written = plan.sections(&draft.interface, &id);
    let Draft {
        keys, interface, ..
    } = draft;
    for (given, values) in keys.all() {
        let is_family = given == "ipv4" || given == "ipv6";
        if is_family && interface.family_mut(given == "ipv4").is_none() {
            continue;
        }
        let Some(section) = keyfile::section_name(given) else {
            report_section(keys, given, &interface.kind);
            continue;
        };
        if !written.has(section) {
            interface.profile.settings.entry(section).or_default();
        }
        for (key, value) in values {
            let alias = ALIASES.iter().find(|(new, _)| new == key);
            let name = alias.map_or(key.as_str(), |(_, old)| old);
            if value.is_empty() || is_in_plan(section, name, interface) {
                continue;
            }
            if written
                .get(section, name)
                .is_some_and(|w| is_same(w, value))
            {
                continue;
            }
            if !is_known(section, name) {
                let words = "unknown key; the ramdisk ignores it";
                keys.warn(section, key, words);
            }
            if let Some(words) = difference(section, name, value) {
                keys.warn(section, key, words);
            }
            let (name, value) = (name.to_owned(), value.clone());
            if is_family && let Some(family) = interface.family_mut(section == "ipv4") {
                family.settings.insert(name, value);
            } else {
                let settings = interface.profile.settings.entry(section).or_default();
                settings.insert(name, value);
            }
        }
    }
    // If there is a speed, the writer adds a duplex mode, unless the settings have an
    // empty one. The file has none, so the written file must not have one either.
    let has_speed = interface.ethtool.is_some_and(|link| link.speed.is_some());
    if has_speed && keys.text("ethernet", "duplex").is_none() {
        let settings = interface.profile.settings.entry("ethernet").or_default();
        settings.insert("duplex".to_owned(), String::new());
    }
}

/// Keeps the profile's name only if the writer would use another name. If the writer can
/// make the UUID of the file, stores the label and the UUID type with which it does so.
fn identify(draft: &mut Draft) {
    let interface = &mut draft.interface;
    let given = interface.profile.id.take();
    interface.profile.id = given.filter(|id| *id != keyfile::id(interface));
    let Some(uuid) = &draft.uuid else {
        return;
    };
    let labels = [None, interface.matches.name.clone()];
    for uuid_type in [None, Some("veth")] {
        for label in &labels {
            interface.profile.label.clone_from(label);
            interface.profile.uuid_type = uuid_type;
            if keyfile::uuid(interface, &keyfile::id(interface)) == *uuid {
                return;
            }
        }
    }
    interface.profile.label = None;
    interface.profile.uuid_type = None;
}

fn is_in_plan(section: &str, key: &str, interface: &Interface) -> bool {
    let is_listed = |(known, keys): &(&str, &[&str])| *known == section && keys.contains(&key);
    if IN_PLAN.iter().any(is_listed) {
        return true;
    }
    match section {
        // Options in the plan are written from the plan. An option that the reader has
        // dropped stays in the settings for the installed system, if NetworkManager knows
        // it.
        "bond" => match &interface.kind {
            InterfaceKind::Bond { options } => {
                options.contains_key(key) || bond_value(key).is_none()
            }
            _ => false,
        },
        "ipv4" | "ipv6" => {
            let key = key.strip_suffix("_options").unwrap_or(key);
            let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
            NUMBERED_IN_PLAN.contains(&name.strip_suffix("es").unwrap_or(name))
                || NUMBERED_IN_PLAN.contains(&name.strip_suffix('s').unwrap_or(name))
        }
        _ => false,
    }
}

/// True if both texts mean the same.
fn is_same(written: &str, given: &str) -> bool {
    let flag = as_flag(written);
    written == given || (flag.is_some() && flag == as_flag(given))
}

/// Reports a section that the writer does not have.
fn report_section(keys: &super::keys::Keys, section: &str, kind: &InterfaceKind) {
    let values = keys.all().get(section).into_iter().flatten();
    let is_read = section == "ipvlan" && matches!(kind, InterfaceKind::IpVlan { .. });
    // nmcli writes an empty section `proxy` into every profile.
    if is_read || values.filter(|(_, value)| !value.is_empty()).count() == 0 {
        return;
    }
    let path = format!("{}: [{}]", keys.file, shown(section));
    keys.findings
        .warn(&path, "the ramdisk ignores this section");
}
