//! Reads `ipvlan` of an interface.

use super::described::Described;
use super::fields::Fields;
use crate::plan::{InterfaceKind, IpVlanMode};

const KEYS: &[&str] = &["base-iface", "mode", "private", "vepa"];
/// The kernel's IPVLAN_F_PRIVATE and IPVLAN_F_VEPA.
const PRIVATE: u16 = 1;
const VEPA: u16 = 2;

/// Reads the settings. Returns the keys that only an interface of this type may have.
pub(super) fn read(interface: &Fields, described: &mut Described) -> &'static [&'static str] {
    let mut mode = None;
    let mut flags = 0;
    if let Some(fields) = interface.child("ipvlan", KEYS) {
        let modes = [
            ("l2", IpVlanMode::L2),
            ("l3", IpVlanMode::L3),
            ("l3s", IpVlanMode::L3s),
        ];
        mode = fields.word("mode", &modes, false);
        described.read_parent(&fields);
        for (key, flag) in [("private", PRIVATE), ("vepa", VEPA)] {
            if fields.flag(key) == Some(true) {
                flags |= flag;
            }
        }
        if flags == PRIVATE | VEPA {
            fields.fault("vepa", "expected private or vepa, found both");
        }
    }
    if described.parent.is_none() {
        interface.warn(
            "ipvlan.base-iface",
            "base-iface is missing: the ramdisk does not create the interface",
        );
    }
    interface.warn(
        "ipvlan",
        "nmstate's generator writes a profile without parent and mode, which NetworkManager \
         rejects: the installed system does not have this interface",
    );
    described.interface.kind = InterfaceKind::IpVlan {
        parent: None,
        parent_mac: None,
        mode: mode.unwrap_or(IpVlanMode::L3),
        flags,
    };
    &["ipvlan"]
}
