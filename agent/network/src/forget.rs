//! Removes what an earlier network task has configured.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt as _;
use nix::errno::Errno;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::{RouteMessage, RouteProtocol, RouteType};
use rtnetlink::packet_route::rule::RuleAttribute;
use rtnetlink::{IpVersion, RouteMessageBuilder};

use crate::apply::{Changes, cause, unless};
use crate::policy_rule;

/// Removes virtual devices, addresses, routes and rules, and switches the NICs off, so
/// that another plan starts from the state at boot. Veth pairs lose their addresses but
/// stay, because the NIC of a container is also an end of a veth pair.
///
/// # Errors
/// If the kernel refuses one of the changes.
pub async fn forget() -> io::Result<()> {
    let changes = Changes::open()?;
    let links = changes.handle.link().get().execute();
    let links: Vec<LinkMessage> = links.try_collect().await.map_err(cause)?;
    for link in &links {
        let index = link.header.index;
        if link.header.flags.contains(LinkFlags::Loopback) {
            continue;
        }
        if is_made(link) {
            // The kernel removes a device together with its parent, so the device may be
            // gone.
            let removed = changes.handle.link().del(index).execute().await;
            unless(removed.map_err(cause), Errno::ENODEV)?;
            continue;
        }
        // The kernel removes the routes and the IPv6 addresses itself.
        unless(changes.down(index).await, Errno::ENODEV)?;
    }
    let addresses = changes.handle.address().get().execute();
    let addresses: Vec<_> = addresses.try_collect().await.map_err(cause)?;
    let loopback: Vec<u32> = { links.iter() }
        .filter(|link| link.header.flags.contains(LinkFlags::Loopback))
        .map(|link| link.header.index)
        .collect();
    for address in addresses {
        if loopback.contains(&address.header.index) {
            continue;
        }
        let removed = changes.handle.address().del(address).execute().await;
        unless(removed.map_err(cause), Errno::EADDRNOTAVAIL)?;
    }
    forget_rules_and_reject_routes(&changes).await
}

/// Removes the agent's rules, and its routes that reject or drop packets. They need no
/// device, so the kernel keeps them when every link is down.
async fn forget_rules_and_reject_routes(changes: &Changes) -> io::Result<()> {
    for version in [IpVersion::V4, IpVersion::V6] {
        let rules = changes.handle.rule().get(version).execute();
        let rules: Vec<_> = rules.try_collect().await.map_err(cause)?;
        let own = RuleAttribute::Protocol(policy_rule::PROTOCOL);
        for rule in rules.into_iter().filter(|r| r.attributes.contains(&own)) {
            let removed = changes.handle.rule().del(rule).execute().await;
            unless(removed.map_err(cause), Errno::ENOENT)?;
        }
    }
    for every in [
        RouteMessageBuilder::<Ipv4Addr>::new().build(),
        RouteMessageBuilder::<Ipv6Addr>::new().build(),
    ] {
        let routes = changes.handle.route().get(every).execute();
        let routes: Vec<_> = routes.try_collect().await.map_err(cause)?;
        for route in routes.into_iter().filter(is_own_without_device) {
            let removed = changes.handle.route().del(route).execute().await;
            unless(removed.map_err(cause), Errno::ESRCH)?;
        }
    }
    Ok(())
}

fn is_own_without_device(route: &RouteMessage) -> bool {
    let kinds = [
        RouteType::BlackHole,
        RouteType::Unreachable,
        RouteType::Prohibit,
    ];
    route.header.protocol == RouteProtocol::Static && kinds.contains(&route.header.kind)
}

/// Whether [`forget`] removes devices of this kind: those that the network task creates,
/// except veth pairs and InfiniBand partitions.
fn is_made(link: &LinkMessage) -> bool {
    let info = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(info) => Some(info),
            _ => None,
        });
    info.into_iter().flatten().any(|info| {
        matches!(
            info,
            LinkInfo::Kind(
                InfoKind::Vlan
                    | InfoKind::Bond
                    | InfoKind::Bridge
                    | InfoKind::MacVlan
                    | InfoKind::MacVtap
                    | InfoKind::IpVlan
                    | InfoKind::Vrf
            )
        )
    })
}
