//! Reads `bridge` of an interface.

use landfall_boot_params::MacAddr;

use super::described::{Described, Port};
use super::fields::Fields;
use crate::plan::InterfaceKind;

const KEYS: &[&str] = &["options", "port", "allow-extra-ports"];
const PORT_KEYS: &[&str] = &[
    "name",
    "stp-hairpin-mode",
    "stp-path-cost",
    "stp-priority",
    "vlan",
];
const PORT_VLAN_KEYS: &[&str] = &["enable-native", "mode", "tag", "trunk-tags"];
const STP_KEYS: &[&str] = &[
    "enabled",
    "forward-delay",
    "hello-time",
    "max-age",
    "priority",
];
/// Settings with a boolean value that have the same name in NMState and
/// NetworkManager.
const FLAGS: &[&str] = &[
    "multicast-querier",
    "multicast-query-use-ifaddr",
    "multicast-snooping",
];
/// Settings with a number, and the largest value of each.
const NUMBERS: &[(&str, i64)] = &[
    ("hash-max", MOST),
    ("mac-ageing-time", MOST),
    ("multicast-last-member-count", MOST),
    ("multicast-last-member-interval", i64::MAX),
    ("multicast-membership-interval", i64::MAX),
    ("multicast-querier-interval", i64::MAX),
    ("multicast-query-interval", i64::MAX),
    ("multicast-query-response-interval", i64::MAX),
    ("multicast-startup-query-count", MOST),
    ("multicast-startup-query-interval", i64::MAX),
];
const OTHERS: &[&str] = &[
    "gc-timer",
    "group-addr",
    "group-forward-mask",
    "group-fwd-mask",
    "hello-timer",
    "multicast-router",
    "stp",
    "vlan-protocol",
    "vlan-default-pvid",
];
const MOST: i64 = u32::MAX as i64;
/// IEEE 802.1Q reserves 0 and 4095.
const FIRST_VLAN: u32 = 1;
const LAST_VLAN: u32 = 4094;

/// Reads the bridge. Returns the keys that only an interface of this type may have.
pub(super) fn read(interface: &Fields, described: &mut Described) -> &'static [&'static str] {
    let mut stp = None;
    if let Some(fields) = interface.child("bridge", KEYS) {
        let _ = fields.strict_flag("allow-extra-ports");
        described.ports = fields.list("port").map(|list| {
            let read = |(path, item)| port(Fields::of(item, path, PORT_KEYS, fields.findings)?);
            list.into_iter().filter_map(read).collect::<Vec<Port>>()
        });
        let filters = described.ports.iter().flatten().any(|port| port.has_vlans);
        if described.ports.is_some() {
            described.set("bridge", "vlan-filtering", filters);
        }
        let numbers = NUMBERS.iter().map(|(name, _)| *name);
        let flags = FLAGS.iter().copied();
        let keys: Vec<&str> = numbers.chain(flags).chain(OTHERS.iter().copied()).collect();
        if let Some(options) = fields.child("options", &keys) {
            read_options(&options, filters, described);
            stp = options
                .child("stp", STP_KEYS)
                .and_then(|fields| read_stp(&fields, described));
        }
    }
    described.interface.kind = InterfaceKind::Bridge { stp };
    &["bridge"]
}

fn read_options(fields: &Fields, filters: bool, described: &mut Described) {
    for key in ["gc-timer", "hello-timer"] {
        let _ = fields.number(key, 0..=i64::MAX);
    }
    for (key, most) in NUMBERS {
        // NetworkManager has other names for two of these numbers.
        let setting = match *key {
            "hash-max" => "multicast-hash-max",
            "mac-ageing-time" => "ageing-time",
            same => same,
        };
        if let Some(number) = fields.number(key, 0..=*most) {
            described.set("bridge", setting, number);
        }
    }
    for key in FLAGS {
        if let Some(on) = fields.flag(key) {
            described.set("bridge", key, on);
        }
    }
    read_group_address(fields, described);
    let masks = ["group-forward-mask", "group-fwd-mask"];
    let masks = masks.map(|key| fields.unsigned(key, u16::MAX.into()));
    if let (Some(one), Some(other)) = (masks[0], masks[1])
        && one != other
    {
        fields.expected(
            "group-fwd-mask",
            format!("{one} as in group-forward-mask"),
            other,
        );
    }
    if let Some(mask) = masks[0].or(masks[1]) {
        described.set("bridge", "group-forward-mask", mask);
    }
    let routers = [
        ("auto", "auto"),
        ("disabled", "disabled"),
        ("enabled", "enabled"),
        ("0", "disabled"),
        ("1", "auto"),
        ("2", "enabled"),
    ];
    if let Some(router) = fields.word("multicast-router", &routers, true) {
        described.set("bridge", "multicast-router", router);
    }
    let protocols = [("802.1q", "802.1Q"), ("802.1ad", "802.1ad")];
    if let Some(protocol) = fields.word("vlan-protocol", &protocols, false) {
        described.set("bridge", "vlan-protocol", protocol);
    }
    if let Some(tag) = fields.unsigned("vlan-default-pvid", LAST_VLAN) {
        if tag != 1 && !filters {
            fields.fault(
                "vlan-default-pvid",
                format!("a value other than 1 needs a port with `vlan`, found {tag}"),
            );
        }
        described.set("bridge", "vlan-default-pvid", tag);
    }
}

/// Writes the address in the form that NetworkManager reads. nmstate writes decimal
/// bytes joined by `;`, and NetworkManager rejects a profile with this form.
fn read_group_address(fields: &Fields, described: &mut Described) {
    let expected = "01:80:c2:00:00:00, or an address from 01:80:c2:00:00:04 to 01:80:c2:00:00:0f";
    let Some(address) = fields.parsed::<MacAddr>("group-addr", expected) else {
        return;
    };
    // Accepts the link-local addresses except the reserved ones, as the kernel
    // (`br_changelink` in br_netlink.c) and NetworkManager
    // (_nm_utils_hwaddr_link_local_valid in nm-utils.c) do.
    let [start @ .., last] = address.0;
    if start != [0x01, 0x80, 0xc2, 0, 0] || !matches!(last, 0 | 4..=15) {
        return fields.expected("group-addr", expected, address.to_string());
    }
    let text = address.to_string().to_ascii_uppercase();
    described.set("bridge", "group-address", text);
}

fn read_stp(fields: &Fields, described: &mut Described) -> Option<bool> {
    let bounds = [
        ("forward-delay", 2..=30),
        ("hello-time", 1..=10),
        ("max-age", 6..=40),
        ("priority", 0..=u16::MAX.into()),
    ];
    for (key, bounds) in bounds {
        if let Some(number) = fields.number(key, bounds) {
            described.set("bridge", key, number);
        }
    }
    fields.flag("enabled")
}

fn port(fields: Fields) -> Option<Port> {
    if !fields.has("name") {
        fields.fault("name", "expected the name of a port, found nothing");
    }
    let mut port = Port::new(fields.text("name")?, fields.path.clone());
    port.section = Some("bridge-port");
    let mut set = |key: &str, value: Option<String>| {
        port.settings
            .extend(value.map(|value| (key.to_owned(), value)));
    };
    set(
        "hairpin-mode",
        fields.flag("stp-hairpin-mode").map(|on| on.to_string()),
    );
    set(
        "path-cost",
        fields
            .unsigned("stp-path-cost", u32::MAX)
            .map(|n| n.to_string()),
    );
    set(
        "priority",
        fields
            .unsigned("stp-priority", u16::MAX.into())
            .map(|n| n.to_string()),
    );
    if let Some(vlan) = fields.child("vlan", PORT_VLAN_KEYS) {
        port.has_vlans = PORT_VLAN_KEYS.iter().any(|key| vlan.get(key).is_some());
        port.settings.insert("vlans".to_owned(), port_vlans(&vlan));
    }
    Some(port)
}

/// The port's VLANs in NetworkManager's form: `3,9 pvid untagged,10-14`.
fn port_vlans(fields: &Fields) -> String {
    let modes = [("trunk", true), ("access", false)];
    let is_trunk = fields.word("mode", &modes, false);
    let tag = fields.unsigned("tag", LAST_VLAN);
    let is_native = fields.flag("enable-native") == Some(true);
    let tags = trunk_tags(fields);
    match is_trunk {
        Some(true) => {
            if tag.is_some_and(|tag| tag != 0) && !is_native {
                fields.fault("tag", "a tag in a trunk needs `enable-native: true`");
            }
            if tags.is_none() {
                fields.fault(
                    "trunk-tags",
                    "expected the tags of the trunk, found nothing",
                );
            }
        }
        Some(false) => {
            if is_native {
                fields.fault("enable-native", "needs mode trunk");
            }
            if tags.as_ref().is_some_and(|tags| !tags.is_empty()) {
                fields.fault("trunk-tags", "needs mode trunk");
            }
        }
        None => {}
    }
    let mut ranges = Vec::new();
    if is_trunk == Some(true) {
        let tags = tags.unwrap_or_default();
        ranges.extend(tags.into_iter().map(|(first, last)| (first, last, false)));
    }
    if let Some(tag) = tag.filter(|_| is_trunk.is_some()) {
        ranges.push((tag, tag, true));
    }
    ranges.sort_unstable_by_key(|(first, ..)| *first);
    let ranges: Vec<_> = ranges.into_iter().map(range_text).collect();
    ranges.join(",")
}

fn range_text((first, last, is_untagged): (u32, u32, bool)) -> String {
    let range = if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    };
    let flags = if is_untagged { " pvid untagged" } else { "" };
    format!("{range}{flags}")
}

/// The VLAN ids from `min` to `max`; `min` is at least `least`. A `max` below `min` is a
/// fault, because NetworkManager ignores such a range and the port loses these VLANs.
pub(super) fn vlan_range(least: u32, range: &Fields) -> Option<(u32, u32)> {
    let first = vlan_from(least, range, "min")?;
    Some((first, vlan_from(first, range, "max")?))
}

fn vlan_from(least: u32, fields: &Fields, key: &str) -> Option<u32> {
    let id = fields.number(key, least.into()..=LAST_VLAN.into())?;
    u32::try_from(id).ok()
}

fn trunk_tags(fields: &Fields) -> Option<Vec<(u32, u32)>> {
    let mut tags: Vec<(u32, u32)> = Vec::new();
    for (path, item) in fields.list("trunk-tags")? {
        let Some(item) = Fields::of(item, path, &["id", "id-range"], fields.findings) else {
            continue;
        };
        let range = if item.has("id") {
            let id = vlan_from(FIRST_VLAN, &item, "id");
            id.map(|id| (id, id))
        } else if let Some(range) = item.child("id-range", &["min", "max"]) {
            range.require(&["min", "max"]);
            vlan_range(FIRST_VLAN, &range)
        } else {
            item.fault("id", "expected a tag, or an id-range, found nothing");
            None
        };
        let Some((first, last)) = range else {
            continue;
        };
        if tags.iter().any(|(a, b)| first <= *b && *a <= last) {
            item.findings
                .fault(&item.path, "expected each tag once, found one twice");
        }
        tags.push((first, last));
    }
    Some(tags)
}
