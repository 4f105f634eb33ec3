//! The loopback interface. Its profile contains settings that belong to no NIC: routes
//! that drop or reject packets, and routing rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use landfall_boot_params::IpPrefix;

use super::described::{Described, Interfaces};
use super::family::Family;
use crate::plan::{InterfaceKind, Method};

/// The kernel's name of the interface.
pub(super) const NAME: &str = "lo";

/// The loopback interface of the document. If the document has none, adds it with the
/// kernel's addresses.
pub(super) fn of(all: &mut Interfaces) -> &mut Described {
    let place = all.position(NAME).unwrap_or_else(|| {
        let mut described = Described::plain(NAME, NAME.to_owned());
        described.interface.kind = InterfaceKind::Loopback;
        add(&mut described.ipv4, Ipv4Addr::LOCALHOST.into(), 8);
        add(&mut described.ipv6, Ipv6Addr::LOCALHOST.into(), 128);
        all.list.push(described);
        all.list.len() - 1
    });
    &mut all.list[place]
}

fn add(family: &mut Family, address: IpAddr, length: u8) {
    family.enabled = true;
    family.plan.method = Method::Manual;
    family.plan.addresses = vec![IpPrefix { address, length }];
}
