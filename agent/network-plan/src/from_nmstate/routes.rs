//! Reads `routes`.

use std::net::IpAddr;

use landfall_boot_params::IpPrefix;

use super::fields::Fields;
use super::interface::{Described, Interfaces, State};
use super::loopback;
use crate::plan::{InterfaceKind, Method, Route, RouteKind};

/// More routes than any ramdisk needs.
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

/// A route with its sort key. nmstate sorts the routes of an interface, and keeps
/// only one of several routes that differ only in their metric.
pub(super) struct Found {
    /// Index of the interface; `None`: the loopback interface.
    interface: Option<usize>,
    key: (bool, Vec<bool>, Vec<String>, Vec<u32>),
    route: Route,
}

/// Reads the list and adds each route to its interface. Returns the routes that
/// lead nowhere, for [`give_to_loopback`].
pub(super) fn read(top: &Fields, all: &mut Interfaces) -> Vec<Found> {
    let Some(fields) = top.child("routes", &["running", "config"]) else {
        return Vec::new();
    };
    let list = fields.list("config").unwrap_or_default();
    if list.len() > MOST_ROUTES {
        let found = list.len();
        fields.fault(
            "config",
            format!("expected at most {MOST_ROUTES}, found {found}"),
        );
        return Vec::new();
    }
    let mut routes: Vec<Found> = Vec::new();
    for (path, item) in list {
        if let Some(fields) = Fields::of(item, path, KEYS, top.findings) {
            routes.extend(read_one(&fields, all));
        }
    }
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

/// Adds the routes that lead nowhere to the loopback interface. Call this after the
/// code that looks for interfaces with addresses, since it must not find the
/// loopback interface.
pub(super) fn give_to_loopback(nowhere: Vec<Found>, all: &mut Interfaces) {
    for found in nowhere {
        give(found.route, loopback::of(all));
    }
}

fn give(route: Route, described: &mut Described) {
    let family = match route.destination.address {
        IpAddr::V4(_) => &mut described.ipv4,
        IpAddr::V6(_) => &mut described.ipv6,
    };
    family.plan.routes.push(route);
    if !family.is_automatic() {
        family.plan.method = Method::Manual;
    }
}

fn read_one(fields: &Fields, all: &Interfaces) -> Option<Found> {
    let states = [("absent", true), ("ignore", true)];
    let is_gone = fields.word("state", &states, false) == Some(true);
    let destination = fields.text("destination").filter(|text| !text.is_empty());
    let via: Option<IpAddr> = fields.parsed("next-hop-address", "an IP address");
    let source: Option<IpAddr> = fields.parsed("source", "an IP address");
    let metric = fields.number("metric", DEFAULT_METRIC..=u32::MAX.into());
    let table = fields
        .unsigned("table-id", u32::MAX)
        .filter(|table| *table != 0);
    let weight = fields.number("weight", 1..=256);
    let positive = |key| fields.number(key, 1..=u32::MAX.into());
    let (cwnd, mtu, advmss) = (positive("cwnd"), positive("mtu"), positive("advmss"));
    let initcwnd = fields.unsigned("initcwnd", u32::MAX);
    let initrwnd = fields.unsigned("initrwnd", u32::MAX);
    let quickack = fields.flag("quickack");
    let lock_mtu = fields.flag("lock-mtu");
    let kinds = [
        ("blackhole", RouteKind::Blackhole),
        ("unreachable", RouteKind::Unreachable),
        ("prohibit", RouteKind::Prohibit),
    ];
    let kind = fields.word("route-type", &kinds, false);
    let vrf = fields.text("vrf-name");
    let destination = destination.and_then(|text| prefix(text, fields));
    if is_gone {
        return None;
    }
    let name = fields.text("next-hop-interface");
    if kind.is_some() {
        for key in ["next-hop-interface", "next-hop-address"] {
            if fields.get(key).is_some() {
                fields.fault(
                    key,
                    "expected none for a blackhole, unreachable or prohibit route",
                );
            }
        }
    } else if name.is_none() && !fields.has("next-hop-interface") {
        fields.fault(
            "next-hop-interface",
            "expected the interface of the route, found nothing",
        );
    }
    let destination = match destination {
        Some(destination) => destination,
        None => {
            if fields
                .get("destination")
                .is_none_or(|value| value == &super::yaml::Yaml::Text(String::new()))
            {
                fields.fault(
                    "destination",
                    "expected a network such as 0.0.0.0/0, found nothing",
                );
            }
            return None;
        }
    };
    let is_ipv4 = destination.address.is_ipv4();
    let interface = match kind {
        Some(_) => None,
        None => Some(carrier(name?, is_ipv4, fields, all)?),
    };
    let table = match vrf {
        Some(vrf) => Some(table_of_vrf(vrf, table, fields, all)?),
        None => table,
    };
    let via = via.filter(|via| !via.is_unspecified());
    if via.is_some_and(|via| via.is_ipv4() != is_ipv4) {
        fields.fault(
            "next-hop-address",
            "expected an address of the same family as the destination",
        );
    }
    if weight.is_some() && !is_ipv4 {
        fields.fault("weight", "nmstate does not support it for IPv6 yet");
    }
    let mut options = Vec::new();
    let mut option = |name, value: Option<String>| options.extend(value.map(|value| (name, value)));
    let text = |number: Option<i64>| number.map(|number| number.to_string());
    option("weight", text(weight));
    let kind = kind.unwrap_or_default();
    option("type", kind_word(kind).map(str::to_owned));
    option("cwnd", text(cwnd));
    option("lock-cwnd", cwnd.map(|_| "true".to_owned()));
    option("src", source.map(|address| address.to_string()));
    option("initcwnd", text(initcwnd.map(i64::from)));
    option("initrwnd", text(initrwnd.map(i64::from)));
    option("mtu", text(mtu));
    option("lock-mtu", lock_mtu.map(|on| on.to_string()));
    option("quickack", quickack.map(|on| on.to_string()));
    option("advmss", text(advmss));
    let number = |number: Option<i64>| number.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let word = |address: Option<IpAddr>| address.map_or(String::new(), |a| a.to_string());
    let key = (
        is_ipv4,
        vec![quickack.unwrap_or(false), lock_mtu.unwrap_or(false)],
        vec![destination.to_string(), word(via), word(source)],
        vec![
            table.unwrap_or(MAIN_TABLE),
            number(cwnd),
            initcwnd.unwrap_or(0),
            initrwnd.unwrap_or(0),
            number(mtu),
            number(weight),
            number(advmss),
        ],
    );
    Some(Found {
        interface,
        key,
        route: Route {
            destination,
            via,
            kind,
            metric: metric.and_then(|metric| u32::try_from(metric).ok()),
            table: Some(table.unwrap_or(MAIN_TABLE)),
            options,
        },
    })
}

fn kind_word(kind: RouteKind) -> Option<&'static str> {
    match kind {
        RouteKind::Unicast => None,
        RouteKind::Blackhole => Some("blackhole"),
        RouteKind::Unreachable => Some("unreachable"),
        RouteKind::Prohibit => Some("prohibit"),
    }
}

/// The routing table of a VRF. If the route also gives a table, the two must be
/// equal.
fn table_of_vrf(name: &str, given: Option<u32>, fields: &Fields, all: &Interfaces) -> Option<u32> {
    let mut vrfs = all
        .list
        .iter()
        .filter(|d| d.state == State::Up && d.name == name);
    let table = vrfs.find_map(|d| match d.interface.kind {
        InterfaceKind::Vrf { table } => Some(table),
        _ => None,
    });
    match (table, given) {
        (None, _) => fields.fault("vrf-name", format!("no VRF is called {name:?}")),
        (Some(table), Some(given)) if table != given => fields.fault(
            "table-id",
            format!("expected {table}, the table of {name}, found {given}"),
        ),
        _ => {}
    }
    table
}

/// The interface of a route.
fn carrier(name: &str, is_ipv4: bool, fields: &Fields, all: &Interfaces) -> Option<usize> {
    let Some(index) = all.find(name) else {
        let is_down = all
            .list
            .iter()
            .any(|d| d.name == name && d.state != State::Up);
        fields.fault(
            "next-hop-interface",
            if all.ignored.iter().any(|ignored| ignored == name) || is_down {
                format!("{name} is not up")
            } else {
                format!("no interface is called {name:?}")
            },
        );
        return None;
    };
    let described = &all.list[index];
    let (family, key) = if is_ipv4 {
        (&described.ipv4, "ipv4")
    } else {
        (&described.ipv6, "ipv6")
    };
    let controller = described.interface.controller.as_ref();
    let is_port = controller.is_some_and(|name| !all.is_vrf(name));
    if !family.enabled || is_port {
        fields.fault("next-hop-interface", format!("{name} has no {key}"));
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
        fields.fault(
            "destination",
            format!("expected a network such as 192.0.2.0/24, found {text:?}"),
        );
        return None;
    };
    // 0.0.0.0/8 means "this network" (RFC 1122), so no route leads there.
    if let (IpAddr::V4(address), true) = (found.address, found.length >= 8)
        && address.octets()[0] == 0
    {
        fields.fault(
            "destination",
            "expected no network in 0.0.0.0/8; the default route is 0.0.0.0/0",
        );
        return None;
    }
    Some(found)
}
