//! Reads `ethernet` of an interface.

use super::described::Described;
use super::fields::Fields;
use super::sriov;
use crate::plan::Ethtool;

const KEYS: &[&str] = &["auto-negotiation", "speed", "duplex", "sr-iov"];

/// Reads `ethernet`. Returns the keys that only an interface of this type may have.
pub(super) fn read(interface: &Fields, described: &mut Described) -> &'static [&'static str] {
    let Some(fields) = interface.child("ethernet", KEYS) else {
        return &["ethernet", "veth"];
    };
    sriov::read(&fields, described);
    let autoneg = fields.flag("auto-negotiation");
    let speed = fields.unsigned("speed", u32::MAX);
    let duplex = fields.word("duplex", &[("full", "full"), ("half", "half")], false);
    let forced = autoneg == Some(false);
    if !forced && (speed.is_some() || duplex.is_some()) {
        fields.warn("speed", "ignored without `auto-negotiation: false`");
    }
    described.interface.ethtool = autoneg.map(|autoneg| Ethtool {
        autoneg,
        speed: speed.filter(|_| forced),
    });
    if forced && (speed.is_some() || duplex.is_some()) {
        // With an empty value the writer writes no duplex mode. nmstate writes one only
        // if the document has one.
        described.set("ethernet", "duplex", duplex.unwrap_or(""));
        if duplex == Some("half") {
            fields.warn("duplex", "the ramdisk uses full duplex");
        }
    }
    &["ethernet", "veth"]
}
