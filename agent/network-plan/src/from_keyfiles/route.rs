//! Reads static routes: `route1=10.0.0.0/8,192.0.2.1,100` and `route1_options`.

use super::ip_fields::{self, Fields};
use super::keys::Keys;
use super::section_text::unescaped;
use crate::plan::{Route, RouteKind};

/// The maximum number of routes of a family; more are a fault.
const MOST_ROUTES: usize = 4096;
/// The metric that the kernel gives to an IPv6 route without one.
const KERNEL_METRIC_IPV6: u32 = 1024;

/// The options that a route can have (nm-settings-nmcli(5), ipv4.routes), without
/// `table`, which is a part of the plan.
const OPTIONS: &[&str] = &[
    "advmss",
    "cwnd",
    "from",
    "initcwnd",
    "initrwnd",
    "lock-advmss",
    "lock-cwnd",
    "lock-initcwnd",
    "lock-initrwnd",
    "lock-mtu",
    "lock-window",
    "mtu",
    "onlink",
    "quickack",
    "rto_min",
    "scope",
    "src",
    "tos",
    "type",
    "weight",
    "window",
];

pub(super) fn read_all(keys: &Keys, section: &str, is_ipv4: bool) -> Vec<Route> {
    let found = keys.numbered(section, &["route", "routes"]);
    if found.len() > MOST_ROUTES {
        let words = format!(
            "expected at most {MOST_ROUTES} routes, found {}",
            found.len()
        );
        keys.fault(section, "route", words);
        return Vec::new();
    }
    let routes = found
        .into_iter()
        .filter_map(|key| read(keys, section, key, is_ipv4));
    routes.collect()
}

fn read(keys: &Keys, section: &str, key: &str, is_ipv4: bool) -> Option<Route> {
    let text = keys.text(section, key)?;
    let fields = Fields::split(text);
    let default = if is_ipv4 { 24 } else { 128 };
    let destination = { fields.as_ref() }.and_then(|f| f.prefix(keys, section, key, default));
    let destination = destination.filter(|d| d.address.is_ipv4() == is_ipv4);
    let (Some(fields), Some(destination)) = (fields, destination) else {
        let expected = "DESTINATION/LENGTH,NEXT-HOP,METRIC of the section's family";
        keys.expected(section, key, expected, text);
        return None;
    };
    let via = fields
        .via
        .and_then(|word| ip_fields::address(keys, section, key, word, is_ipv4));
    let metric = fields.metric.and_then(|word| {
        let metric: Option<u32> = word.parse().ok();
        if metric.is_none() {
            keys.expected(section, key, "a number as metric", word);
        }
        metric
    });
    let metric = metric.or_else(|| ip_fields::route_metric(keys, section));
    let mut route = Route {
        destination,
        via: via.filter(|via| !via.is_unspecified()),
        kind: RouteKind::Unicast,
        metric,
        table: None,
        options: Vec::new(),
    };
    read_options(keys, section, &format!("{key}_options"), &mut route);
    // If a route has a table and no metric, the writer writes the kernel's default
    // metric. Removing this metric restores the original plan.
    let kernel_metric = if is_ipv4 { 0 } else { KERNEL_METRIC_IPV6 };
    if route.table.is_some() && route.metric == Some(kernel_metric) {
        route.metric = None;
    }
    Some(route)
}

/// Reads options such as `table=200,mtu=1400`.
fn read_options(keys: &Keys, section: &str, key: &str, route: &mut Route) {
    let Some(text) = keys.text(section, key) else {
        return;
    };
    // These options cause no warning. The agent applies `table` and `type`, and it
    // determines itself whether a next hop is on the link.
    let applied = ["onlink", "table", "type"];
    for word in text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let Some((name, value)) = word.split_once('=') else {
            keys.expected(section, key, "NAME=VALUE, joined by commas", word);
            continue;
        };
        let value = unescaped(value);
        match name {
            "table" => match value.parse() {
                // Zero is the same as no table.
                Ok(table) => route.table = Some(table).filter(|table| *table != 0),
                Err(_) => keys.expected(section, key, "a number as table", &value),
            },
            "type" => {
                let kind = kind(keys, section, key, &value);
                if value == "local" {
                    keys.warn(section, key, "the ramdisk adds a unicast route");
                }
                route.kind = kind;
                if kind != RouteKind::Unicast {
                    route.options.push(("type", value));
                }
            }
            name => match OPTIONS.iter().find(|known| **known == name) {
                Some(known) if !value.contains(char::is_control) => {
                    if !applied.contains(known) {
                        let words = format!("the ramdisk adds the route without {known}");
                        keys.warn(section, key, words);
                    }
                    route.options.push((*known, value));
                }
                Some(_) => keys.expected(section, key, "a value on one line", &value),
                None => {
                    let name = super::keys::shown(name);
                    let words = format!("unknown option {name}; the ramdisk ignores it");
                    keys.warn(section, key, words);
                }
            },
        }
    }
}

fn kind(keys: &Keys, section: &str, key: &str, text: &str) -> RouteKind {
    match text {
        "unicast" | "local" => RouteKind::Unicast,
        "blackhole" => RouteKind::Blackhole,
        "unreachable" => RouteKind::Unreachable,
        "prohibit" => RouteKind::Prohibit,
        other => {
            let expected = "unicast, local, blackhole, unreachable or prohibit as type";
            keys.expected(section, key, expected, other);
            RouteKind::Unicast
        }
    }
}
