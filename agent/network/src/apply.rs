//! Changes devices, addresses and routes through netlink. Other modules of this
//! directory add methods to [`Changes`].
//!
//! Adding an object that exists succeeds, except for alternative names. Removing an
//! object that does not exist succeeds.

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

use super::device_route::DeviceRoute;

/// The netlink connection that makes the changes.
#[derive(Clone)]
pub struct Changes {
    pub(super) handle: Handle,
}

/// How long an address is valid; `None` means forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// How long new connections may use the address as their source.
    pub preferred: Option<Duration>,
    /// How long the address may be used at all.
    pub valid: Option<Duration>,
}

impl Lifetime {
    /// Uses the same time for both fields.
    pub fn of(time: Option<Duration>) -> Lifetime {
        Lifetime {
            preferred: time,
            valid: time,
        }
    }
}

impl Changes {
    /// Opens the connection. A task on the current runtime serves it.
    pub fn open() -> io::Result<Changes> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(Changes { handle })
    }

    pub async fn up(&self, index: u32) -> io::Result<()> {
        self.change(LinkUnspec::new_with_index(index).up().build())
            .await
    }

    /// Switches a device off. Most drivers require this before they accept another
    /// hardware address.
    pub async fn down(&self, index: u32) -> io::Result<()> {
        self.change(LinkUnspec::new_with_index(index).down().build())
            .await
    }

    /// Renames a device. Kernels before 6.2 refuse this while the device is switched on.
    pub async fn rename(&self, index: u32, name: &str) -> io::Result<()> {
        let message = LinkUnspec::new_with_index(index).name(name.to_owned());
        self.change(message.build()).await
    }

    /// Adds an alternative name of the device.
    pub async fn add_name(&self, index: u32, name: &str) -> io::Result<()> {
        self.handle
            .link()
            .property_add(index)
            .alt_ifname(&[name])
            .execute()
            .await
            .map_err(cause)
    }

    pub async fn set_mac(&self, index: u32, mac: MacAddr) -> io::Result<()> {
        let message = LinkUnspec::new_with_index(index).address(mac.0.to_vec());
        self.change(message.build()).await
    }

    pub async fn set_mtu(&self, index: u32, mtu: u32) -> io::Result<()> {
        self.change(LinkUnspec::new_with_index(index).mtu(mtu).build())
            .await
    }

    /// Returns everything that the kernel reports about the device with this name.
    pub async fn look_up(&self, name: &str) -> io::Result<LinkMessage> {
        let request = self.handle.link().get().match_name(name.to_owned());
        let answer = request.execute().try_next().await.map_err(cause)?;
        answer.ok_or_else(|| io::Error::from_raw_os_error(Errno::ENODEV as i32))
    }

    pub async fn name_of(&self, index: u32) -> io::Result<Option<String>> {
        let request = self.handle.link().get().match_index(index);
        let answer = request.execute().try_next().await.map_err(cause)?;
        let mut attributes = answer.into_iter().flat_map(|message| message.attributes);
        Ok(attributes.find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        }))
    }

    /// Creates a virtual device. Succeeds without a change if the name is taken.
    pub async fn make(&self, message: LinkMessage) -> io::Result<()> {
        let result = self.handle.link().add(message).execute().await;
        unless(result.map_err(cause), Errno::EEXIST)
    }

    /// Changes the attributes that the message contains.
    pub async fn change(&self, message: LinkMessage) -> io::Result<()> {
        self.handle
            .link()
            .change(message)
            .execute()
            .await
            .map_err(cause)
    }

    /// Adds an address, or changes the lifetime of an existing one. The kernel removes
    /// the address at the end of the lifetime, even if the agent is no longer running.
    /// `metric` is the metric of the route to the address's own network. The kernel's own
    /// metrics (0 for IPv4, 256 for IPv6) are the same for every NIC, so no NIC would take
    /// precedence.
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
            // If the device permits it, the kernel uses the address during duplicate
            // address detection; see `ipv6_sysctl`.
            let optimistic = AddressAttribute::Flags(AddressFlags::Optimistic);
            attributes.push(optimistic);
        }
        request.execute().await.map_err(cause)
    }

    /// Adds an address that another machine used before. An IPv6 address is not
    /// used until duplicate address detection has succeeded.
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

    pub async fn remove_address(&self, index: u32, address: IpPrefix) -> io::Result<()> {
        let ip = address.address;
        // A request to add an address contains all fields that its removal needs.
        let mut request = self.handle.address().add(index, ip, address.length);
        let message = std::mem::take(request.message_mut());
        let result = self.handle.address().del(message).execute().await;
        unless(result.map_err(cause), Errno::EADDRNOTAVAIL)
    }

    /// Adds a route. Replaces a route that has the same destination and metric.
    pub async fn add_route(&self, index: u32, route: &DeviceRoute) -> io::Result<()> {
        let request = self.handle.route().add(message(index, route)).replace();
        request.execute().await.map_err(cause)
    }

    pub async fn remove_route(&self, index: u32, route: &DeviceRoute) -> io::Result<()> {
        let request = self.handle.route().del(message(index, route));
        unless(request.execute().await.map_err(cause), Errno::ESRCH)
    }
}

/// Converts to seconds. The kernel reads `u32::MAX` as forever.
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
                // Without a next hop the destination is on the link. For IPv4 the kernel
                // requires the matching scope.
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

/// Returns the kernel's error without the library's text around it.
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
