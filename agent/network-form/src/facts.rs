//! Splits a plan into single settings, so that two plans can be compared.

use std::net::IpAddr;

use landfall_boot_params::{ClonedMac, MacAddr};
use landfall_network_plan::{
    Automatic, Ethtool, Interface, InterfaceKind, IpPlan, Method, NetworkPlan, Route, RouteKind,
    describe,
};

use super::chain::{Names, is_default};

/// Settings of NetworkManager that make no difference for an operator: nmstate writes
/// them into every profile, or they only set a waiting time.
const WITHOUT_EFFECT: &[&str] = &[
    "addr-gen-mode",
    "dns-priority",
    "may-fail",
    "ra-timeout",
    "route-metric",
    "timestamp",
    "uuid",
];
/// Sections of a NetworkManager profile of which no key is reported: `user` has only the
/// operator's description of the interface, and the form cannot make a bridge at all.
const SECTIONS_WITHOUT_EFFECT: &[&str] = &["bridge", "user"];
/// The kernel's RT_TABLE_MAIN.
const MAIN_TABLE: u32 = 254;

/// One setting of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The interface by its name in the form; empty for a setting of the whole machine.
    interface: String,
    /// The name of the interface in the plan.
    pub name: String,
    pub text: String,
}

impl Fact {
    fn is_same(&self, other: &Self) -> bool {
        self.interface == other.interface && self.text == other.text
    }
}

/// The settings of `wanted` that `found` does not have.
pub(super) fn lost(wanted: Vec<Fact>, found: &[Fact]) -> Vec<Fact> {
    let mut lost: Vec<Fact> = Vec::new();
    for fact in wanted {
        if !found.iter().chain(&lost).any(|known| known.is_same(&fact)) {
            lost.push(fact);
        }
    }
    lost
}

struct Facts {
    list: Vec<Fact>,
    interface: String,
    name: String,
}

impl Facts {
    fn of(&mut self, interface: &str, name: &str) {
        interface.clone_into(&mut self.interface);
        name.clone_into(&mut self.name);
    }

    fn add(&mut self, text: impl Into<String>) {
        self.list.push(Fact {
            interface: self.interface.clone(),
            name: self.name.clone(),
            text: text.into(),
        });
    }

    fn extend(&mut self, texts: impl IntoIterator<Item = String>) {
        for text in texts {
            self.add(text);
        }
    }
}

/// All settings of the plan. `names` has the interfaces' names in the form.
pub(super) fn facts(plan: &NetworkPlan, names: &Names) -> Vec<Fact> {
    let NetworkPlan {
        host_name,
        carrier_timeout,
        global_dns,
        interfaces,
        rules,
        installed,
        warnings: _,
    } = plan;
    let mut facts = Facts {
        list: Vec::new(),
        interface: String::new(),
        name: String::new(),
    };
    for (index, interface) in interfaces.iter().enumerate() {
        for (form_name, name) in names.of(index) {
            facts.of(&form_name, &name);
            of_interface(interface, names, names.macs(index), &mut facts);
        }
    }
    for interface in installed {
        let name = interface.matches.to_string();
        facts.of(&name, &name);
        facts.add("an interface of the installed system");
    }
    facts.of("", "");
    facts.extend(host_name.iter().map(|name| format!("host name {name}")));
    let waiting = carrier_timeout.map(|seconds| format!("{seconds} s to wait for a carrier"));
    facts.extend(waiting);
    facts.extend(global_dns.iter().map(dns_server));
    facts.extend(rules.iter().map(|rule| format!("rule: {rule}")));
    facts.list
}

/// Adds the settings of an interface. `own_macs` are the addresses that it has if the
/// plan sets none.
fn of_interface(interface: &Interface, names: &Names, own_macs: &[MacAddr], facts: &mut Facts) {
    let Interface {
        matches: _,
        kind,
        multi: _,
        controller,
        port_number: _,
        mtu,
        set_mac,
        ethtool,
        needed: _,
        priority: _,
        down,
        ipv4,
        ipv6,
        profile,
    } = interface;
    if *down {
        return;
    }
    of_kind(kind, names, facts);
    if let Some(controller) = controller {
        facts.add(format!("port of {}", names.controller(controller)));
    }
    if let Some(mtu) = mtu {
        facts.add(format!("MTU {mtu}"));
    }
    match set_mac {
        // Most documents give the address that the NIC already has.
        Some(ClonedMac::Address(mac)) if own_macs.contains(mac) => {}
        Some(ClonedMac::Address(mac)) => facts.add(format!("MAC set to {mac}")),
        Some(word) => facts.add(format!("{word} MAC")),
        None => {}
    }
    if let Some(Ethtool { autoneg, speed }) = ethtool {
        let negotiation = if *autoneg { "on" } else { "off" };
        let speed = speed.map(|speed| format!(", {speed} Mbit/s"));
        let speed = speed.unwrap_or_default();
        facts.add(format!("autonegotiation {negotiation}{speed}"));
    }
    let families = [
        ("IPv4", "DHCP", ipv4),
        ("IPv6", "router advertisements", ipv6),
    ];
    for (family, automatic, ip) in families {
        if let Some(ip) = ip {
            of_family(family, automatic, ip, facts);
        }
    }
    let of_link = { profile.settings.iter() }
        .filter(|(section, _)| !SECTIONS_WITHOUT_EFFECT.contains(*section))
        .flat_map(|(_, keys)| keys.keys());
    let of_families = interface.families().flat_map(|ip| ip.settings.keys());
    let keys = of_link.chain(of_families);
    for key in keys.filter(|key| !WITHOUT_EFFECT.contains(&key.as_str())) {
        facts.add(format!("{key} for NetworkManager"));
    }
}

fn of_kind(kind: &InterfaceKind, names: &Names, facts: &mut Facts) {
    match kind {
        InterfaceKind::Ethernet | InterfaceKind::Loopback => {}
        InterfaceKind::Vlan {
            id,
            parent,
            parent_mac,
            service,
        } => {
            let parent = names.below(parent.as_deref(), *parent_mac);
            facts.add(describe::vlan(*id, *service, Some(&parent)));
        }
        InterfaceKind::Bond { options } => {
            for (option, value) in options {
                facts.add(format!("bond option {option}={value}"));
            }
        }
        InterfaceKind::Team { bond_mode } => facts.add(format!("bond option mode={bond_mode}")),
        InterfaceKind::Bridge { .. } => facts.add("bridge"),
        InterfaceKind::Infiniband { parent, p_key, .. } => {
            if let (Some(parent), Some(key)) = (parent, p_key) {
                facts.add(format!("partition {key:04x} of {parent}"));
            }
        }
        InterfaceKind::Vrf { table } => facts.add(format!("VRF with table {table}")),
        InterfaceKind::MacVlan { tap: true, .. } => facts.add("MAC-VTAP"),
        InterfaceKind::MacVlan { .. } => facts.add("MAC-VLAN"),
        InterfaceKind::IpVlan { .. } => facts.add("IPVLAN"),
        InterfaceKind::Veth { peer } => facts.add(format!("virtual cable to {peer}")),
        InterfaceKind::OpenVswitch { profile_type } => facts.add(*profile_type),
    }
}

fn of_family(family: &str, automatic: &str, ip: &IpPlan, facts: &mut Facts) {
    let IpPlan {
        method,
        addresses,
        gateway,
        dns,
        search,
        routes,
        required: _,
        required_timeout_ms: _,
        automatic: details,
        settings: _,
    } = ip;
    match method {
        Method::Auto => facts.add(format!("{family} by {automatic}")),
        Method::Dhcp => facts.add(format!("{family} by DHCP")),
        Method::LinkLocal => facts.add(format!("{family} link-local address")),
        Method::Manual | Method::Disabled => {}
    }
    if method.is_automatic() {
        of_automatic(family, details, facts);
    }
    facts.extend(addresses.iter().map(|address| format!("address {address}")));
    facts.extend(gateway.map(|gateway| format!("gateway {gateway}")));
    for route in routes {
        facts.add(match (is_default(route), route.via) {
            (true, Some(via)) => format!("gateway {via}"),
            _ => of_route(route),
        });
    }
    let has_routes = method.is_automatic() || gateway.is_some() || !routes.is_empty();
    if let Some(table) = details.table.filter(|table| *table != MAIN_TABLE)
        && has_routes
    {
        facts.add(format!("{family} routes in table {table}"));
    }
    // All interfaces share one resolver, so DNS settings belong to the whole machine.
    let (interface, name) = (facts.interface.clone(), facts.name.clone());
    facts.of("", "");
    facts.extend(dns.iter().map(dns_server));
    facts.extend(
        search
            .iter()
            .map(|domain| format!("search domain {domain}")),
    );
    facts.of(&interface, &name);
}

fn of_automatic(family: &str, details: &Automatic, facts: &mut Facts) {
    let Automatic {
        ignore_dns,
        ignore_routes,
        never_default,
        // The form makes only one interface with addresses, so a metric makes no
        // difference.
        metric: _,
        table: _,
        // Like `required`, this only sets how long the system waits.
        timeout: _,
        host_name,
        client_id,
        vendor_class,
        dscp,
        mode: _,
    } = details;
    for (is_set, what) in [
        (*ignore_dns, "no DNS servers from the network"),
        (*ignore_routes, "no routes from the network"),
        (*never_default, "no default route"),
        (client_id.is_some(), "DHCP client identifier"),
    ] {
        if is_set {
            facts.add(format!("{family}: {what}"));
        }
    }
    let details = [
        host_name
            .as_ref()
            .map(|name| format!("host name {name} for DHCP")),
        vendor_class
            .as_ref()
            .map(|class| format!("DHCP vendor class {}", class.text())),
        dscp.map(|code| format!("DSCP {code} of DHCP packets")),
    ];
    let details = details.into_iter().flatten();
    facts.extend(details.map(|what| format!("{family}: {what}")));
}

fn dns_server(server: &IpAddr) -> String {
    format!("DNS server {server}")
}

fn of_route(route: &Route) -> String {
    let Route {
        destination,
        via,
        kind,
        metric: _,
        table,
        options,
    } = route;
    let way = match (kind, via) {
        (RouteKind::Unicast, Some(via)) => format!("via {via}"),
        (RouteKind::Unicast, None) => "on the link".to_owned(),
        (RouteKind::Blackhole, _) => "to a blackhole".to_owned(),
        (RouteKind::Unreachable, _) => "is unreachable".to_owned(),
        (RouteKind::Prohibit, _) => "is prohibited".to_owned(),
    };
    let table = table.filter(|table| *table != MAIN_TABLE);
    let table = table.map(|table| format!(" in table {table}"));
    let options = options
        .iter()
        .map(|(name, value)| format!(" {name}={value}"));
    let options: String = options.collect();
    format!(
        "route {destination} {way}{}{options}",
        table.unwrap_or_default()
    )
}
