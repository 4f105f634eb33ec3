//! [`NetworkPlan`] → the lines that the console shows to an operator.

use std::net::IpAddr;

use landfall_boot_params::ClonedMac;

use crate::plan::{
    Automatic, Ethtool, Interface, InterfaceKind, IpPlan, Method, NetworkPlan, RouteKind,
    USUAL_DHCP_TIMEOUT,
};

/// The plan as lines that are short enough for a serial console: the global DNS servers,
/// the carrier timeout, up to three lines per interface (link, IPv4, IPv6), and the
/// policy rules.
pub fn describe(plan: &NetworkPlan) -> Vec<String> {
    if plan.interfaces.is_empty() {
        return vec!["no interface is configured".to_owned()];
    }
    let mut lines = Vec::new();
    if !plan.global_dns.is_empty() {
        let servers: Vec<_> = plan.global_dns.iter().map(IpAddr::to_string).collect();
        lines.push(format!("DNS for every interface: {}", servers.join(" ")));
    }
    if let Some(seconds) = plan.carrier_timeout {
        lines.push(format!("a carrier is expected within {seconds} s"));
    }
    let alone = plan.interfaces.len() == 1;
    for interface in &plan.interfaces {
        describe_interface(interface, alone, &mut lines);
    }
    let rules = plan.rules.iter().map(|rule| format!("rule: {rule}"));
    lines.extend(rules);
    lines
}

fn describe_interface(interface: &Interface, alone: bool, lines: &mut Vec<String>) {
    let name = subject(interface, alone);
    let mut link = describe_kind(interface);
    let controller = interface.controller.as_ref();
    link.extend(controller.map(|controller| format!("port of {controller}")));
    link.extend(interface.mtu.map(|mtu| format!("MTU {mtu}")));
    link.extend(interface.ethtool.as_ref().map(describe_ethtool));
    link.extend(interface.set_mac.map(|mac| match mac {
        ClonedMac::Address(mac) => format!("MAC set to {mac}"),
        word => format!("{word} MAC"),
    }));
    if !link.is_empty() {
        lines.push(format!("{name}: {}", link.join(", ")));
    }
    match (&interface.ipv4, &interface.ipv6) {
        (Some(ipv4), Some(ipv6)) if is_off(ipv4) && is_off(ipv6) => {
            lines.push(format!("{name}: no addresses, no DHCP"));
        }
        (ipv4, ipv6) => {
            let parts = [
                ("IPv4", ipv4, "DHCP"),
                ("IPv6", ipv6, "router advertisements"),
            ];
            for (family, ip, automatic) in parts {
                if let Some(ip) = ip {
                    lines.push(format!("{name}: {family} {}", describe_ip(ip, automatic)));
                }
            }
        }
    }
}

/// The words that describe the kind of the interface. Empty for an Ethernet NIC, the
/// loopback interface and the interfaces of Open vSwitch.
fn describe_kind(interface: &Interface) -> Vec<String> {
    let mut link = Vec::new();
    match &interface.kind {
        InterfaceKind::Ethernet => {}
        InterfaceKind::Vlan {
            id,
            parent,
            parent_mac,
            service,
        } => {
            // For a VLAN without a name of its own, the line already starts with the MAC
            // address of the NIC.
            let is_named = interface.matches.name.is_some();
            let of_mac = parent_mac.filter(|_| is_named);
            let of_mac = of_mac.map(|mac| format!("the NIC with MAC {mac}"));
            let parent = parent.as_ref().or(of_mac.as_ref());
            link.push(vlan(*id, *service, parent.map(String::as_str)));
        }
        InterfaceKind::Bond { options } => {
            let mode = options.get("mode").map_or("?", String::as_str);
            link.push(format!("bond, mode {mode}"));
        }
        InterfaceKind::Bridge { .. } => link.push("bridge".to_owned()),
        InterfaceKind::Team { bond_mode } => {
            link.push(format!("team, made as a bond of mode {bond_mode}"));
        }
        InterfaceKind::Vrf { table } => link.push(format!("VRF, routing table {table}")),
        InterfaceKind::MacVlan { parent, tap, .. } => {
            let kind = if *tap { "MAC-VTAP" } else { "MAC-VLAN" };
            link.push(on_parent(kind, parent.as_deref()));
        }
        InterfaceKind::IpVlan { parent, .. } => link.push(on_parent("IPVLAN", parent.as_deref())),
        InterfaceKind::Veth { peer } => link.push(format!("virtual cable to {peer}")),
        InterfaceKind::Loopback | InterfaceKind::OpenVswitch { .. } => {}
        InterfaceKind::Infiniband {
            mac, parent, p_key, ..
        } => {
            link.push("InfiniBand".to_owned());
            link.extend(mac.map(|mac| format!("MAC {mac}")));
            if let (Some(parent), Some(key)) = (parent, p_key) {
                link.push(format!("partition {key:04x} of {parent}"));
            }
        }
    }
    link
}

/// Formats a VLAN as `VLAN 7 on eth0`. `service` is true for 802.1ad, as in
/// [`InterfaceKind::Vlan`].
pub fn vlan(id: u16, service: bool, parent: Option<&str>) -> String {
    let kind = if service { "802.1ad VLAN" } else { "VLAN" };
    on_parent(&format!("{kind} {id}"), parent)
}

fn on_parent(kind: &str, parent: Option<&str>) -> String {
    parent.map_or_else(|| kind.to_owned(), |parent| format!("{kind} on {parent}"))
}

fn describe_ethtool(ethtool: &Ethtool) -> String {
    match (ethtool.autoneg, ethtool.speed) {
        (true, None) => "autonegotiation".to_owned(),
        (true, Some(speed)) => format!("autonegotiation of {speed} Mbit/s, full duplex"),
        (false, Some(speed)) => format!("{speed} Mbit/s, full duplex"),
        (false, None) => "speed set by the driver".to_owned(),
    }
}

fn subject(interface: &Interface, alone: bool) -> String {
    match (interface.matches.is_any() && interface.multi, alone) {
        (true, true) => "every NIC".to_owned(),
        (true, false) => "every other NIC".to_owned(),
        (false, _) => interface.matches.to_string(),
    }
}

fn is_off(ip: &IpPlan) -> bool {
    ip.method == Method::Disabled
}

fn describe_ip(ip: &IpPlan, automatic: &str) -> String {
    let mut words = Vec::new();
    words.extend(ip.addresses.iter().map(ToString::to_string));
    match ip.method {
        Method::Auto => words.push(format!("by {automatic}")),
        Method::Dhcp => words.push("by DHCP".to_owned()),
        Method::LinkLocal => words.push("link-local only".to_owned()),
        Method::Disabled => words.push("off".to_owned()),
        Method::Manual => {}
    }
    if ip.method.is_automatic() {
        describe_automatic(&ip.automatic, &mut words);
    }
    words.extend(ip.gateway.map(|gateway| {
        let metric = ip.automatic.metric;
        let metric = metric.map(|metric| format!(" with metric {metric}"));
        let table = ip.automatic.table;
        let table = table.map(|table| format!(" in table {table}"));
        let [metric, table] = [metric, table].map(Option::unwrap_or_default);
        format!("gateway {gateway}{metric}{table}")
    }));
    for route in &ip.routes {
        let via = match (route.kind, route.via) {
            (RouteKind::Unicast, Some(via)) => format!("via {via}"),
            (RouteKind::Unicast, None) => "on the link".to_owned(),
            (RouteKind::Blackhole, _) => "blackhole".to_owned(),
            (RouteKind::Unreachable, _) => "unreachable".to_owned(),
            (RouteKind::Prohibit, _) => "prohibited".to_owned(),
        };
        let text = format!("{} {via}", route.destination);
        // Routes that differ only in their table or metric have the same text, which is
        // shown once.
        if !words.contains(&text) {
            words.push(text);
        }
    }
    if !ip.dns.is_empty() {
        let servers: Vec<_> = ip.dns.iter().map(IpAddr::to_string).collect();
        words.push(format!("DNS {}", servers.join(" ")));
    }
    words.join(", ")
}

/// Adds the time limit, the client identifier and the vendor class of DHCP, and whether
/// DNS servers are ignored, if they differ from the defaults.
fn describe_automatic(automatic: &Automatic, words: &mut Vec<String>) {
    match automatic.timeout {
        None | Some(USUAL_DHCP_TIMEOUT) => {}
        Some(seconds) if seconds >= i32::MAX as u32 => {
            words.push("without a time limit".to_owned());
        }
        Some(seconds) => words.push(format!("for at most {seconds} s")),
    }
    if let Some(id) = automatic.client_id_text() {
        words.push(format!("as client {id}"));
    }
    if let Some(class) = &automatic.vendor_class {
        words.push(format!("vendor class {}", class.text()));
    }
    if automatic.ignore_dns {
        words.push("but not its DNS servers".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::NetArgs;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let args = NetArgs::parse(text);
        describe(&NetworkPlan::for_boot(&args))
    }

    #[test]
    fn says_what_each_interface_will_have() {
        assert_eq!(
            lines(
                "ip=192.0.2.10::192.0.2.1:24:node7:eth0:none:1400 nameserver=192.0.2.53 \
                 ip=eth1:dhcp rd.route=10.0.0.0/8:192.0.2.9:eth0 ip=52-54-00-00-00-09:link6 ip=eth2:off"
            ),
            [
                "the NIC with MAC 52:54:00:00:00:09: IPv4 off",
                "the NIC with MAC 52:54:00:00:00:09: IPv6 link-local only",
                "eth0: MTU 1400",
                "eth0: IPv4 192.0.2.10/24, gateway 192.0.2.1, 10.0.0.0/8 via 192.0.2.9, DNS 192.0.2.53",
                "eth0: IPv6 off",
                "eth1: IPv4 by DHCP, DNS 192.0.2.53",
                "eth1: IPv6 by router advertisements",
                "eth2: no addresses, no DHCP",
            ]
        );
        assert_eq!(
            lines("BOOTIF=52-54-00-00-00-01"),
            [
                "every other NIC: IPv4 by DHCP",
                "every other NIC: IPv6 by router advertisements",
                "the NIC with MAC 52:54:00:00:00:01: IPv4 by DHCP",
                "the NIC with MAC 52:54:00:00:00:01: IPv6 by router advertisements",
            ]
        );
        assert_eq!(
            lines(
                "ip=eth0:dhcp rd.peerdns=0 rd.net.timeout.dhcp=30 rd.net.dhcp.vendor-class=lab \
                 rd.net.dhcp.client-id=eth0:@ab rd.ethtool=eth0:on:1000 rd.net.timeout.carrier=45 \
                 rd.net.dns=192.0.2.53 ib.pkey=ib0.8001 ip=ib0.8001:off team=t:eth5:lacp ip=t:off"
            ),
            [
                "DNS for every interface: 192.0.2.53",
                "a carrier is expected within 45 s",
                "eth0: autonegotiation of 1000 Mbit/s, full duplex",
                "eth0: IPv4 by DHCP, for at most 30 s, as client 00:61:62, vendor class lab, \
                 but not its DNS servers",
                "eth0: IPv6 by router advertisements, for at most 30 s, but not its DNS servers",
                "eth5: port of t",
                "ib0.8001: InfiniBand, partition 8001 of ib0",
                "ib0.8001: no addresses, no DHCP",
                "t: team, made as a bond of mode 802.3ad",
                "t: no addresses, no DHCP",
            ]
        );
        assert_eq!(lines("ip=off"), ["every NIC: no addresses, no DHCP"]);
    }
}
