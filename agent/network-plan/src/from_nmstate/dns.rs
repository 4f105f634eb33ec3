//! Reads `dns-resolver`, and chooses the interface whose profile keeps the name
//! servers.
//!
//! NMState has name servers for the whole machine, but NetworkManager keeps them in a
//! profile. Like nmstate, this module looks for a suitable profile in the order of the
//! document.

use std::net::IpAddr;

use super::described::{Described, Interfaces, State};
use super::family::Family;
use super::fields::Fields;

/// Priority of the DNS servers that have the family of the first server. The profile of
/// this family also keeps the search domains and the options. A lower number takes
/// precedence. Without servers, the profile of the search domains has this priority.
const PRIORITY: u32 = 40;
const PRIORITY_OF_OTHERS: u32 = 50;
/// Options without a value (resolv.conf(5)).
const OPTIONS: &[&str] = &[
    "debug",
    "edns0",
    "inet6",
    "ip6-bytestring",
    "ip6-dotint",
    "no-aaaa",
    "no-check-names",
    "no-ip6-dotint",
    "no-reload",
    "no-tld-query",
    "rotate",
    "single-request",
    "single-request-reopen",
    "trust-ad",
    "use-vc",
];
const OPTIONS_WITH_NUMBER: &[&str] = &["ndots", "timeout", "attempts"];

/// A server, and for a link-local server the name of its interface.
type Server<'a> = (IpAddr, Option<&'a str>);

/// Reads `dns-resolver` and assigns the servers to interfaces.
pub(super) fn read(top: &Fields, all: &mut Interfaces) {
    let keys = ["server", "search", "options"];
    let Some(dns) = top.child("dns-resolver", &["running", "config"]) else {
        return;
    };
    let _ = dns.child("running", &keys);
    let Some(fields) = dns.child("config", &keys) else {
        return;
    };
    let servers = servers(&fields);
    let search = fields.texts("search").unwrap_or_default().into_iter();
    let search: Vec<_> = search.map(|(_, domain)| domain.to_owned()).collect();
    let options = options(&fields);
    if !servers.is_empty() {
        give_servers(&servers, search, &options, &fields, all);
    } else if !search.is_empty() || !options.is_empty() {
        match suitable_for_domains(all) {
            Some(family) => keep(family, Vec::new(), search, &options, PRIORITY),
            None => fields.fault(
                "search",
                "no interface has addresses, so no name can be looked up",
            ),
        }
    }
}

fn servers<'a>(fields: &Fields<'a>) -> Vec<Server<'a>> {
    let mut servers = Vec::new();
    for (path, text) in fields.texts("server").unwrap_or_default() {
        let (address, zone) = match text.split_once('%') {
            Some((address, zone)) => (address, Some(zone)),
            None => (text, None),
        };
        match address.parse::<IpAddr>() {
            Ok(address) if zone.is_none() || address.is_ipv6() => servers.push((address, zone)),
            _ => fields
                .findings
                .fault(&path, format!("expected an IP address, found {text:?}")),
        }
    }
    servers
}

fn options(fields: &Fields) -> Vec<String> {
    let mut options = Vec::new();
    for (path, option) in fields.texts("options").unwrap_or_default() {
        let is_known = match option.split_once(':') {
            Some((name, _)) => OPTIONS_WITH_NUMBER.contains(&name),
            None => OPTIONS.contains(&option),
        };
        if !is_known {
            let (known, with) = (OPTIONS.join(", "), OPTIONS_WITH_NUMBER.join(":N, "));
            let words = format!("expected one of {known}, {with}:N, found {option:?}");
            fields.findings.fault(&path, words);
        }
        options.push(option.to_owned());
    }
    options
}

fn give_servers(
    servers: &[Server],
    search: Vec<String>,
    options: &[String],
    fields: &Fields,
    all: &mut Interfaces,
) {
    let families = servers.iter().map(|(address, _)| address.is_ipv4());
    let mut families: Vec<bool> = families.collect();
    families.dedup();
    if families.len() > 2 {
        return fields.fault(
            "server",
            "expected all IPv4 servers next to each other, and all IPv6 servers",
        );
    }
    let first_is_ipv4 = families.first() == Some(&true);
    let mut search = Some(search);
    for is_ipv4 in families {
        let own = servers.iter().map(|(address, _)| *address);
        let own: Vec<_> = own.filter(|a| a.is_ipv4() == is_ipv4).collect();
        let zone = servers.iter().find_map(|(_, zone)| *zone);
        let zone = zone.filter(|_| !is_ipv4);
        let place = match zone {
            Some(zone) => named(zone, fields, all),
            None => suitable(all, is_ipv4),
        };
        let Some(index) = place else {
            let kind = if is_ipv4 { "IPv4" } else { "IPv6" };
            let words = format!("no interface has {kind} to reach {}", own[0]);
            fields.fault("server", words);
            continue;
        };
        let family = all.list[index].family_mut(is_ipv4);
        if is_ipv4 == first_is_ipv4 {
            let search = search.take().unwrap_or_default();
            keep(family, own, search, options, PRIORITY);
        } else {
            keep(family, own, Vec::new(), &[], PRIORITY_OF_OTHERS);
        }
    }
    let zones = servers.iter().filter_map(|(_, zone)| *zone);
    let mut zones: Vec<_> = zones.collect();
    zones.sort_unstable();
    zones.dedup();
    if zones.len() > 1 {
        fields.fault("server", "expected link-local servers of one interface");
    }
}

fn named(zone: &str, fields: &Fields, all: &Interfaces) -> Option<usize> {
    let fits = |d: &Described| d.name == zone && d.state != State::Absent;
    let place = all.list.iter().position(fits);
    if place.is_none() {
        fields.fault("server", format!("no interface is called {zone:?}"));
    }
    place.filter(|index| is_valid(&all.list[*index], false))
}

fn is_valid(described: &Described, is_ipv4: bool) -> bool {
    let is_configured = described.family(is_ipv4).is_configured();
    described.state == State::Up && has_ip(described) && is_configured
}

fn has_ip(described: &Described) -> bool {
    described.interface.controller.is_none()
}

/// Index of the first interface with this family configured that gets no name servers
/// from the network. If there is none, index of the first interface that is up and has
/// this family configured. Ports do not count.
fn suitable(all: &Interfaces, is_ipv4: bool) -> Option<usize> {
    let prefers = |d: &Described| {
        d.state != State::Absent && has_ip(d) && d.family(is_ipv4).prefers_given_dns()
    };
    let mut list = all.list.iter();
    let preferred = list.position(prefers);
    preferred.or_else(|| all.list.iter().position(|d| is_valid(d, is_ipv4)))
}

/// The family that keeps the search domains if there are no servers: the first family
/// that gets its addresses from the network, or else the first family with a static
/// address.
fn suitable_for_domains(all: &mut Interfaces) -> Option<&mut Family> {
    let mut found = None;
    for needs_automatic in [true, false] {
        for (index, described) in all.list.iter().enumerate() {
            for is_ipv4 in [false, true] {
                let fits = described.family(is_ipv4).is_automatic() || !needs_automatic;
                if found.is_none() && fits && is_valid(described, is_ipv4) {
                    found = Some((index, is_ipv4));
                }
            }
        }
    }
    let (index, is_ipv4) = found?;
    Some(all.list[index].family_mut(is_ipv4))
}

fn keep(
    family: &mut Family,
    servers: Vec<IpAddr>,
    search: Vec<String>,
    options: &[String],
    priority: u32,
) {
    family.plan.dns = servers;
    family.plan.search = search;
    let settings = &mut family.plan.settings;
    settings.insert("dns-priority".to_owned(), priority.to_string());
    if !options.is_empty() {
        settings.insert("dns-options".to_owned(), options.join(";"));
    }
}
