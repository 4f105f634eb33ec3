//! Reads `vlan` of an interface.

use super::described::Described;
use super::fields::Fields;
use crate::plan::InterfaceKind;

/// The highest VLAN id in IEEE 802.1Q, which reserves 4095, and in NetworkManager.
const LAST_VLAN: u32 = 4094;
const MOST_PRIORITY: u32 = 7;

// NM_VLAN_FLAGS of NetworkManager.
const REORDER_HEADERS: u32 = 1;
const GVRP: u32 = 2;
const LOOSE_BINDING: u32 = 4;
const MVRP: u32 = 8;

const KEYS: &[&str] = &[
    "base-iface",
    "id",
    "protocol",
    "registration-protocol",
    "reorder-headers",
    "loose-binding",
    "ingress-qos-map",
    "egress-qos-map",
];

/// Reads the VLAN. Returns the keys that only an interface of this type may have.
pub(super) fn read(interface: &Fields, described: &mut Described) -> &'static [&'static str] {
    let fields = interface.child("vlan", KEYS);
    let mut kind = InterfaceKind::Vlan {
        id: 0,
        parent: None,
        parent_mac: None,
        service: false,
    };
    let Some(fields) = fields else {
        if !interface.has("vlan") {
            interface.fault("vlan", "expected `id` and `base-iface`, found nothing");
        }
        described.interface.kind = kind;
        return &["vlan"];
    };
    fields.require(&["id", "base-iface"]);
    let tag = fields.unsigned("id", LAST_VLAN);
    described.read_parent(&fields);
    if described.parent.as_deref() == Some(&described.name) {
        fields.fault("base-iface", "expected another interface than itself");
        described.parent = None;
    }
    let protocol = fields.word("protocol", &[("802.1q", false), ("802.1ad", true)], false);
    if let InterfaceKind::Vlan { id, service, .. } = &mut kind {
        *id = tag.and_then(|tag| u16::try_from(tag).ok()).unwrap_or(0);
        *service = protocol == Some(true);
    }
    described.interface.kind = kind;
    // On its own, the keyfile writer writes the protocol only for 802.1ad.
    if protocol == Some(false) {
        described.set("vlan", "protocol", "802.1Q");
    }
    flags(&fields, described);
    for (key, setting, is_ingress) in [
        ("ingress-qos-map", "ingress-priority-map", true),
        ("egress-qos-map", "egress-priority-map", false),
    ] {
        let map = priorities(&fields, key, is_ingress);
        if !map.is_empty() {
            let map: Vec<_> = map
                .iter()
                .map(|(from, to)| format!("{from}:{to}"))
                .collect();
            described.set("vlan", setting, map.join(";"));
        }
    }
    &["vlan"]
}

fn flags(fields: &Fields, described: &mut Described) {
    let registrations = [("gvrp", GVRP), ("mvrp", MVRP), ("none", 0)];
    let mut flags = fields
        .word("registration-protocol", &registrations, false)
        .unwrap_or(0);
    if fields.strict_flag("reorder-headers") != Some(false) {
        flags |= REORDER_HEADERS;
    }
    if fields.strict_flag("loose-binding") == Some(true) {
        flags |= LOOSE_BINDING;
    }
    if flags != REORDER_HEADERS {
        described.set("vlan", "flags", flags);
    }
}

fn priorities(fields: &Fields, key: &str, is_ingress: bool) -> Vec<(u32, u32)> {
    let mut map = Vec::new();
    for item in fields.items(key, &["from", "to"]) {
        item.require(&["from", "to"]);
        let bound = |is_priority| if is_priority { MOST_PRIORITY } else { u32::MAX };
        let from = item.unsigned("from", bound(is_ingress));
        let to = item.unsigned("to", bound(!is_ingress));
        map.extend(from.zip(to));
    }
    map.sort_unstable();
    map
}
