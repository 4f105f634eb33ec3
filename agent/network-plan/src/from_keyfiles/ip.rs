//! Reads the sections `ipv4` and `ipv6`.

use std::net::IpAddr;

use landfall_boot_params::dracut_net::VendorClass;

use super::ip_fields::{Fields, address, route_metric};
use super::keys::Keys;
use super::route;
use crate::ip_plan::client_id_bytes;
use crate::plan::{InterfaceKind, IpPlan, Method};

/// The maximum number of addresses of a family; more are a fault. No host has as many on
/// one link.
const MOST_ADDRESSES: usize = 256;
/// The number with which a profile asks for NetworkManager's default.
const DEFAULT: i64 = -1;

/// Reads one family. Without its section NetworkManager configures the family
/// automatically, except for the loopback interface.
pub(super) fn read(keys: &Keys, is_ipv4: bool, kind: &InterfaceKind) -> IpPlan {
    let section = if is_ipv4 { "ipv4" } else { "ipv6" };
    let mut plan = IpPlan::new(Method::Auto);
    addresses(keys, section, is_ipv4, &mut plan);
    plan.method = method(keys, section, is_ipv4, kind, &plan);
    let gateway = keys.text(section, "gateway");
    if let Some(address) = gateway.and_then(|text| address(keys, section, "gateway", text, is_ipv4))
    {
        plan.gateway = Some(address);
    }
    plan.gateway = plan.gateway.filter(|gateway| !gateway.is_unspecified());
    plan.dns = dns(keys, section, is_ipv4);
    plan.search = search(keys, section);
    plan.routes = route::read_all(keys, section, is_ipv4);
    needs_address(keys, section);
    let is_required = keys.flag(section, "may-fail") == Some(false);
    plan.required = is_required && plan.method != Method::Disabled;
    let timeout = keys.number(section, "required-timeout", DEFAULT..=i32::MAX.into());
    plan.required_timeout_ms = timeout.and_then(|ms| u32::try_from(ms).ok());
    automatic(keys, section, is_ipv4, &mut plan);
    apply_never_default(keys, section, &mut plan);
    warn_of_differences(keys, section, is_ipv4, &plan);
    plan
}

fn method(
    keys: &Keys,
    section: &str,
    is_ipv4: bool,
    kind: &InterfaceKind,
    plan: &IpPlan,
) -> Method {
    match keys.text(section, "method") {
        Some("auto") => Method::Auto,
        Some("dhcp") if !is_ipv4 => Method::Dhcp,
        Some("manual") => Method::Manual,
        Some("link-local") => Method::LinkLocal,
        Some("disabled") => Method::Disabled,
        Some("ignore") if !is_ipv4 => {
            keys.warn(section, "method", "the ramdisk switches IPv6 off");
            Method::Disabled
        }
        Some("shared") => {
            let words = "the ramdisk shares no connection; it only has the addresses";
            keys.warn(section, "method", words);
            match plan.addresses.is_empty() {
                true => Method::Disabled,
                false => Method::Manual,
            }
        }
        Some(other) => {
            let expected = match is_ipv4 {
                true => "auto, manual, link-local, shared or disabled",
                false => "auto, dhcp, manual, link-local, shared, ignore or disabled",
            };
            keys.expected(section, "method", expected, other);
            Method::Disabled
        }
        None if !plan.addresses.is_empty() => Method::Manual,
        None if *kind == InterfaceKind::Loopback => Method::Disabled,
        None => Method::Auto,
    }
}

/// Reports `method=manual` without an address and without a route, because NetworkManager
/// rejects such a profile (`verify` in nm-setting-ip4-config.c, git of 2026-08).
fn needs_address(keys: &Keys, section: &str) {
    let has = |names: &[&str]| !keys.numbered(section, names).is_empty();
    let is_manual = keys.text(section, "method") == Some("manual");
    if is_manual && !has(&["address", "addresses"]) && !has(&["route", "routes"]) {
        let words = "expected an address or a route for method=manual, found none";
        keys.fault(section, "method", words);
    }
}

/// Reads keys such as `address1=192.0.2.10/24,192.0.2.1`: an address and, optionally, the
/// gateway.
fn addresses(keys: &Keys, section: &str, is_ipv4: bool, plan: &mut IpPlan) {
    let found = keys.numbered(section, &["address", "addresses"]);
    if found.len() > MOST_ADDRESSES {
        let words = format!(
            "expected at most {MOST_ADDRESSES} addresses, found {}",
            found.len()
        );
        return keys.fault(section, "address", words);
    }
    for key in found {
        let text = keys.text(section, key).unwrap_or_default();
        let fields = Fields::split(text).filter(|fields| fields.metric.is_none());
        let default = if is_ipv4 { 24 } else { 64 };
        let prefix = { fields.as_ref() }.and_then(|f| f.prefix(keys, section, key, default));
        let prefix = prefix.filter(|prefix| prefix.address.is_ipv4() == is_ipv4);
        let (Some(fields), Some(prefix)) = (fields, prefix) else {
            let expected = match is_ipv4 {
                true => "an IPv4 address and its prefix length such as 192.0.2.10/24",
                false => "an IPv6 address and its prefix length such as 2001:db8::10/64",
            };
            keys.expected(section, key, expected, text);
            continue;
        };
        plan.addresses.push(prefix);
        if let Some(text) = fields.via {
            let found = address(keys, section, key, text, is_ipv4);
            plan.gateway = plan.gateway.or(found);
        }
    }
}

/// Reads the DNS servers. After `#`, a server may have the name in its certificate for
/// DNS over TLS. The ramdisk does not use DNS over TLS.
fn dns(keys: &Keys, section: &str, is_ipv4: bool) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for item in keys.list(section, "dns") {
        if item.contains("://") {
            let words =
                format!("the ramdisk has no DNS over TLS or other transports; {item} is ignored");
            keys.warn(section, "dns", words);
            continue;
        }
        if item.contains('%') {
            let words = format!("the ramdisk has no DNS servers with a scope; {item} is ignored");
            keys.warn(section, "dns", words);
            continue;
        }
        let server = match item.split_once('#') {
            Some((server, _)) => {
                let words = "the ramdisk has no DNS over TLS; it asks the server without it";
                keys.warn(section, "dns", words);
                server
            }
            None => item.as_str(),
        };
        servers.extend(address(keys, section, "dns", server, is_ipv4));
    }
    servers
}

fn search(keys: &Keys, section: &str) -> Vec<String> {
    let mut domains = keys.list(section, "dns-search");
    domains.retain(|domain| {
        let only_routes = domain.starts_with('~');
        if only_routes {
            let words =
                format!("the ramdisk sends all names to all DNS servers; {domain} is ignored");
            keys.warn(section, "dns-search", words);
        }
        !only_routes
    });
    domains
}

fn automatic(keys: &Keys, section: &str, is_ipv4: bool, plan: &mut IpPlan) {
    let automatic = &mut plan.automatic;
    automatic.ignore_dns = keys.flag(section, "ignore-auto-dns") == Some(true);
    automatic.ignore_routes = keys.flag(section, "ignore-auto-routes") == Some(true);
    automatic.never_default = keys.flag(section, "never-default") == Some(true);
    let table = keys.unsigned(section, "route-table", u32::MAX);
    automatic.metric = route_metric(keys, section);
    // Zero means NetworkManager's default.
    automatic.table = table.filter(|table| *table != 0);
    if automatic.table.is_some() && plan.method.is_automatic() && !is_ipv4 {
        let words = "the ramdisk puts the routes of router advertisements into the main table";
        keys.warn(section, "route-table", words);
    }
    // Zero means NetworkManager's default.
    let timeout = keys.number(section, "dhcp-timeout", 0..=i32::MAX.into());
    let timeout = timeout.and_then(|seconds| u32::try_from(seconds).ok());
    automatic.timeout = timeout.filter(|seconds| *seconds != 0);
    let names: &[&'static str] = match is_ipv4 {
        true => &["dhcp-fqdn", "dhcp-hostname"],
        false => &["dhcp-hostname"],
    };
    if keys.flag(section, "dhcp-send-hostname") != Some(false) {
        let key = keys.first_of(section, names);
        automatic.host_name = key.and_then(|key| keys.string(section, key));
    }
    if !is_ipv4 {
        return;
    }
    if let Some(text) = keys.string(section, "dhcp-client-id") {
        automatic.client_id = client_id(keys, section, &text);
    }
    if let Some(text) = keys.string(section, "dhcp-vendor-class-identifier") {
        match VendorClass::parse(&text) {
            Ok(class) => automatic.vendor_class = Some(class),
            Err(error) => keys.fault(section, "dhcp-vendor-class-identifier", error),
        }
    }
    automatic.dscp = match keys.text(section, "dhcp-dscp") {
        Some("CS0") => Some(0),
        Some("CS4") => Some(32),
        Some("CS6") => Some(48),
        Some(other) => {
            keys.expected(section, "dhcp-dscp", "CS0, CS4 or CS6", other);
            None
        }
        None => None,
    };
}

/// Removes the gateway if the family never gets a default route, as NetworkManager does
/// (_normalize_ip_config in nm-connection.c).
fn apply_never_default(keys: &Keys, section: &str, plan: &mut IpPlan) {
    if plan.automatic.never_default
        && let Some(gateway) = plan.gateway.take()
    {
        let words = format!("gateway {gateway} is ignored, as in NetworkManager");
        keys.warn(section, "never-default", words);
    }
}

/// The client identifier, in bytes. `None` means the ramdisk's default, which is made
/// from the hardware address.
fn client_id(keys: &Keys, section: &str, text: &str) -> Option<Vec<u8>> {
    match text {
        "mac" | "perm-mac" => None,
        "duid" | "ipv6-duid" | "stable" | "none" => {
            let words = "the ramdisk uses the hardware address";
            keys.warn(section, "dhcp-client-id", words);
            None
        }
        other => Some(client_id_bytes(other)),
    }
}

/// Warns if the ramdisk generates IPv6 addresses or the DUID in another way than the
/// profile asks for.
fn warn_of_differences(keys: &Keys, section: &str, is_ipv4: bool, plan: &IpPlan) {
    if is_ipv4 || plan.method == Method::Disabled {
        return;
    }
    let mode = keys.text(section, "addr-gen-mode");
    // nmcli writes `default`, which leaves the choice to each system.
    let same = ["0", "eui64", "default", "default-or-eui64"];
    if mode.is_some_and(|mode| !same.contains(&mode)) {
        keys.warn(
            section,
            "addr-gen-mode",
            "the ramdisk uses an eui64 address",
        );
    }
    if keys.text(section, "token").is_some() {
        keys.warn(section, "token", "the ramdisk uses an eui64 address");
    }
    let duid = keys.text(section, "dhcp-duid");
    if plan.method.is_automatic() && duid.is_some_and(|duid| duid != "ll") {
        keys.warn(section, "dhcp-duid", "the ramdisk uses ll");
    }
}
