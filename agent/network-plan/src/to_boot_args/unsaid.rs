//! Compares a plan with the plan that its arguments give, and lists the
//! differences.

use crate::plan::{Automatic, Interface, InterfaceKind, IpPlan, NetworkPlan, USUAL_DHCP_TIMEOUT};

/// One line for each setting of `wanted` that `said` does not have in the same
/// form.
pub(super) fn differences(wanted: &NetworkPlan, said: &NetworkPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let mut check = |is_same: bool, what: &str| {
        if !is_same {
            lines.push(what.to_owned());
        }
    };
    check(wanted.host_name == said.host_name, "host name");
    check(
        wanted.carrier_timeout == said.carrier_timeout,
        "time to wait for a carrier",
    );
    check(
        wanted.global_dns == said.global_dns,
        "DNS for every interface",
    );
    let mut rest: Vec<Interface> = said.interfaces.iter().map(normal).collect();
    for interface in &wanted.interfaces {
        let interface = normal(interface);
        let is_same = |said: &Interface| said.matches == interface.matches;
        match rest.iter().position(is_same) {
            Some(index) => {
                let said = rest.remove(index);
                let name = &interface.matches;
                let found = of_interface(&interface, &said).into_iter();
                lines.extend(found.map(|what| format!("{name}: {what}")));
            }
            None => lines.push(format!("{}: no argument creates it", interface.matches)),
        }
    }
    let added = rest.iter().map(|said| &said.matches);
    lines.extend(added.map(|name| format!("{name}: the arguments configure it as well")));
    lines
}

/// The interface without details that make no difference.
fn normal(interface: &Interface) -> Interface {
    let mut interface = interface.clone();
    // An argument for the NIC itself replaces `BOOTIF=`.
    if std::mem::take(&mut interface.last_choice) {
        interface.profile.id = None;
    }
    // An interface with an address is for one device in any case.
    interface.multi &= interface.matches.mac.is_none();
    if let InterfaceKind::Bridge { stp } = &mut interface.kind {
        stp.get_or_insert(false);
    }
    for ip in interface.families_mut() {
        if ip.method.is_automatic() {
            ip.automatic.timeout.get_or_insert(USUAL_DHCP_TIMEOUT);
            // Only informative, since the router advertisements decide.
            ip.automatic.mode = None;
        } else {
            ip.automatic = Automatic::default();
            ip.required_timeout_ms = None;
        }
    }
    interface
}

fn of_interface(wanted: &Interface, said: &Interface) -> Vec<String> {
    let mut list = Vec::new();
    let mut check = |is_same: bool, what: &str| {
        if !is_same {
            list.push(what.to_owned());
        }
    };
    check(wanted.kind == said.kind, "type, or an option of it");
    check(
        wanted.multi == said.multi,
        "whether it applies to several NICs",
    );
    check(wanted.controller == said.controller, "controller");
    check(wanted.mtu == said.mtu, "MTU");
    check(wanted.set_mac == said.set_mac, "hardware address");
    check(wanted.ethtool == said.ethtool, "autonegotiation and speed");
    check(
        wanted.needed == said.needed,
        "whether the system waits for it",
    );
    for (family, wanted, said) in [
        ("IPv4", &wanted.ipv4, &said.ipv4),
        ("IPv6", &wanted.ipv6, &said.ipv6),
    ] {
        match (wanted, said) {
            (Some(wanted), Some(said)) => {
                let found = of_family(wanted, said).into_iter();
                list.extend(found.map(|what| format!("{family}: {what}")));
            }
            (None, None) => {}
            _ => list.push(format!("{family}: whether it is configured")),
        }
    }
    if list.is_empty() && wanted != said {
        list.push("a setting that no argument expresses".to_owned());
    }
    list
}

fn of_family(wanted: &IpPlan, said: &IpPlan) -> Vec<&'static str> {
    let (asked, told) = (&wanted.automatic, &said.automatic);
    let all = [
        (wanted.method == said.method, "source of addresses"),
        (wanted.addresses == said.addresses, "addresses"),
        (wanted.gateway == said.gateway, "gateway"),
        (wanted.dns == said.dns, "DNS servers"),
        (wanted.routes == said.routes, "routes"),
        (wanted.required == said.required, "whether it is required"),
        (
            wanted.required_timeout_ms == said.required_timeout_ms,
            "how long the system waits for it",
        ),
        (
            asked.ignore_dns == told.ignore_dns,
            "whether DNS servers from the network are used",
        ),
        (asked.timeout == told.timeout, "time limit of DHCP"),
        (asked.host_name == told.host_name, "host name for DHCP"),
        (asked.client_id == told.client_id, "DHCP client identifier"),
        (asked.vendor_class == told.vendor_class, "DHCP vendor class"),
        (asked.dscp == told.dscp, "DSCP of DHCP packets"),
    ];
    // If the methods differ, the settings after the first five cannot be compared.
    let is_same_method = wanted.method == said.method;
    let comparable = if is_same_method { &all[..] } else { &all[..5] };
    let found = comparable.iter().filter(|(is_same, _)| !is_same);
    let mut found: Vec<_> = found.map(|(_, what)| *what).collect();
    if found.is_empty() && wanted != said {
        found.push("a setting that no argument expresses");
    }
    found
}
