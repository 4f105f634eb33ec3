//! Reads `routes`.

use std::net::IpAddr;

use landfall_boot_params::IpPrefix;

use super::described::{Described, Interfaces, State};
use super::fields::Fields;
use super::loopback;
use super::yaml::Yaml;
use crate::plan::{InterfaceKind, Method, Route, RouteKind};

/// The maximum number of routes; more are a fault.
const MOST_ROUTES: usize = 4096;
/// The kernel's RT_TABLE_MAIN.
pub(super) const MAIN_TABLE: u32 = 254;
/// nmstate's value for the kernel's default metric.
const DEFAULT_METRIC: i64 = -1;

const KEYS: &[&str] = &[
    "state",
    "destination",
    "next-hop-interface",
    "next-hop-address",
    "metric",
    "table-id",
    "weight",
    "route-type",
    "cwnd",
    "source",
    "initcwnd",
    "initrwnd",
    "mtu",
    "quickack",
    "advmss",
    "lock-mtu",
    "vrf-name",
];

/// A route with its outgoing interface, and the key by which nmstate sorts it.
pub(super) struct SortedRoute {
    /// Index of the interface; `None`: the loopback interface.
    interface: Option<usize>,
    key: SortKey,
    route: Route,
}

/// The key by which nmstate sorts the routes of an interface. If several routes have the
/// same key, they differ only in their metric or their type, and nmstate keeps only one
/// of them.
type SortKey = (bool, [bool; 2], [String; 3], [u32; 7]);

/// One entry of the list, before the checks that need other entries.
struct Entry<'a> {
    is_gone: bool,
    destination: Option<IpPrefix>,
    via: Option<IpAddr>,
    source: Option<IpAddr>,
    metric: Option<u32>,
    table: Option<u32>,
    weight: Option<u32>,
    cwnd: Option<u32>,
    mtu: Option<u32>,
    advmss: Option<u32>,
    initcwnd: Option<u32>,
    initrwnd: Option<u32>,
    quickack: Option<bool>,
    lock_mtu: Option<bool>,
    /// `None`: an ordinary route over an interface.
    kind: Option<RouteKind>,
    vrf: Option<&'a str>,
}

/// Reads the list and adds each route to its interface. Returns the routes that
/// drop or reject packets, for [`give_to_loopback`].
pub(super) fn read(top: &Fields, all: &mut Interfaces) -> Vec<SortedRoute> {
    let Some(fields) = top.child("routes", &["running", "config"]) else {
        return Vec::new();
    };
    let entries = fields.items_up_to(MOST_ROUTES, "config", KEYS);
    let routes = entries.filter_map(|entry| Entry::read(&entry).check(&entry, all));
    let mut routes: Vec<SortedRoute> = routes.collect();
    routes.sort_by(|a, b| (a.interface, &a.key).cmp(&(b.interface, &b.key)));
    routes.dedup_by(|a, b| (a.interface, &a.key) == (b.interface, &b.key));
    let (nowhere, over): (Vec<_>, Vec<_>) = routes
        .into_iter()
        .partition(|found| found.interface.is_none());
    for found in over {
        if let Some(index) = found.interface {
            give(found.route, &mut all.list[index]);
        }
    }
    nowhere
}

/// Adds the routes that drop or reject packets to the loopback interface. This may create
/// the loopback interface, so the caller must first call `dns::read`, which looks for
/// interfaces with addresses.
pub(super) fn give_to_loopback(nowhere: Vec<SortedRoute>, all: &mut Interfaces) {
    for found in nowhere {
        give(found.route, loopback::of(all));
    }
}

fn give(route: Route, described: &mut Described) {
    let family = described.family_mut(route.destination.address.is_ipv4());
    family.plan.routes.push(route);
    if !family.is_automatic() {
        family.plan.method = Method::Manual;
    }
}

impl<'a> Entry<'a> {
    fn read(fields: &Fields<'a>) -> Entry<'a> {
        const MOST: i64 = u32::MAX as i64;
        let number = |key, bounds| -> Option<u32> {
            let number = fields.number(key, bounds)?;
            u32::try_from(number).ok()
        };
        let kinds = [
            ("blackhole", RouteKind::Blackhole),
            ("unreachable", RouteKind::Unreachable),
            ("prohibit", RouteKind::Prohibit),
        ];
        let states = [("absent", true), ("ignore", true)];
        let is_gone = fields.word("state", &states, false) == Some(true);
        let destination = fields.text("destination").filter(|text| !text.is_empty());
        Entry {
            is_gone,
            via: fields.parsed("next-hop-address", "an IP address"),
            source: fields.parsed("source", "an IP address"),
            metric: number("metric", DEFAULT_METRIC..=MOST),
            table: number("table-id", 0..=MOST).filter(|table| *table != 0),
            weight: number("weight", 1..=256),
            cwnd: number("cwnd", 1..=MOST),
            mtu: number("mtu", 1..=MOST),
            advmss: number("advmss", 1..=MOST),
            initcwnd: number("initcwnd", 0..=MOST),
            initrwnd: number("initrwnd", 0..=MOST),
            quickack: fields.flag("quickack"),
            lock_mtu: fields.flag("lock-mtu"),
            kind: fields.word("route-type", &kinds, false),
            vrf: fields.text("vrf-name"),
            destination: destination.and_then(|text| prefix(text, fields)),
        }
    }

    /// Checks the entry and finds its interface. `None` for an absent or faulty entry.
    fn check(self, fields: &Fields<'a>, all: &Interfaces) -> Option<SortedRoute> {
        if self.is_gone {
            return None;
        }
        let name = self.interface_name(fields);
        let Some(destination) = self.destination else {
            let given = fields.get("destination");
            if given.is_none_or(|value| *value == Yaml::Text(String::new())) {
                let words = "expected a network such as 0.0.0.0/0, found nothing";
                fields.fault("destination", words);
            }
            return None;
        };
        let is_ipv4 = destination.address.is_ipv4();
        let interface = match self.kind {
            Some(_) => None,
            None => Some(interface_of_route(name?, is_ipv4, fields, all)?),
        };
        let table = match self.vrf {
            Some(vrf) => table_of_vrf(vrf, self.table, fields, all)?,
            None => self.table.unwrap_or(MAIN_TABLE),
        };
        let via = self.via.filter(|via| !via.is_unspecified());
        if via.is_some_and(|via| via.is_ipv4() != is_ipv4) {
            let words = "expected an address of the same family as the destination";
            fields.fault("next-hop-address", words);
        }
        if self.weight.is_some() && !is_ipv4 {
            fields.fault("weight", "nmstate does not support it for IPv6 yet");
        }
        let route = Route {
            destination,
            via,
            kind: self.kind.unwrap_or_default(),
            metric: self.metric,
            table: Some(table),
            options: self.options(),
        };
        Some(SortedRoute {
            interface,
            key: self.sort_key(&route, table),
            route,
        })
    }

    fn interface_name(&self, fields: &Fields<'a>) -> Option<&'a str> {
        let name = fields.text("next-hop-interface");
        if self.kind.is_some() {
            for key in ["next-hop-interface", "next-hop-address"] {
                if fields.get(key).is_some() {
                    let words = "expected none for a blackhole, unreachable or prohibit route";
                    fields.fault(key, words);
                }
            }
        } else if name.is_none() && !fields.has("next-hop-interface") {
            let words = "expected the interface of the route, found nothing";
            fields.fault("next-hop-interface", words);
        }
        name
    }

    /// The options of the route, in nmstate's order.
    fn options(&self) -> Vec<(&'static str, String)> {
        let text = |number: Option<u32>| number.map(|number| number.to_string());
        let flag = |on: Option<bool>| on.map(|on| on.to_string());
        let options = [
            ("weight", text(self.weight)),
            ("type", self.kind.and_then(kind_word).map(str::to_owned)),
            ("cwnd", text(self.cwnd)),
            ("lock-cwnd", self.cwnd.map(|_| "true".to_owned())),
            ("src", self.source.map(|address| address.to_string())),
            ("initcwnd", text(self.initcwnd)),
            ("initrwnd", text(self.initrwnd)),
            ("mtu", text(self.mtu)),
            ("lock-mtu", flag(self.lock_mtu)),
            ("quickack", flag(self.quickack)),
            ("advmss", text(self.advmss)),
        ];
        let given = options.into_iter();
        given
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    fn sort_key(&self, route: &Route, table: u32) -> SortKey {
        let text = |address: Option<IpAddr>| address.map_or(String::new(), |a| a.to_string());
        let numbers = [
            Some(table),
            self.cwnd,
            self.initcwnd,
            self.initrwnd,
            self.mtu,
            self.weight,
            self.advmss,
        ];
        (
            route.destination.address.is_ipv4(),
            [self.quickack, self.lock_mtu].map(Option::unwrap_or_default),
            [
                route.destination.to_string(),
                text(route.via),
                text(self.source),
            ],
            numbers.map(Option::unwrap_or_default),
        )
    }
}

fn kind_word(kind: RouteKind) -> Option<&'static str> {
    match kind {
        RouteKind::Unicast => None,
        RouteKind::Blackhole => Some("blackhole"),
        RouteKind::Unreachable => Some("unreachable"),
        RouteKind::Prohibit => Some("prohibit"),
    }
}

/// The routing table of a VRF. If the route also gives a table, the two must be equal.
/// `None`, after a fault, if there is no such VRF.
fn table_of_vrf(name: &str, given: Option<u32>, fields: &Fields, all: &Interfaces) -> Option<u32> {
    let table = all.list.iter().find_map(|d| match d.interface.kind {
        InterfaceKind::Vrf { table } if d.state == State::Up && d.name == name => Some(table),
        _ => None,
    });
    match (table, given) {
        (None, _) => fields.fault("vrf-name", format!("no VRF is called {name:?}")),
        (Some(table), Some(given)) if table != given => {
            fields.expected("table-id", format!("{table}, the table of {name}"), given)
        }
        _ => {}
    }
    table
}

/// Index of the interface of a route.
fn interface_of_route(
    name: &str,
    is_ipv4: bool,
    fields: &Fields,
    all: &Interfaces,
) -> Option<usize> {
    let Some(index) = all.find(name) else {
        let is_down = |d: &Described| d.name == name && d.state != State::Up;
        let is_known = all.ignored.iter().any(|ignored| ignored == name);
        let words = if is_known || all.list.iter().any(is_down) {
            format!("{name} is not up")
        } else {
            format!("no interface is called {name:?}")
        };
        fields.fault("next-hop-interface", words);
        return None;
    };
    let described = &all.list[index];
    let controller = described.interface.controller.as_ref();
    let is_port = controller.is_some_and(|name| !all.is_vrf(name));
    if !described.family(is_ipv4).enabled || is_port {
        let family = if is_ipv4 { "ipv4" } else { "ipv6" };
        fields.fault("next-hop-interface", format!("{name} has no {family}"));
        return None;
    }
    Some(index)
}

/// Parses a network such as `192.0.2.0/24`.
pub(super) fn network(text: &str) -> Option<IpPrefix> {
    text.parse().ok().map(IpPrefix::network)
}

fn prefix(text: &str, fields: &Fields) -> Option<IpPrefix> {
    let Some(found) = network(text) else {
        fields.expected("destination", "a network such as 192.0.2.0/24", text);
        return None;
    };
    // 0.0.0.0/8 means "this network" (RFC 1122), so no route leads there.
    if let (IpAddr::V4(address), true) = (found.address, found.length >= 8)
        && address.octets()[0] == 0
    {
        let words = "expected no network in 0.0.0.0/8; the default route is 0.0.0.0/0";
        fields.fault("destination", words);
        return None;
    }
    Some(found)
}
