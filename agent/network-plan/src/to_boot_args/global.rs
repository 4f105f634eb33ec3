//! Writes the arguments for the machine as a whole.

use super::interface::device;
use crate::plan::{Interface, InterfaceKind, IpPlan, NetworkPlan, USUAL_DHCP_TIMEOUT};

/// The value of `rd.net.timeout.ip-required`, in milliseconds, if no argument sets it.
const IP_REQUIRED_TIMEOUT_MS: u32 = 20_000;
/// The longest time, written as `infinity`.
const INFINITY: u32 = i32::MAX as u32;

/// Timeouts, DHCP identity and DNS. The arguments have one value for all interfaces:
/// the value of the first interface that sets it.
pub(super) fn arguments(plan: &NetworkPlan) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut add = |name: &str, value: &str| arguments.push(format!("{name}={value}"));
    let asked = || automatic(plan);
    if let Some(seconds) = plan.carrier_timeout {
        add("rd.net.timeout.carrier", &seconds.to_string());
    }
    match asked().find_map(|ip| ip.automatic.timeout) {
        None | Some(USUAL_DHCP_TIMEOUT) => {}
        Some(INFINITY) => add("rd.net.timeout.dhcp", "infinity"),
        Some(seconds) => add("rd.net.timeout.dhcp", &seconds.to_string()),
    }
    match asked().find_map(|ip| ip.required_timeout_ms) {
        None | Some(IP_REQUIRED_TIMEOUT_MS) => {}
        Some(INFINITY) => add("rd.net.timeout.ip-required", "infinity"),
        Some(ms) => add("rd.net.timeout.ip-required", &(ms / 1000).to_string()),
    }
    if asked().any(|ip| ip.automatic.ignore_dns) {
        add("rd.peerdns", "0");
    }
    if let Some(class) = asked().find_map(|ip| ip.automatic.vendor_class.as_ref()) {
        add("rd.net.dhcp.vendor-class", class.text());
    }
    if let Some(code) = asked().find_map(|ip| ip.automatic.dscp) {
        // Class selectors are the upper three bits (RFC 2474, 4.2.2).
        add("rd.net.dhcp.dscp", &format!("CS{}", code >> 3));
    }
    for server in &plan.global_dns {
        add("rd.net.dns", &server.to_string());
    }
    arguments
}

/// The argument that makes the boot wait for all NICs, or for the first one that the plan
/// needs. `None` if the plan needs no NIC.
pub(super) fn waiting(plan: &NetworkPlan) -> Option<String> {
    let is_nic = |interface: &&Interface| interface.kind == InterfaceKind::Ethernet;
    let nics: Vec<_> = plan.interfaces.iter().filter(is_nic).collect();
    let mut needed = nics.iter().filter(|interface| interface.needed);
    let first = needed.next()?;
    if nics.iter().all(|interface| interface.needed) {
        return Some("rd.neednet=1".to_owned());
    }
    let device = device(first).filter(|device| !device.is_empty())?;
    Some(format!("bootdev={device}"))
}

fn automatic(plan: &NetworkPlan) -> impl Iterator<Item = &IpPlan> {
    let families = plan.interfaces.iter().flat_map(Interface::families);
    families.filter(|ip| ip.method.is_automatic())
}
