//! Reads `veth` of an interface.

use landfall_boot_params::dracut_net::is_interface_name;

use super::described::{Described, Interfaces, State};
use super::fields::{Fields, Findings};
use crate::plan::InterfaceKind;

/// Reads the peer. An interface without a peer is a NIC, as in nmstate.
pub(super) fn read(interface: &Fields, described: &mut Described) {
    let Some(fields) = interface.child("veth", &["peer"]) else {
        return;
    };
    match fields.text("peer") {
        Some(peer) if is_interface_name(peer) => {
            described.interface.kind = InterfaceKind::Veth {
                peer: peer.to_owned(),
            };
        }
        Some(peer) => fields.expected("peer", "the name of an interface", peer),
        None => fields.fault("peer", "expected the other end, found nothing"),
    }
}

/// Adds each end of a veth pair that the document does not describe.
pub(super) fn add_peers(all: &mut Interfaces, findings: &Findings) {
    for index in 0..all.list.len() {
        let described = &all.list[index];
        let InterfaceKind::Veth { peer } = &described.interface.kind else {
            continue;
        };
        let (name, path, peer) = (described.name.clone(), described.path.clone(), peer.clone());
        if described.state != State::Up {
            continue;
        }
        match all.list.iter().find(|d| d.name == peer) {
            None => {
                let mut other = Described::plain(&peer, path);
                other.interface.kind = InterfaceKind::Veth { peer: name };
                other.interface.profile.uuid_type = Some("veth");
                // nmstate's generator writes this setting only for an end that the document
                // does not describe.
                let settings = &mut other.ipv6.plan.settings;
                settings.insert("addr-gen-mode".to_owned(), "0".to_owned());
                all.list.push(other);
            }
            Some(other) => {
                let is_end = InterfaceKind::Veth { peer: name };
                if other.interface.kind != is_end {
                    let words = format!("{peer} is not described as the other end of it");
                    findings.warn(&format!("{path}.veth.peer"), words);
                }
            }
        }
    }
}
