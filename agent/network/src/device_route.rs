//! The routes that a device gets from the plan and from its lease.

use std::net::{IpAddr, Ipv4Addr};

use landfall_network_plan::{IpPlan, IpPrefix, RouteKind};

use super::dhcp::Lease;

/// `RT_TABLE_MAIN` in linux/include/uapi/linux/rtnetlink.h.
const MAIN_TABLE: u32 = 254;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRoute {
    /// The destination network, with no bits set after the prefix.
    pub destination: IpPrefix,
    /// Next hop; `None` if the destination is on the link.
    pub via: Option<IpAddr>,
    /// The route with the smallest metric takes precedence.
    pub metric: u32,
    /// The routing table; `None` means the main table.
    pub table: Option<u32>,
    /// What happens to a packet. Only `Unicast` routes need a device.
    pub kind: RouteKind,
    /// True if the kernel must treat the next hop as on the link, although no address
    /// of the device covers it.
    pub onlink: bool,
}

/// The planned routes of one address family of a device.
pub(super) fn planned_routes(ip: &IpPlan, metric: u32) -> Vec<DeviceRoute> {
    let mut routes: Vec<_> = ip
        .routes
        .iter()
        .map(|route| DeviceRoute {
            destination: route.destination.network(),
            via: route.via,
            metric: route.metric.unwrap_or(metric),
            table: route.table.or(ip.automatic.table),
            kind: route.kind,
            onlink: false,
        })
        .collect();
    routes.extend(ip.gateway.map(|gateway| default_route(gateway, ip, metric)));
    for route in &mut routes {
        route.onlink = needs_onlink(route.via, &ip.addresses);
    }
    routes
}

/// The routes of a lease. If the plan sets a gateway for the device, or permits no
/// default route over it, the lease adds no default route. A lease never replaces a route
/// of the plan, and the end of the lease does not remove one. DNS servers outside of the
/// lease's network get a route over this NIC, even if another NIC's default route takes
/// precedence.
pub(super) fn leased_routes(lease: &Lease, ip: &IpPlan, metric: u32) -> Vec<DeviceRoute> {
    let mut addresses = ip.addresses.clone();
    addresses.push(lease.address);
    let automatic = &ip.automatic;
    let has_default = automatic.never_default || ip.gateway.is_some();
    let planned = planned_routes(ip, metric);
    // The kernel identifies a route by these values.
    let key = |route: &DeviceRoute| {
        let table = route.table.unwrap_or(MAIN_TABLE);
        (route.destination, route.metric, table)
    };
    let is_planned = |route: &DeviceRoute| planned.iter().any(|other| key(other) == key(route));
    let offered = lease.routes.iter().filter(|_| !automatic.ignore_routes);
    offered
        .filter(|(destination, _)| destination.length != 0 || !has_default)
        .copied()
        .chain(ways_to_name_servers(lease, ip))
        .map(|(destination, via)| DeviceRoute {
            destination,
            via: via.map(IpAddr::V4),
            metric: automatic.metric.unwrap_or(metric),
            table: automatic.table,
            kind: RouteKind::Unicast,
            onlink: needs_onlink(via.map(IpAddr::V4), &addresses),
        })
        .filter(|route| !is_planned(route))
        .collect()
}

fn ways_to_name_servers(
    lease: &Lease,
    ip: &IpPlan,
) -> impl Iterator<Item = (IpPrefix, Option<Ipv4Addr>)> {
    let gateway = lease.gateway().filter(|_| !ip.automatic.ignore_dns);
    let own = lease.address;
    let is_far = move |server: &&IpAddr| {
        let there = IpPrefix {
            address: **server,
            length: own.length,
        };
        server.is_ipv4() && there.network() != own.network()
    };
    let host = |server: &IpAddr| IpPrefix {
        address: *server,
        length: 32,
    };
    let servers = lease.dns.iter().filter(is_far).map(host);
    gateway
        .into_iter()
        .flat_map(move |gateway| servers.clone().map(move |host| (host, Some(gateway))))
}

fn default_route(gateway: IpAddr, ip: &IpPlan, metric: u32) -> DeviceRoute {
    let address = match gateway {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    DeviceRoute {
        destination: IpPrefix { address, length: 0 },
        via: Some(gateway),
        metric: ip.automatic.metric.unwrap_or(metric),
        table: ip.automatic.table,
        kind: RouteKind::Unicast,
        onlink: false,
    }
}

/// Whether the route must declare its next hop as on the link. Without this flag, the
/// kernel refuses a next hop outside of the networks of the device's addresses (for
/// example with a /32 address).
fn needs_onlink(via: Option<IpAddr>, addresses: &[IpPrefix]) -> bool {
    let Some(via) = via else {
        return false;
    };
    if let IpAddr::V6(v6) = via
        && v6.is_unicast_link_local()
    {
        return false;
    }
    !addresses.iter().any(|own| {
        let hop = IpPrefix {
            address: via,
            length: own.length,
        };
        own.address.is_ipv4() == via.is_ipv4() && hop.network() == own.network()
    })
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::{CommandLine, NetArgs};
    use landfall_network_plan::{Keyfile, NetworkPlan};

    use super::*;

    fn plan(text: &str) -> NetworkPlan {
        NetworkPlan::for_boot(&NetArgs::from_command_line(&CommandLine::parse(text)))
    }

    #[test]
    fn a_gateway_outside_the_prefix_is_marked_as_on_the_link() {
        for (text, onlink) in [
            ("ip=192.0.2.10::192.0.2.1:24::eth1:none", false),
            ("ip=192.0.2.10::192.0.2.1:32::eth1:none", true),
            ("ip=192.0.2.10::198.51.100.1:24::eth1:none", true),
            ("ip=[2001:db8::10]::[2001:db8::1]:64::eth1:none", false),
            ("ip=[2001:db8::10]::[2001:db8:1::1]:64::eth1:none", true),
            ("ip=[2001:db8::10]::[fe80::1]:64::eth1:none", false),
        ] {
            let plan = plan(text);
            let interface = &plan.interfaces[0];
            let routes: Vec<_> = [&interface.ipv4, &interface.ipv6]
                .into_iter()
                .flatten()
                .flat_map(|ip| planned_routes(ip, 100))
                .collect();
            assert_eq!(routes.len(), 1, "{text}");
            assert_eq!(routes[0].destination.length, 0, "{text}");
            assert_eq!(routes[0].onlink, onlink, "{text}");
        }
    }

    #[test]
    fn destinations_are_networks_and_a_given_gateway_stays_alone() {
        let plan = plan("ip=192.0.2.10::192.0.2.1:24::eth1:dhcp rd.route=10.1.2.3/8:192.0.2.9");
        let ip = plan.interfaces[0].ipv4.as_ref().unwrap();
        let routes = planned_routes(ip, 101);
        assert_eq!(routes[0].destination.to_string(), "10.0.0.0/8");
        let lease = Lease {
            address: ip.addresses[0],
            server: [192, 0, 2, 1].into(),
            lifetime: None,
            renew_after: std::time::Duration::from_secs(1),
            rebind_after: std::time::Duration::from_secs(2),
            routes: routes
                .iter()
                .map(|route| (route.destination, Some([192, 0, 2, 254].into())))
                .collect(),
            dns: Vec::new(),
            search: Vec::new(),
            ntp: Vec::new(),
            host_name: None,
            mtu: None,
        };
        let leased = leased_routes(&lease, ip, 101);
        assert_eq!(leased, [], "they would take the place of those given");

        let mut ip = ip.clone();
        ip.gateway = None;
        ip.routes[0].table = Some(7);
        let shown = |ip: &IpPlan| -> Vec<_> {
            let routes = leased_routes(&lease, ip, 101);
            let show = |r: &DeviceRoute| format!("{} {}", r.destination, r.metric);
            routes.iter().map(show).collect()
        };
        assert_eq!(shown(&ip), ["10.0.0.0/8 101", "0.0.0.0/0 101"]);
        ip.automatic.metric = Some(7);
        ip.automatic.never_default = true;
        assert_eq!(shown(&ip), ["10.0.0.0/8 7"]);
        ip.automatic.ignore_routes = true;
        assert_eq!(shown(&ip), [""; 0]);
        ip.routes[0].table = Some(254);
        assert_eq!(planned_routes(&ip, 101)[0].table, Some(254));
    }

    /// Each row has a keyfile, and the routes that the device gets: destination, metric
    /// and table.
    #[test]
    fn static_routes_use_metric_and_table_of_the_keyfile() {
        const NIC: &str = "[connection]\ntype=ethernet\ninterface-name=eth1\n[ipv4]\n\
            address1=198.51.100.7/24,198.51.100.1\nroute1=10.0.0.0/8,198.51.100.1\n";
        const PORT: &str = "[connection]\ntype=ethernet\ninterface-name=eth1\nmaster=red\n\
            slave-type=vrf\n[ipv4]\naddress1=198.51.100.7/24,198.51.100.1\n\
            route1=10.0.0.0/8,198.51.100.1\nroute1_options=table=254\n";
        const VRF: &str = "[connection]\ntype=vrf\ninterface-name=red\n[vrf]\ntable=10\n";
        for (text, expected) in [
            (NIC.to_owned(), "10.0.0.0/8 101 None, 0.0.0.0/0 101 None"),
            (
                format!("{NIC}route-metric=500\nroute-table=200\n"),
                "10.0.0.0/8 500 Some(200), 0.0.0.0/0 500 Some(200)",
            ),
            (
                format!("{NIC}route-table=200\nroute1_options=table=7\n"),
                "10.0.0.0/8 101 Some(7), 0.0.0.0/0 101 Some(200)",
            ),
            (format!("{NIC}never-default=true\n"), "10.0.0.0/8 101 None"),
            (
                PORT.to_owned(),
                "10.0.0.0/8 101 Some(254), 0.0.0.0/0 101 Some(10)",
            ),
        ] {
            let files = [("eth1", text.as_str()), ("red", VRF)].map(|(name, text)| Keyfile {
                name: name.to_owned(),
                text: text.to_owned(),
            });
            let plan = NetworkPlan::from_keyfiles(&files).unwrap();
            let routes = planned_routes(plan.interfaces[0].ipv4.as_ref().unwrap(), 101);
            let show = |r: &DeviceRoute| format!("{} {} {:?}", r.destination, r.metric, r.table);
            let shown: Vec<_> = routes.iter().map(show).collect();
            assert_eq!(shown.join(", "), expected, "{text}");
        }
    }
}
