//! Reads the kernel's routes, finds the way to an address, and copies routes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt as _;
use landfall_network_plan::IpPrefix;
use nix::errno::Errno;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteType,
};

use super::apply::{Changes, cause, unless};

/// A route of the main table, with all attributes that the kernel reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route(RouteMessage);

/// The first hop of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The packet goes to this next hop.
    Via(IpAddr),
    /// The destination is on the link itself.
    OnLink,
}

impl Route {
    /// The metric of the route: the route with the smallest metric takes precedence. A
    /// route without a metric (`None`) takes precedence over all other routes. An example
    /// is the kernel's IPv4 subnet route for an address that another program configured.
    pub fn metric(&self) -> Option<u32> {
        self.0.attributes.iter().find_map(|known| match known {
            RouteAttribute::Priority(metric) => Some(*metric),
            _ => None,
        })
    }

    pub fn destination(&self) -> IpPrefix {
        let given = self.0.attributes.iter().find_map(|known| match known {
            RouteAttribute::Destination(address) => ip(address),
            _ => None,
        });
        let any = match self.0.header.address_family {
            AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        IpPrefix {
            address: given.unwrap_or(any),
            length: self.0.header.destination_prefix_length,
        }
    }

    /// Returns the same route with another metric, as a permanent route. The
    /// lifetime of a route from a router advertisement is dropped.
    pub fn with_metric(&self, metric: u32) -> Route {
        let mut message = self.0.clone();
        message.header.protocol = RouteProtocol::Static;
        message.header.flags &= RouteFlags::Onlink;
        message.attributes.retain(|known| {
            !matches!(
                known,
                RouteAttribute::Priority(_)
                    | RouteAttribute::CacheInfo(_)
                    | RouteAttribute::Expires(_)
            )
        });
        message.attributes.push(RouteAttribute::Priority(metric));
        Route(message)
    }

    fn is_of(&self, index: u32) -> bool {
        let header = &self.0.header;
        let link_local = match self.destination().address {
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_multicast(),
            IpAddr::V4(v4) => v4.is_multicast(),
        };
        header.table == RouteHeader::RT_TABLE_MAIN
            && header.kind == RouteType::Unicast
            && !link_local
            && self.0.attributes.contains(&RouteAttribute::Oif(index))
    }

    fn way(&self) -> Way {
        let via = self.0.attributes.iter().find_map(|known| match known {
            RouteAttribute::Gateway(address) => ip(address),
            _ => None,
        });
        via.map_or(Way::OnLink, Way::Via)
    }

    fn leads_to(&self, address: IpAddr) -> bool {
        let destination = self.destination();
        let network = IpPrefix {
            address,
            length: destination.length,
        };
        destination.address.is_ipv4() == address.is_ipv4()
            && network.network() == destination.network()
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some(IpAddr::V4(*v4)),
        RouteAddress::Inet6(v6) => Some(IpAddr::V6(*v6)),
        _ => None,
    }
}

/// The first hop to an address over the device with these routes. `None` if no route
/// leads there. A query to the kernel cannot replace this: if the query names the device,
/// the kernel treats every IPv4 destination as on the link.
pub fn way_to(address: IpAddr, routes: &[Route]) -> Option<Way> {
    if let IpAddr::V6(v6) = address
        && v6.is_unicast_link_local()
    {
        return Some(Way::OnLink);
    }
    best_route(address, routes).map(Route::way)
}

/// The network of the address, if these routes of a device lead to it without a gateway.
/// `None` for a link-local address, whose network is not configurable.
pub fn network_on_link(address: IpAddr, routes: &[Route]) -> Option<IpPrefix> {
    if let IpAddr::V6(v6) = address
        && v6.is_unicast_link_local()
    {
        return None;
    }
    let route = best_route(address, routes)?;
    (route.way() == Way::OnLink).then(|| route.destination())
}

fn best_route(address: IpAddr, routes: &[Route]) -> Option<&Route> {
    let fitting = routes.iter().filter(|route| route.leads_to(address));
    fitting.min_by_key(|route| {
        let length = route.destination().length;
        (std::cmp::Reverse(length), route.metric())
    })
}

/// The routes of a device in the main table, without link-local and multicast
/// routes.
///
/// # Errors
/// If the kernel refuses the connection or the query.
pub async fn routes_of(index: u32) -> io::Result<Vec<Route>> {
    Changes::open()?.routes_of(index).await
}

impl Changes {
    /// Like [`routes_of`], on this connection.
    pub async fn routes_of(&self, index: u32) -> io::Result<Vec<Route>> {
        let mut routes = Vec::new();
        for question in [
            RouteMessageBuilder::<Ipv4Addr>::new().build(),
            RouteMessageBuilder::<Ipv6Addr>::new().build(),
        ] {
            let mut answers = Box::pin(self.handle.route().get(question).execute());
            while let Some(message) = answers.try_next().await.map_err(cause)? {
                let route = Route(message);
                if route.is_of(index) {
                    routes.push(route);
                }
            }
        }
        Ok(routes)
    }

    /// Adds a route. Replaces a route that has the same destination and metric.
    pub async fn put_route(&self, route: &Route) -> io::Result<()> {
        let request = self.handle.route().add(route.0.clone()).replace();
        request.execute().await.map_err(cause)
    }

    /// Removes a route. Succeeds if the route is already gone.
    pub async fn take_route(&self, route: &Route) -> io::Result<()> {
        let request = self.handle.route().del(route.0.clone());
        unless(request.execute().await.map_err(cause), Errno::ESRCH)
    }
}
