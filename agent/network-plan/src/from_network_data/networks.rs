//! Turns `networks` and `services` into addresses, routes and DNS of the
//! interfaces.

use std::net::IpAddr;

use landfall_boot_params::{IpPrefix, longest_prefix};
use serde_json::Value;

use super::fields::{Fields, Warnings, shortened};
use super::links::Link;
use super::prefix;
use crate::plan::{Interface, IpPlan, Method, Route, RouteKind};

const MOST_NETWORKS: usize = 1024;
const MOST_ROUTES: usize = 1024;
const MOST_SERVERS: usize = 16;
const ADDRESS: &str = "an IP address";

/// Adds each network to the interface of its link. Faults become warnings.
pub(super) fn read(value: Option<&Value>, links: &mut [Link], warnings: &Warnings) {
    for entry in Fields::list(value, "network", MOST_NETWORKS, warnings) {
        let wanted = entry.quiet_text("link");
        let is_it = |link: &&mut Link| wanted.as_deref().is_some_and(|id| link.is_called(id));
        let link = links.iter_mut().find(is_it);
        match link {
            None => {
                let wanted = wanted.unwrap_or_default();
                entry.expected("link", "the id of a usable link", &wanted);
            }
            Some(link) if link.interface.controller.is_some() => {
                entry.warn("its link is a port of a bond; ignored");
            }
            Some(link) => network(&entry, &mut link.interface),
        }
    }
}

/// Adds the DNS servers of the top-level `services` to every interface on which their
/// family is up. A server without such an interface becomes a warning.
pub(super) fn read_services(value: Option<&Value>, links: &mut [Link], warnings: &Warnings) {
    for server in servers(value, warnings) {
        let mut used = false;
        for link in &mut *links {
            used |= add_server(&mut link.interface, server);
        }
        if !used {
            warnings.add(format!(
                "DNS server {server}: no network of its family; ignored"
            ));
        }
    }
}

fn servers(value: Option<&Value>, warnings: &Warnings) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for entry in Fields::list(value, "service", MOST_SERVERS, warnings) {
        match entry.text("type").as_deref() {
            Some("dns") => {}
            other => {
                unknown_type(&entry, other.unwrap_or_default());
                continue;
            }
        }
        match entry.text("address") {
            // Ironic's schema allows a prefix after an IPv6 address here, too.
            Some(text) => match prefix::address(&text) {
                Some((address, _)) => servers.push(address),
                None => entry.expected("address", ADDRESS, &text),
            },
            None => entry.has_no("address"),
        }
    }
    servers
}

fn unknown_type(entry: &Fields, kind: &str) {
    let kind = shortened(kind);
    entry.warn(format_args!("type {kind:?} is not known; ignored"));
}

fn network(entry: &Fields, interface: &mut Interface) {
    let kind = entry.text("type").unwrap_or_default();
    let (is_ipv4, mode) = match kind.replace('_', "-").as_str() {
        "ipv4" => (true, None),
        "ipv6" => (false, None),
        "ipv4-dhcp" => (true, Some("dhcp")),
        "ipv6-dhcp" => (false, Some("dhcp")),
        "ipv6-slaac" => (false, Some("slaac")),
        "ipv6-dhcpv6-stateless" => (false, Some("stateless")),
        "ipv6-dhcpv6-stateful" => (false, Some("stateful")),
        _ => return unknown_type(entry, &kind),
    };
    // Never `None` here: the caller has skipped ports.
    let Some(ip) = interface.family_mut(is_ipv4) else {
        return;
    };
    if let Some(mode) = mode {
        (ip.method, ip.required) = (Method::Auto, true);
        ip.automatic.mode = (!is_ipv4).then_some(mode);
    } else {
        let Some(address) = static_address(entry, is_ipv4) else {
            return;
        };
        if ip.method == Method::Disabled {
            (ip.method, ip.required) = (Method::Manual, true);
        }
        if !ip.addresses.contains(&address) {
            ip.addresses.push(address);
        }
    }
    routes(entry, is_ipv4, ip);
    let mut given = servers(entry.get("services"), entry.warnings);
    given.extend(cloud_init_servers(entry));
    // Drop the warnings about these routes: `routes` has already reported their faults.
    for route in route_entries(entry, &Warnings::default()) {
        given.extend(servers(route.get("services"), entry.warnings));
    }
    for server in given {
        if !add_server(interface, server) {
            entry.warn(format_args!(
                "DNS server {server} is of a family that is off; ignored"
            ));
        }
    }
}

fn static_address(entry: &Fields, is_ipv4: bool) -> Option<IpPrefix> {
    let family = if is_ipv4 { "IPv4" } else { "IPv6" };
    let Some(text) = entry.text("ip_address") else {
        entry.has_no("usable ip_address");
        return None;
    };
    let found = prefix::address(&text).filter(|(address, _)| address.is_ipv4() == is_ipv4);
    let Some((address, written)) = found else {
        entry.expected("ip_address", format!("an {family} address"), &text);
        return None;
    };
    let given = entry.text("netmask");
    let masked = given.as_ref().and_then(|text| prefix::mask(text, is_ipv4));
    if let (Some(text), None) = (&given, masked) {
        entry.expected("netmask", format!("an {family} mask"), text);
    }
    if let Some(length) = masked.or(written) {
        return Some(IpPrefix { address, length });
    }
    let prefix = IpPrefix::with_default_length(address);
    let length = prefix.length;
    let words = format!("{} has no usable netmask; /{length} is used", entry.title);
    entry.warnings.add(words);
    Some(prefix)
}

fn route_entries<'a>(entry: &Fields<'a>, warnings: &'a Warnings) -> Vec<Fields<'a>> {
    let what = format!("{}: route", entry.title);
    Fields::list(entry.get("routes"), &what, MOST_ROUTES, warnings)
}

fn routes(entry: &Fields, is_ipv4: bool, ip: &mut IpPlan) {
    for route in route_entries(entry, entry.warnings) {
        let Some(destination) = destination(&route, is_ipv4) else {
            continue;
        };
        let via: Option<IpAddr> = route.parsed("gateway", ADDRESS);
        if via.is_none() && route.get("gateway").is_some() {
            continue;
        }
        if via.is_some_and(|via| via.is_ipv4() != is_ipv4) {
            route.warn("gateway is of another family; ignored");
            continue;
        }
        // An unspecified address means no next hop.
        let via = via.filter(|via| !via.is_unspecified());
        let metric = route.number("metric", 0..=u32::MAX);
        match (destination.length, via) {
            (0, None) => route.warn("a default route needs a gateway; ignored"),
            (0, Some(via)) if metric.is_none() && !ip.addresses.is_empty() => {
                set_gateway(ip, via, &route);
            }
            _ => {
                let route = Route {
                    kind: RouteKind::Unicast,
                    destination,
                    via,
                    metric,
                    table: None,
                    options: Vec::new(),
                };
                if !ip.routes.contains(&route) && ip.routes.len() < MOST_ROUTES {
                    ip.routes.push(route);
                }
            }
        }
    }
    let gateway = entry.parsed::<IpAddr>("gateway", ADDRESS);
    // An unspecified address means no gateway.
    if let Some(gateway) = gateway.filter(|gateway| !gateway.is_unspecified()) {
        if gateway.is_ipv4() != is_ipv4 {
            entry.warn("gateway is of another family; ignored");
        } else if ip.addresses.is_empty() {
            entry.warn("gateway needs a static address; ignored");
        } else {
            set_gateway(ip, gateway, entry);
        }
    }
}

fn set_gateway(ip: &mut IpPlan, gateway: IpAddr, entry: &Fields) {
    let first = *ip.gateway.get_or_insert(gateway);
    if first != gateway {
        entry.warn(format_args!(
            "default gateway {gateway} ignored, the interface already has {first}"
        ));
    }
}

/// The destination: `network` with `netmask`, or `network` with a prefix after it.
/// Without either it is a host route, or the default route if the address is all zero.
fn destination(route: &Fields, is_ipv4: bool) -> Option<IpPrefix> {
    let text = route.text("network").unwrap_or_default();
    let found = prefix::address(&text).filter(|(address, _)| address.is_ipv4() == is_ipv4);
    let Some((address, written)) = found else {
        route.expected("network", "a network of its family", &text);
        return None;
    };
    let length = match route.text("netmask") {
        Some(text) => match prefix::mask(&text, is_ipv4) {
            Some(length) => length,
            None => {
                route.expected("netmask", "a mask of its family", &text);
                return None;
            }
        },
        None if address.is_unspecified() => written.unwrap_or(0),
        None => written.unwrap_or(longest_prefix(is_ipv4)),
    };
    Some(IpPrefix { address, length }.network())
}

/// Reads `dns_nameservers`, an extension of cloud-init.
fn cloud_init_servers(entry: &Fields) -> Vec<IpAddr> {
    let list = match entry.get("dns_nameservers") {
        Some(Value::Array(list)) => list.iter().collect(),
        Some(value) => vec![value],
        None => Vec::new(),
    };
    let mut servers = Vec::new();
    for value in list.into_iter().take(MOST_SERVERS) {
        match value.as_str().and_then(|text| text.trim().parse().ok()) {
            Some(address) => servers.push(address),
            None => entry.warn(format_args!("dns_nameservers: expected {ADDRESS}; ignored")),
        }
    }
    servers
}

/// Returns false if the family of the server is off.
fn add_server(interface: &mut Interface, server: IpAddr) -> bool {
    let Some(ip) = interface.family_mut(server.is_ipv4()) else {
        return false;
    };
    let is_up = ip.method != Method::Disabled;
    if is_up && !ip.dns.contains(&server) && ip.dns.len() < MOST_SERVERS {
        ip.dns.push(server);
    }
    is_up
}
