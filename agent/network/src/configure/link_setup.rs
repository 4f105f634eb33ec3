//! Applies the plan's settings to one device and describes failures.

use std::io;
use std::path::Path;

use landfall_network_plan::{Ethtool, Interface, IpPlan};
use landfall_sys::ethtool;

use crate::apply::{Changes, Lifetime};
use crate::device_route::{DeviceRoute, planned_routes};
use crate::ipv6_sysctl;
use crate::links::Link;

/// Sets the hardware address, MTU, speed and IPv6 switches of the device, in the order
/// that the kernel requires, and switches it on unless it is a port. Continues after a
/// failure. Returns the failures.
pub(super) async fn prepare_link(
    changes: &Changes,
    link: &Link,
    interface: Option<&Interface>,
    mtu: Option<u32>,
) -> Vec<String> {
    let index = link.index;
    let mut errors = Vec::new();
    let mut up = link.up;
    if let Some(mac) = interface
        .and_then(|i| i.set_mac?.address())
        .filter(|mac| *mac != link.mac)
    {
        if up {
            note(&mut errors, "switch it off", changes.down(index).await);
            up = false;
        }
        let result = changes.set_mac(index, mac).await;
        note(&mut errors, &format!("set MAC {mac}"), result);
    }
    if let Some(mtu) = mtu.filter(|mtu| *mtu != link.mtu) {
        let result = changes.set_mtu(index, mtu).await;
        note(&mut errors, &format!("set MTU {mtu}"), result);
    }
    if let Some(Ethtool { autoneg, speed }) = interface.and_then(|i| i.ethtool) {
        let result = ethtool::set_link_settings(&link.name, autoneg, speed);
        let speed = speed.map_or_else(|| "any speed".to_owned(), |speed| format!("{speed} Mbit/s"));
        let autoneg = if autoneg { "on" } else { "off" };
        let what = format!("set autonegotiation {autoneg}, {speed}");
        note(&mut errors, &what, result);
    }
    let ipv6 = interface.and_then(|i| i.ipv6.as_ref());
    let result = ipv6_sysctl::set(Path::new(ipv6_sysctl::ROOT), &link.name, ipv6);
    note(&mut errors, "set up IPv6", result);
    if interface.is_some_and(|i| i.controller.is_some()) {
        // A bond accepts a port only while the port is off. `Configurator::join` switches
        // every port on.
        return errors;
    }
    if !up {
        // Drivers load their firmware here, so "No such file" in the error means a
        // file in /lib/firmware.
        note(&mut errors, "switch it on", changes.up(index).await);
    }
    errors
}

/// Adds the static addresses and routes of one address family. Returns the
/// failures.
pub(super) async fn add_planned(
    changes: &Changes,
    index: u32,
    ip: &IpPlan,
    metric: u32,
) -> Vec<String> {
    let mut errors = Vec::new();
    for address in &ip.addresses {
        let result = changes
            .add_address(index, *address, Lifetime::default(), metric)
            .await;
        note(&mut errors, &format!("add {address}"), result);
    }
    for route in planned_routes(ip, metric) {
        let result = changes.add_route(index, &route).await;
        note(&mut errors, &route_change("add", &route), result);
    }
    errors
}

/// Appends a failure to `errors`: `cannot {what}: {error}`.
pub(super) fn note(errors: &mut Vec<String>, what: &str, result: io::Result<()>) {
    if let Err(error) = result {
        errors.push(format!("cannot {what}: {error}"));
    }
}

/// Describes a change of a route for [`note`]: `add the route to 10.0.0.0/8 via
/// 192.0.2.1`.
pub(super) fn route_change(verb: &str, route: &DeviceRoute) -> String {
    match route.via {
        Some(via) => format!("{verb} the route to {} via {via}", route.destination),
        None => format!("{verb} the route to {} on the link", route.destination),
    }
}
