//! Removes what an earlier network task has configured.

use std::io;

use futures_util::TryStreamExt as _;
use nix::errno::Errno;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};

use crate::apply::{Changes, cause, unless};

/// Removes virtual devices, addresses and routes, and switches the NICs off, so that
/// another plan finds the NICs as at boot. Veth pairs stay, but lose their addresses:
/// the NIC of a container is also an end of a veth pair.
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
            // The device is gone already if the one below it was removed first.
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
    Ok(())
}

/// Whether the network task makes devices of this kind.
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
