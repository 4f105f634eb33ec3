//! Reads `vrf` of an interface.

use super::described::{Described, Port};
use super::fields::Fields;
use crate::plan::InterfaceKind;

const KEYS: &[&str] = &["port", "ports", "route-table-id"];

/// Reads the settings. Returns the keys that only an interface of this type may have.
pub(super) fn read(interface: &Fields, described: &mut Described) -> &'static [&'static str] {
    let fields = interface.child("vrf", KEYS);
    let table = fields
        .as_ref()
        .and_then(|fields| fields.unsigned("route-table-id", u32::MAX))
        .unwrap_or(0);
    if table == 0 {
        interface.fault(
            "vrf.route-table-id",
            "expected the number of a routing table, found none",
        );
    }
    described.interface.kind = InterfaceKind::Vrf { table };
    let Some(fields) = fields else {
        return &["vrf"];
    };
    let ports = fields.texts("port").or_else(|| fields.texts("ports"));
    described.ports = ports.map(|ports| {
        let ports = ports.into_iter();
        let mut ports: Vec<_> = ports.map(|(path, name)| Port::new(name, path)).collect();
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        ports
    });
    &["vrf"]
}
