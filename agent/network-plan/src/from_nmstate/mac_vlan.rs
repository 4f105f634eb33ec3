//! Reads `mac-vlan` and `mac-vtap` of an interface.

use super::described::Described;
use super::fields::Fields;
use crate::plan::{InterfaceKind, MacVlanMode};

const KEYS: &[&str] = &["base-iface", "mode", "promiscuous", "accept-all-mac"];
const MODES: &[(&str, MacVlanMode)] = &[
    ("vepa", MacVlanMode::Vepa),
    ("bridge", MacVlanMode::Bridge),
    ("private", MacVlanMode::Private),
    ("passthru", MacVlanMode::Passthru),
    ("source", MacVlanMode::Source),
    ("unknown", MacVlanMode::Unknown),
];

/// Reads the settings. Returns the keys that only an interface of this type may have.
pub(super) fn read(
    tap: bool,
    interface: &Fields,
    described: &mut Described,
) -> &'static [&'static str] {
    let (key, own): (_, &[&str]) = if tap {
        ("mac-vtap", &["mac-vtap"])
    } else {
        ("mac-vlan", &["mac-vlan"])
    };
    let fields = interface.child(key, KEYS);
    let mut mode = None;
    match &fields {
        Some(fields) => {
            fields.require(&["base-iface", "mode"]);
            mode = fields.word("mode", MODES, false);
            described.read_parent(fields);
            let given = ["promiscuous", "accept-all-mac"]
                .into_iter()
                .find_map(|name| Some((name, fields.flag(name)?)));
            if let Some((name, on)) = given {
                if !on && mode != Some(MacVlanMode::Passthru) {
                    fields.fault(
                        name,
                        "expected true, found false, which only the mode passthru permits",
                    );
                }
                described.set("macvlan", "promiscuous", on);
            }
        }
        None => interface.warn(
            key,
            "base-iface is missing: the ramdisk does not create the interface",
        ),
    }
    described.interface.kind = InterfaceKind::MacVlan {
        parent: None,
        parent_mac: None,
        mode,
        tap,
    };
    own
}
