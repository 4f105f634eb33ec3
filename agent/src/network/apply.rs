//! Changes to devices, addresses and routes: the only place that makes them.
//!
//! Every function may be called again with the same arguments: what is there
//! already is no error.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use landfall_network_plan::{IpPrefix, MacAddr, RouteKind};
use nix::errno::Errno;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, CacheInfo};
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::route::{RouteMessage, RouteProtocol, RouteScope, RouteType};
use rtnetlink::{AddressAddRequest, Handle, LinkUnspec, RouteMessageBuilder};

use super::nic::DeviceRoute;

/// The connection to the kernel over which changes are made.
#[derive(Clone)]
pub struct Changes {
    pub(super) handle: Handle,
}

/// How long an address is there; `None`: for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// How long new connections may come from it.
    pub preferred: Option<Duration>,
    /// How long it may be used at all.
    pub valid: Option<Duration>,
}

impl Lifetime {
    /// The same time for both.
    pub fn of(time: Option<Duration>) -> Lifetime {
        Lifetime {
            preferred: time,
            valid: time,
        }
    }
}

impl Changes {
    /// Opens the connection; it is served by a task of the current runtime.
    pub fn open() -> io::Result<Changes> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(Changes { handle })
    }

    /// Switches a device on.
    pub async fn up(&self, index: u32) -> io::Result<()> {
        self.change(LinkUnspec::new_with_index(index).up().build())
            .await
    }

    /// Switches a device off: most drivers want it so for a new hardware address.
    pub async fn down(&self, index: u32) -> io::Result<()> {
        self.change(LinkUnspec::new_with_index(index).down().build())
            .await
    }

    /// Calls a device something else. Kernels before 6.2 want it switched off.
    pub async fn rename(&self, index: u32, name: &str) -> io::Result<()> {
        let message = LinkUnspec::new_with_index(index).name(name.to_owned());
        self.change(message.build()).await
    }

    /// Lets a device be found by this name as well.
    pub async fn add_name(&self, index: u32, name: &str) -> io::Result<()> {
        self.handle
            .link()
            .property_add(index)
            .alt_ifname(&[name])
            .execute()
            .await
            .map_err(cause)
    }

    /// Gives a device a hardware address.
    pub async fn set_mac(&self, index: u32, mac: MacAddr) -> io::Result<()> {
        let message = LinkUnspec::new_with_index(index).address(mac.0.to_vec());
        self.change(message.build()).await
    }

    /// Sets the MTU of a device.
    pub async fn set_mtu(&self, index: u32, mtu: u32) -> io::Result<()> {
        self.change(LinkUnspec::new_with_index(index).mtu(mtu).build())
            .await
    }

    /// What there is under a name, in all that the kernel tells of it.
    pub async fn look_up(&self, name: &str) -> io::Result<LinkMessage> {
        let request = self.handle.link().get().match_name(name.to_owned());
        let answer = request.execute().try_next().await.map_err(cause)?;
        answer.ok_or_else(|| io::Error::from_raw_os_error(Errno::ENODEV as i32))
    }

    /// What a device is called now.
    pub async fn name_of(&self, index: u32) -> io::Result<Option<String>> {
        let request = self.handle.link().get().match_index(index);
        let answer = request.execute().try_next().await.map_err(cause)?;
        let mut attributes = answer.into_iter().flat_map(|message| message.attributes);
        Ok(attributes.find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        }))
    }

    /// Makes a VLAN, bond or bridge, unless the name is taken.
    pub async fn make(&self, message: LinkMessage) -> io::Result<()> {
        let result = self.handle.link().add(message).execute().await;
        unless(result.map_err(cause), Errno::EEXIST)
    }

    /// Changes what the message names.
    pub async fn change(&self, message: LinkMessage) -> io::Result<()> {
        self.handle
            .link()
            .change(message)
            .execute()
            .await
            .map_err(cause)
    }

    /// Adds an address, or gives it another lifetime. With a lifetime the
    /// kernel takes the address away by itself: nobody keeps using it should
    /// the agent be gone when the lease ends. The metric is that of the route to
    /// the network of the address, which goes before every other without one.
    pub async fn add_address(
        &self,
        index: u32,
        address: IpPrefix,
        lifetime: Lifetime,
        metric: u32,
    ) -> io::Result<()> {
        let mut request = self.address_request(index, address, metric);
        let attributes = &mut request.message_mut().attributes;
        if lifetime.valid.is_some() || lifetime.preferred.is_some() {
            let mut times = CacheInfo::default();
            times.ifa_preferred = seconds(lifetime.preferred);
            times.ifa_valid = seconds(lifetime.valid);
            attributes.push(AddressAttribute::CacheInfo(times));
        }
        if address.address.is_ipv6() {
            // Used while the kernel asks whether somebody else has it, where
            // the device may do so; see `ipv6_sysctl`.
            let optimistic = AddressAttribute::Flags(AddressFlags::Optimistic);
            attributes.push(optimistic);
        }
        request.execute().await.map_err(cause)
    }

    /// Adds an address that another machine has had. An IPv6 one is not used
    /// before the kernel has asked who has it.
    pub async fn try_address(&self, index: u32, address: IpPrefix, metric: u32) -> io::Result<()> {
        let request = self.address_request(index, address, metric);
        request.execute().await.map_err(cause)
    }

    fn address_request(&self, index: u32, address: IpPrefix, metric: u32) -> AddressAddRequest {
        let request = self.handle.address();
        let request = request.add(index, address.address, address.length);
        let mut request = request.replace();
        let attributes = &mut request.message_mut().attributes;
        attributes.push(AddressAttribute::RoutePriority(metric));
        request
    }

    /// Takes an address away.
    pub async fn remove_address(&self, index: u32, address: IpPrefix) -> io::Result<()> {
        let ip = address.address;
        // The message that adds an address says all that removing it takes.
        let mut request = self.handle.address().add(index, ip, address.length);
        let message = std::mem::take(request.message_mut());
        let result = self.handle.address().del(message).execute().await;
        unless(result.map_err(cause), Errno::EADDRNOTAVAIL)
    }

    /// Adds a route, in place of one with the same destination and metric.
    pub async fn add_route(&self, index: u32, route: &DeviceRoute) -> io::Result<()> {
        let request = self.handle.route().add(message(index, route)).replace();
        request.execute().await.map_err(cause)
    }

    /// Takes a route away.
    pub async fn remove_route(&self, index: u32, route: &DeviceRoute) -> io::Result<()> {
        let request = self.handle.route().del(message(index, route));
        unless(request.execute().await.map_err(cause), Errno::ESRCH)
    }
}

/// As the kernel counts: its largest number is for ever.
fn seconds(time: Option<Duration>) -> u32 {
    time.map_or(u32::MAX, |time| {
        u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
    })
}

fn message(index: u32, route: &DeviceRoute) -> RouteMessage {
    let length = route.destination.length;
    match route.destination.address {
        IpAddr::V4(destination) => {
            let mut builder =
                RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(destination, length);
            builder = match route.via {
                _ if route.kind != RouteKind::Unicast => builder,
                Some(IpAddr::V4(via)) => builder.gateway(via),
                // Without a next hop the destination is on the link, and the
                // kernel wants to be told so for IPv4.
                _ => builder.scope(RouteScope::Link),
            };
            finished(builder, index, route)
        }
        IpAddr::V6(destination) => {
            let mut builder =
                RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(destination, length);
            if let Some(IpAddr::V6(via)) = route.via {
                builder = builder.gateway(via);
            }
            finished(builder, index, route)
        }
    }
}

fn finished<T>(builder: RouteMessageBuilder<T>, index: u32, route: &DeviceRoute) -> RouteMessage {
    let builder = builder
        .priority(route.metric)
        .protocol(RouteProtocol::Static);
    let builder = match route.kind {
        RouteKind::Unicast => builder.output_interface(index),
        RouteKind::Blackhole => builder.kind(RouteType::BlackHole),
        RouteKind::Unreachable => builder.kind(RouteType::Unreachable),
        RouteKind::Prohibit => builder.kind(RouteType::Prohibit),
    };
    let builder = match route.table {
        Some(table) => builder.table_id(table),
        None => builder,
    };
    let builder = if route.onlink {
        builder.onlink()
    } else {
        builder
    };
    builder.build()
}

/// The kernel's reason alone, without the library's frame around it.
pub(super) fn cause(error: rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}

pub(super) fn unless(result: io::Result<()>, harmless: Errno) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(harmless as i32) => Ok(()),
        result => result,
    }
}
