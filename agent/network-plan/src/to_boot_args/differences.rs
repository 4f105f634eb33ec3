//! Compares a plan with the plan that its arguments give, and lists the
//! differences.

use crate::plan::{Automatic, Interface, InterfaceKind, IpPlan, NetworkPlan, USUAL_DHCP_TIMEOUT};

/// One line for each setting of `wanted` that is missing or different in `found`, and for
/// each interface that only `found` has. Does not compare the rules and the interfaces of
/// the installed system.
pub(super) fn between(wanted: &NetworkPlan, found: &NetworkPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let mut check = |is_same: bool, what: &str| {
        if !is_same {
            lines.push(what.to_owned());
        }
    };
    check(wanted.host_name == found.host_name, "host name");
    check(
        wanted.carrier_timeout == found.carrier_timeout,
        "time to wait for a carrier",
    );
    check(
        wanted.global_dns == found.global_dns,
        "DNS for every interface",
    );
    let mut rest: Vec<Interface> = found.interfaces.iter().map(normal).collect();
    for interface in &wanted.interfaces {
        let interface = normal(interface);
        let is_same = |found: &Interface| found.matches == interface.matches;
        match rest.iter().position(is_same) {
            Some(index) => {
                let found = rest.remove(index);
                let name = &interface.matches;
                let lost = of_interface(&interface, &found).into_iter();
                lines.extend(lost.map(|what| format!("{name}: {what}")));
            }
            None => lines.push(format!("{}: no argument creates it", interface.matches)),
        }
    }
    let added = rest.iter().map(|found| &found.matches);
    lines.extend(added.map(|name| format!("{name}: the arguments configure it as well")));
    lines
}

/// The interface without the details that have no effect.
fn normal(interface: &Interface) -> Interface {
    let mut interface = interface.clone();
    // The arguments identify the boot NIC by its address instead of `BOOTIF=`, so they do
    // not express its low priority and its profile name.
    if std::mem::take(&mut interface.priority) < 0 {
        interface.profile.id = None;
    }
    // An interface with a hardware address applies to one device only.
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

fn of_interface(wanted: &Interface, found: &Interface) -> Vec<String> {
    let mut list = Vec::new();
    let mut check = |is_same: bool, what: &str| {
        if !is_same {
            list.push(what.to_owned());
        }
    };
    check(wanted.kind == found.kind, "type, or an option of it");
    check(
        wanted.multi == found.multi,
        "whether it applies to several NICs",
    );
    check(wanted.controller == found.controller, "controller");
    check(wanted.mtu == found.mtu, "MTU");
    check(wanted.set_mac == found.set_mac, "hardware address");
    check(wanted.ethtool == found.ethtool, "autonegotiation and speed");
    check(
        wanted.needed == found.needed,
        "whether the system waits for it",
    );
    for (family, wanted, found) in [
        ("IPv4", &wanted.ipv4, &found.ipv4),
        ("IPv6", &wanted.ipv6, &found.ipv6),
    ] {
        match (wanted, found) {
            (Some(wanted), Some(found)) => {
                let lost = of_family(wanted, found).into_iter();
                list.extend(lost.map(|what| format!("{family}: {what}")));
            }
            (None, None) => {}
            _ => list.push(format!("{family}: whether it is configured")),
        }
    }
    if list.is_empty() && wanted != found {
        list.push("a setting that no argument expresses".to_owned());
    }
    list
}

fn of_family(wanted: &IpPlan, found: &IpPlan) -> Vec<&'static str> {
    let (wanted_auto, found_auto) = (&wanted.automatic, &found.automatic);
    let all = [
        (wanted.method == found.method, "source of addresses"),
        (wanted.addresses == found.addresses, "addresses"),
        (wanted.gateway == found.gateway, "gateway"),
        (wanted.dns == found.dns, "DNS servers"),
        (wanted.routes == found.routes, "routes"),
        (wanted.required == found.required, "whether it is required"),
        (
            wanted.required_timeout_ms == found.required_timeout_ms,
            "how long the system waits for it",
        ),
        (
            wanted_auto.ignore_dns == found_auto.ignore_dns,
            "whether DNS servers from the network are used",
        ),
        (
            wanted_auto.timeout == found_auto.timeout,
            "time limit of DHCP",
        ),
        (
            wanted_auto.host_name == found_auto.host_name,
            "host name for DHCP",
        ),
        (
            wanted_auto.client_id == found_auto.client_id,
            "DHCP client identifier",
        ),
        (
            wanted_auto.vendor_class == found_auto.vendor_class,
            "DHCP vendor class",
        ),
        (wanted_auto.dscp == found_auto.dscp, "DSCP of DHCP packets"),
    ];
    // If the methods differ, the settings after the first five cannot be compared.
    let is_same_method = wanted.method == found.method;
    let comparable = if is_same_method { &all[..] } else { &all[..5] };
    let lost = comparable.iter().filter(|(is_same, _)| !is_same);
    let mut lost: Vec<_> = lost.map(|(_, what)| *what).collect();
    if lost.is_empty() && wanted != found {
        lost.push("a setting that no argument expresses");
    }
    lost
}
