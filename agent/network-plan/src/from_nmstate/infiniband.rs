//! Reads `infiniband` of an interface.

use super::described::Described;
use super::fields::Fields;
use crate::plan::InterfaceKind;

const KEYS: &[&str] = &["mode", "base-iface", "pkey"];
/// The partition key by which nmstate denotes the port itself instead of a partition.
const NO_PARTITION: u32 = 0xffff;

/// Reads the settings. Returns the keys that only an interface of this type may have.
pub(super) fn read(interface: &Fields, described: &mut Described) -> &'static [&'static str] {
    let mut parent = None;
    let mut p_key = None;
    let mut mode = None;
    if let Some(fields) = interface.child("infiniband", KEYS) {
        fields.require(&["mode", "pkey"]);
        let modes = [("datagram", "datagram"), ("connected", "connected")];
        mode = fields.word("mode", &modes, false);
        let key = fields.unsigned("pkey", NO_PARTITION);
        p_key = key.filter(|key| *key != NO_PARTITION);
        parent = fields.text("base-iface").filter(|name| !name.is_empty());
        // The kernel's name of the partition, from which NetworkManager derives the
        // key.
        if let (Some(parent), Some(key)) = (parent, p_key) {
            let name = format!("{parent}.{key:04x}");
            if described.name != name {
                let words = format!("NetworkManager drops a partition that is not called {name}");
                fields.warn("pkey", words);
            }
        }
    }
    described.interface.kind = InterfaceKind::Infiniband {
        mac: None,
        parent: parent.map(str::to_owned),
        p_key: p_key.and_then(|key| u16::try_from(key).ok()),
        mode,
    };
    &["infiniband"]
}
