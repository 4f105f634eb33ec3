//! One network interface card: its planned and its current configuration.

use std::net::{IpAddr, Ipv4Addr};

use landfall_network_plan::{
    Interface, InterfaceKind, IpPlan, IpPrefix, Method, NetworkPlan, RouteKind, Source,
};
use tokio::task::{JoinHandle, JoinSet};

use super::automatic_ipv6::AutomaticIpv6;
use super::bmc_nic::leads_to_bmc;
use super::configure::pauses;
use super::dhcp::Lease;
use super::links::{Link, LinkAddress, LinkKind};
use super::state::{AddressOrigin, AddressState, NicState};
use crate::backoff::Backoff;
use crate::system_path::SystemPath;

/// Base metrics of a NIC that the plan names, and of all others. So the default
/// route of the boot NIC takes precedence over that of a NIC that happens to have a
/// DHCP server as well. The NIC's index is added, because the kernel requires
/// distinct metrics for routes to the same destination.
const METRIC_PARTICULAR: u32 = 100;
const METRIC_OTHER: u32 = 1100;
/// `RT_TABLE_MAIN` in linux/include/uapi/linux/rtnetlink.h.
const MAIN_TABLE: u32 = 254;

pub(super) struct Nic {
    pub(super) link: Link,
    /// Index of the plan's interface that this NIC was matched to.
    pub(super) interface: Option<usize>,
    pub(super) leads_to_bmc: bool,
    /// The NIC had no carrier when the time for it ran out.
    pub(super) missed_carrier: bool,
    /// The NIC has its planned configuration.
    pub(super) configured: bool,
    pub(super) addresses: Vec<LinkAddress>,
    /// Addresses that have been logged.
    pub(super) told: Vec<IpAddr>,
    pub(super) client: Option<DhcpClient>,
    pub(super) lease: Option<Lease>,
    /// The address of the last lease, even if that has ended.
    pub(super) leased_before: Option<IpPrefix>,
    pub(super) lease_routes: Vec<DeviceRoute>,
    /// Conflict detection for the static addresses: one task per address, and the
    /// tag of their results.
    pub(super) questions: JoinSet<()>,
    pub(super) question: ClientTag,
    pub(super) ipv6: AutomaticIpv6,
    pub(super) trouble: Option<String>,
    /// Pauses between the attempts to bring the link into its planned state.
    pub(super) retries: Backoff,
    /// Complaints that are already on the console.
    complaints: Vec<String>,
}

/// A NIC's index, and the number of one of its clients.
pub(super) type ClientTag = (u32, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRoute {
    /// Has no bits set after the prefix.
    pub destination: IpPrefix,
    /// Next hop; `None` if the destination is on the link.
    pub via: Option<IpAddr>,
    /// The route with the smallest metric takes precedence.
    pub metric: u32,
    /// The routing table; `None` means the main table.
    pub table: Option<u32>,
    /// What happens to a packet. Only `Unicast` routes need a device.
    pub kind: RouteKind,
    /// Tells the kernel that the next hop is on the link although no address of the
    /// device covers it.
    pub onlink: bool,
}

/// A running DHCPv4 client. It ends when this is dropped.
pub(super) struct DhcpClient {
    /// Distinguishes its events from those of an earlier client of the same NIC.
    pub(super) generation: u64,
    pub(super) task: JoinHandle<()>,
}

impl Drop for DhcpClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Nic {
    pub(super) fn new(link: Link) -> Nic {
        Nic {
            leads_to_bmc: leads_to_bmc(&SystemPath::live(), &link.name),
            link,
            interface: None,
            missed_carrier: false,
            configured: false,
            addresses: Vec::new(),
            told: Vec::new(),
            client: None,
            lease: None,
            leased_before: None,
            lease_routes: Vec::new(),
            questions: JoinSet::new(),
            question: (0, 0),
            ipv6: AutomaticIpv6::default(),
            trouble: None,
            retries: pauses(),
            complaints: Vec::new(),
        }
    }

    /// The NIC's name on the console.
    pub(super) fn title(&self) -> String {
        format!("{} ({})", self.link.name, self.link.mac)
    }

    /// The plan's interface that this NIC was matched to.
    pub(super) fn interface_of<'p>(&self, plan: &'p NetworkPlan) -> Option<&'p Interface> {
        self.interface.map(|index| &plan.interfaces[index])
    }

    /// Logs a fault and keeps it for the state report.
    pub(super) fn complain(&mut self, trouble: String) {
        tracing::warn!("{trouble}");
        self.trouble = Some(trouble);
    }

    /// Like [`Nic::complain`], for actions that are retried: logs each complaint as
    /// a warning only once.
    pub(super) fn complain_once(&mut self, trouble: String) {
        if self.complaints.contains(&trouble) {
            tracing::debug!("{trouble}");
        } else {
            tracing::warn!("{trouble}");
            self.complaints.push(trouble.clone());
        }
        self.trouble = Some(trouble);
    }

    /// Adds or updates an address that the kernel reports.
    pub(super) fn note_address(&mut self, address: LinkAddress) {
        let known = self.addresses.iter_mut();
        match known.into_iter().find(|a| a.prefix == address.prefix) {
            Some(known) => *known = address,
            None => self.addresses.push(address),
        }
    }

    pub(super) fn forget_address(&mut self, address: IpAddr) {
        self.addresses.retain(|a| a.prefix.address != address);
        self.told.retain(|told| *told != address);
    }

    pub(super) fn origin(
        &self,
        address: &LinkAddress,
        interface: Option<&Interface>,
        source: Source,
    ) -> AddressOrigin {
        let planned = interface
            .iter()
            .flat_map(|interface| [&interface.ipv4, &interface.ipv6])
            .flatten()
            .any(|ip| ip.addresses.contains(&address.prefix));
        let leased = self.lease.as_ref().filter(|l| l.address == address.prefix);
        let link_local = match address.prefix.address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        if planned {
            AddressOrigin::Plan(source)
        } else if let Some(lease) = leased {
            AddressOrigin::Dhcp(lease.server.into())
        } else if let Some(server) = self.ipv6.server_of(address.prefix.address) {
            AddressOrigin::Dhcp(server.into())
        } else if link_local {
            AddressOrigin::LinkLocal
        } else if address.advertised {
            AddressOrigin::RouterAdvertisement
        } else {
            AddressOrigin::Foreign
        }
    }

    pub(super) fn state(&self, interface: Option<&Interface>, source: Source) -> NicState {
        let address_state = |address: &LinkAddress| AddressState {
            prefix: address.prefix,
            origin: self.origin(address, interface, source),
            usable: !address.tentative && !address.duplicate,
        };
        NicState {
            index: self.link.index,
            name: self.link.name.clone(),
            mac: self.link.mac,
            permanent_mac: self.link.permanent_mac,
            is_virtual: self.link.kind == LinkKind::Virtual,
            leads_to_bmc: self.leads_to_bmc,
            carrier: self.link.carrier,
            awaits_carrier: !self.link.carrier && !self.missed_carrier,
            shall_have_address: interface.is_some_and(shall_have_address),
            awaits_ipv4: self.trouble.is_none()
                && interface.is_some_and(asks_for_ipv4)
                && !self.addresses.iter().any(|a| a.prefix.address.is_ipv4()),
            addresses: self.addresses.iter().map(address_state).collect(),
            trouble: self.trouble.clone(),
        }
    }
}

fn shall_have_address(interface: &Interface) -> bool {
    let families = [&interface.ipv4, &interface.ipv6];
    let is_off = |ip: &IpPlan| matches!(ip.method, Method::Disabled | Method::LinkLocal);
    families.into_iter().flatten().any(|ip| !is_off(ip))
}

fn asks_for_ipv4(interface: &Interface) -> bool {
    let ip = interface.ipv4.as_ref();
    ip.is_some_and(|ip| ip.method.is_automatic())
}

/// Finds the plan's interface for a device: the most specific one that is free. An
/// interface that matches any NIC takes the first NIC with a carrier. A virtual
/// device matches only by name.
pub(super) fn choose(
    plan: &NetworkPlan,
    link: &Link,
    is_taken: impl Fn(usize) -> bool,
) -> Option<usize> {
    if link.kind == LinkKind::Virtual {
        return plan.interfaces.iter().position(|interface| {
            interface.kind != InterfaceKind::Ethernet
                && interface.matches.name.as_ref() == Some(&link.name)
        });
    }
    for index in plan.candidates(&link.names(), &link.macs()) {
        let interface = &plan.interfaces[index];
        if interface.multi {
            return Some(index);
        }
        if !is_taken(index) {
            let wait = interface.matches.is_any() && !link.carrier;
            return (!wait).then_some(index);
        }
    }
    None
}

pub(super) fn metric(index: u32, interface: &Interface) -> u32 {
    let base = if interface.matches.is_any() {
        METRIC_OTHER
    } else {
        METRIC_PARTICULAR
    };
    base.saturating_add(index)
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
            table: route.table,
            kind: route.kind,
            onlink: false,
        })
        .collect();
    routes.extend(ip.gateway.map(|gateway| default_route(gateway, metric)));
    for route in &mut routes {
        route.onlink = needs_onlink(route.via, &ip.addresses);
    }
    routes
}

/// The routes of a lease. If the plan has a default route for the device, the lease
/// adds no other. No route of the plan is replaced, or removed with the lease. Name
/// servers of the lease get a route over this NIC, even if another NIC's default
/// route takes precedence.
pub(super) fn leased_routes(lease: &Lease, ip: &IpPlan, metric: u32) -> Vec<DeviceRoute> {
    let mut addresses = ip.addresses.clone();
    addresses.push(lease.address);
    let automatic = &ip.automatic;
    let has_default = automatic.never_default || ip.gateway.is_some();
    let planned = planned_routes(ip, metric);
    // The kernel would treat both as the same route.
    let is_planned = |route: &DeviceRoute| {
        let of_lease = (route.destination, route.metric);
        let in_main_table = |table| table == MAIN_TABLE;
        planned.iter().any(|route| {
            (route.destination, route.metric) == of_lease && route.table.is_none_or(in_main_table)
        })
    };
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

fn default_route(gateway: IpAddr, metric: u32) -> DeviceRoute {
    let address = match gateway {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    DeviceRoute {
        destination: IpPrefix { address, length: 0 },
        via: Some(gateway),
        metric,
        table: None,
        kind: RouteKind::Unicast,
        onlink: false,
    }
}

/// Whether the route must declare its next hop as on the link. The kernel otherwise
/// refuses a next hop outside every prefix (a /32 address, a gateway in another
/// network).
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
    use super::*;
    use landfall_boot_params::{CommandLine, NetArgs};
    use landfall_network_plan::MacAddr;

    fn plan(text: &str) -> NetworkPlan {
        NetworkPlan::for_boot(&NetArgs::from_command_line(&CommandLine::parse(text)))
    }

    fn link(index: u32, carrier: bool) -> Link {
        Link {
            index,
            name: format!("eth{index}"),
            alternative_names: Vec::new(),
            kind: LinkKind::Nic,
            mac: MacAddr([0x52, 0x54, 0, 0, 0, index as u8]),
            permanent_mac: None,
            up: true,
            carrier,
            mtu: 1500,
            controller: None,
        }
    }

    #[test]
    fn a_device_becomes_the_most_particular_free_interface() {
        let free = |_| false;
        let taken = |_| true;
        let by_name = plan("ip=192.0.2.10:::24::eth1:none");
        assert_eq!(choose(&by_name, &link(1, false), free), Some(0));
        assert_eq!(choose(&by_name, &link(2, true), free), None);
        assert_eq!(choose(&by_name, &link(1, true), taken), None);

        let by_mac = plan("ip=52-54-00-00-00-02:dhcp");
        assert_eq!(choose(&by_mac, &link(2, false), free), Some(0));
        let mut renamed = link(3, true);
        renamed.permanent_mac = Some(MacAddr([0x52, 0x54, 0, 0, 0, 2]));
        assert_eq!(choose(&by_mac, &renamed, free), Some(0));

        // The first NIC with a carrier takes the interface; the others get nothing.
        let single = plan("ip=192.0.2.10:::24:::none");
        assert_eq!(choose(&single, &link(1, false), free), None);
        assert_eq!(choose(&single, &link(1, true), free), Some(0));
        assert_eq!(choose(&single, &link(2, true), taken), None);

        let all = plan("BOOTIF=52:54:00:00:00:02");
        assert_eq!(choose(&all, &link(1, false), taken), Some(0));
        assert_eq!(choose(&all, &link(2, false), taken), Some(1));
        assert!(metric(9, &all.interfaces[1]) < metric(1, &all.interfaces[0]));
    }

    #[test]
    fn a_gateway_outside_of_the_prefix_is_said_to_be_on_the_link() {
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
}
