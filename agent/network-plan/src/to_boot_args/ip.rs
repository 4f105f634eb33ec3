//! Writes `ip=`, `rd.route=` and `rd.net.dhcp.client-id=` of one interface.

use std::net::IpAddr;

use super::interface::device;
use crate::plan::{Interface, IpPlan, Method, NetworkPlan};

/// The method that changes nothing: an interface keeps the default settings of its
/// address families, or the settings of earlier arguments.
const NEUTRAL: &str = "auto";

/// Each `ip=` of the interface, and its client identifier.
pub(super) fn arguments(interface: &Interface, plan: &NetworkPlan) -> Vec<String> {
    let Some(device) = device(interface) else {
        return Vec::new();
    };
    let mut arguments = Vec::new();
    let mut tails = tails(interface);
    match (&interface.ipv4, &interface.ipv6) {
        (Some(ipv4), Some(ipv6)) => {
            let words = methods(ipv4, ipv6);
            let host = host_name(interface, plan);
            let mut long = long_forms(ipv4, ipv6, host.as_deref());
            let short = words.iter().skip(usize::from(!long.is_empty()));
            let first_tail = if tails.is_empty() {
                String::new()
            } else {
                tails.remove(0)
            };
            if let Some(last) = long.pop() {
                // dracut's long form has no `auto`, so use `none` if it has the same
                // effect.
                let before = if words == ["none"] { "none" } else { NEUTRAL };
                let ends = long.iter().map(|text| format!("{text}:{device}:{before}"));
                arguments.extend(ends.map(|text| format!("ip={text}")));
                arguments.push(format!("ip={last}:{device}:{}{first_tail}", words[0]));
                arguments.extend(short.map(|word| short_form(&device, word, "")));
            } else {
                let last = words.len() - 1;
                for (index, word) in words.iter().enumerate() {
                    let tail = if index == last {
                        first_tail.as_str()
                    } else {
                        ""
                    };
                    arguments.push(short_form(&device, word, tail));
                }
            }
        }
        // A port has no addresses, only settings of its link.
        _ if interface.controller.is_some() => {}
        _ => arguments.push(short_form(&device, "none", "")),
    }
    arguments.extend(tails.iter().map(|tail| short_form(&device, NEUTRAL, tail)));
    let asked = interface
        .ipv4
        .as_ref()
        .filter(|ip| ip.method.is_automatic());
    if let Some(id) = asked.and_then(|ip| ip.automatic.client_id_text()) {
        let id = id.replace(':', "-");
        arguments.push(format!("rd.net.dhcp.client-id={device}:{id}"));
    }
    arguments
}

/// The `rd.route=` arguments. For the interface that matches every NIC they name no
/// interface, so that they apply to the first interface.
pub(super) fn routes(interface: &Interface) -> Vec<String> {
    let Some(device) = device(interface) else {
        return Vec::new();
    };
    let routes = interface.families().flat_map(|ip| &ip.routes);
    routes
        .map(|route| {
            let destination = match route.destination.address {
                IpAddr::V4(_) => route.destination.to_string(),
                IpAddr::V6(_) => format!("[{}]", route.destination),
            };
            let via = route.via.map(address).unwrap_or_default();
            let end = if device.is_empty() { "" } else { ":" };
            format!("rd.route={destination}:{via}{end}{device}")
        })
        .collect()
}

/// Writes `ip=eth0:dhcp` or `ip=dhcp`.
fn short_form(device: &str, word: &str, tail: &str) -> String {
    match (device, tail) {
        ("", "") => format!("ip={word}"),
        _ => format!("ip={device}:{word}{tail}"),
    }
}

/// The fields before the interface in the long form: one text for each static address.
/// Without a static address, one text if there is a host name.
fn long_forms(ipv4: &IpPlan, ipv6: &IpPlan, host: Option<&str>) -> Vec<String> {
    let host = host.unwrap_or("");
    let mut forms = Vec::new();
    for ip in [ipv4, ipv6] {
        let mut gateway = ip.gateway;
        for prefix in &ip.addresses {
            // The length goes into the mask field, because some versions of
            // NetworkManager lose a length after `]`.
            let (client, length) = (address(prefix.address), prefix.length);
            let gateway = gateway.take().map(address).unwrap_or_default();
            forms.push(format!("{client}::{gateway}:{length}:{host}"));
        }
    }
    if forms.is_empty() && !host.is_empty() {
        forms.push(format!("::::{host}"));
    }
    forms
}

/// The fields after the method, one text per argument: MTU and hardware address, or up to
/// two DNS servers.
fn tails(interface: &Interface) -> Vec<String> {
    let mut tails = Vec::new();
    if interface.mtu.is_some() || interface.set_mac.is_some() {
        let mtu = interface.mtu.map(|mtu| mtu.to_string()).unwrap_or_default();
        let mac = interface.set_mac.map(|mac| format!(":{mac}"));
        tails.push(format!(":{mtu}{}", mac.unwrap_or_default()));
    }
    let servers = interface.families().flat_map(|ip| &ip.dns);
    let servers: Vec<_> = servers.map(|server| address(*server)).collect();
    let pairs = servers.chunks(2);
    tails.extend(pairs.map(|pair| format!(":{}", pair.join(":"))));
    tails
}

/// The host name that DHCP sends, or the machine's name if there is no DHCP.
fn host_name(interface: &Interface, plan: &NetworkPlan) -> Option<String> {
    let mut families = interface.families();
    let mut asked = families.clone().filter(|ip| ip.method.is_automatic());
    match asked.next() {
        Some(ip) => ip.automatic.host_name.clone(),
        None => {
            // Without DHCP, only an argument with a static address can contain the host
            // name.
            let is_static = families.any(|ip| !ip.addresses.is_empty());
            plan.host_name.clone().filter(|_| is_static)
        }
    }
}

/// The methods that configure both families, one argument each. The order matters:
/// `dhcp` makes IPv6 automatic, and `dhcp6` and `link6` switch IPv4 off, each only if that
/// family has no static address.
fn methods(ipv4: &IpPlan, ipv6: &IpPlan) -> Vec<&'static str> {
    let required = |ip: &IpPlan| ip.method.is_automatic() && ip.required;
    let optional = |ip: &IpPlan| ip.method.is_automatic() && !ip.required;
    if ipv6.method == Method::LinkLocal {
        return if required(ipv4) {
            vec!["dhcp", "link6"]
        } else {
            vec!["link6"]
        };
    }
    match (required(ipv4), required(ipv6)) {
        (true, true) => vec!["dhcp6", "dhcp"],
        (true, false) => vec!["dhcp"],
        (false, true) if !optional(ipv4) => vec!["dhcp6"],
        _ if optional(ipv4) || optional(ipv6) => {
            let waits_for_both = optional(ipv6) && ipv6.required_timeout_ms.is_some();
            match (waits_for_both, ipv4.method) {
                (true, _) => vec!["dhcp,dhcp6"],
                // No other method switches off IPv4 alone.
                (false, Method::Disabled) => vec!["dhcp6"],
                (false, _) => vec![NEUTRAL],
            }
        }
        _ => vec!["none"],
    }
}

fn address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}
