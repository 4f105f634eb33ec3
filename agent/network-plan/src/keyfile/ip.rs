//! Writes the sections `ipv4` and `ipv6`.
//!
//! The DHCP identifiers are those that OpenShift's images set and that the ramdisk
//! uses. So a lease that is reserved for the host applies to both systems.

use std::net::IpAddr;

use super::sections::Sections;
use crate::plan::{IpPlan, Method, Route};

/// NetworkManager's value for no time limit.
const FOREVER: i32 = i32::MAX;
const KERNEL_METRIC_IPV6: u32 = 1024;

impl Sections {
    /// Writes one family. Without a plan the family is off.
    pub(super) fn ip(&mut self, family: &'static str, ip: Option<&IpPlan>) {
        let Some(ip) = ip else {
            self.add(family, "method", "disabled");
            return self.add(family, "dhcp-timeout", FOREVER);
        };
        let is_ipv4 = family == "ipv4";
        self.add(family, "method", method_name(ip.method, is_ipv4));
        for (index, address) in ip.addresses.iter().enumerate() {
            self.add(family, &format!("address{index}"), address);
        }
        if let Some(gateway) = ip.gateway {
            self.add(family, "gateway", gateway);
        }
        for (index, route) in ip.routes.iter().enumerate() {
            self.add(family, &format!("route{index}"), route_text(route, is_ipv4));
            let options = route.options_text();
            if !options.is_empty() {
                self.add(family, &format!("route{index}_options"), options);
            }
        }
        self.add(family, "dns", joined(&ip.dns));
        self.add(family, "dns-search", joined(&ip.search));
        if ip.required {
            self.add(family, "may-fail", false);
        }
        // The same address as in the ramdisk: the kernel derives it from the
        // hardware address.
        if !is_ipv4 && ip.method != Method::Disabled {
            self.add(family, "addr-gen-mode", 0);
        }
        if ip.method.is_automatic() {
            self.automatic(family, ip, is_ipv4);
        } else {
            self.add(family, "dhcp-timeout", FOREVER);
        }
        for (key, value) in &ip.settings {
            self.add(family, key, value);
        }
    }

    fn automatic(&mut self, family: &'static str, ip: &IpPlan, is_ipv4: bool) {
        let automatic = &ip.automatic;
        self.add(family, "ignore-auto-dns", automatic.ignore_dns);
        self.add(family, "ignore-auto-routes", automatic.ignore_routes);
        self.add(family, "never-default", automatic.never_default);
        self.add(family, "dhcp-send-hostname", true);
        if let Some(metric) = automatic.metric {
            self.add(family, "route-metric", metric);
        }
        if let Some(seconds) = automatic.timeout {
            self.add(family, "dhcp-timeout", seconds);
        }
        if let Some(name) = &automatic.host_name {
            // A name with a domain belongs in another option (RFC 4702).
            let is_full = is_ipv4 && name.contains('.');
            let key = if is_full {
                "dhcp-fqdn"
            } else {
                "dhcp-hostname"
            };
            self.add(family, key, name);
        }
        if is_ipv4 {
            let id = automatic.client_id_text();
            self.add(family, "dhcp-client-id", id.as_deref().unwrap_or("mac"));
        } else {
            self.add(family, "dhcp-duid", "ll");
            self.add(family, "dhcp-iaid", "mac");
        }
        if let Some(class) = automatic.vendor_class.as_ref().filter(|_| is_ipv4) {
            // GLib reads a backslash as the start of an escape.
            let text = class.text().replace('\\', r"\\");
            self.add(family, "dhcp-vendor-class-identifier", text);
        }
    }
}

/// Writes a route as `10.0.0.0/8,192.0.2.1,100`, or as `10.0.0.0/8,,100` if it has no
/// next hop.
fn route_text(route: &Route, is_ipv4: bool) -> String {
    let destination = route.destination.network();
    let via = route.via.map(|via| via.to_string());
    // Without a metric, a route from NMState (which always has a table) means the
    // kernel's metric. A route from another source means NetworkManager's metric,
    // which depends on the device.
    let kernel_metric = if is_ipv4 { 0 } else { KERNEL_METRIC_IPV6 };
    let metric = route.metric.or(route.table.map(|_| kernel_metric));
    match (via, metric) {
        (Some(via), Some(metric)) => format!("{destination},{via},{metric}"),
        (None, Some(metric)) => format!("{destination},,{metric}"),
        (Some(via), None) => format!("{destination},{via}"),
        (None, None) => {
            let unspecified = match destination.address {
                IpAddr::V4(_) => "0.0.0.0",
                IpAddr::V6(_) => "::",
            };
            format!("{destination},{unspecified}")
        }
    }
}

fn joined(items: &[impl ToString]) -> String {
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    items.join(";")
}

fn method_name(method: Method, is_ipv4: bool) -> &'static str {
    match method {
        // Only IPv6 has DHCP without router advertisements.
        Method::Dhcp if !is_ipv4 => "dhcp",
        Method::Auto | Method::Dhcp => "auto",
        Method::Manual => "manual",
        Method::LinkLocal => "link-local",
        Method::Disabled => "disabled",
    }
}
