//! Reads `ipv4` and `ipv6` of an interface.

use std::net::{IpAddr, Ipv6Addr};

use landfall_boot_params::{IpPrefix, longest_prefix};

use super::family::{FOREVER, Family};
use super::fields::Fields;
use super::yaml::Yaml;
use crate::ip_plan::client_id_bytes;
use crate::plan::Method;

/// The maximum number of addresses of a family; more are a fault. No host has as many on
/// one link.
const MOST_ADDRESSES: usize = 256;
/// nmstate's value for a metric that it does not set.
const DEFAULT_METRIC: i64 = -1;

const KEYS: &[&str] = &[
    "enabled",
    "dhcp",
    "address",
    "dhcp-client-id",
    "dhcp-duid",
    "auto-dns",
    "auto-gateway",
    "auto-routes",
    "auto-route-table-id",
    "auto-route-metric",
    "addr-gen-mode",
    "allow-extra-address",
    "token",
    "dhcp-send-hostname",
    "dhcp-custom-hostname",
];
const ADDRESS_KEYS: &[&str] = &[
    "ip",
    "prefix-length",
    "mptcp-flags",
    "valid-life-time",
    "valid-left",
    "valid-lft",
    "preferred-life-time",
    "preferred-left",
    "preferred-lft",
    "protocol",
];

pub(super) fn read(interface: &Fields, is_ipv4: bool) -> Family {
    let mut family = Family::default();
    let (key, own): (_, &[&str]) = if is_ipv4 {
        ("ipv4", &["forwarding", "prefix-route-metric"])
    } else {
        ("ipv6", &["autoconf"])
    };
    let keys: Vec<&str> = KEYS.iter().chain(own).copied().collect();
    let Some(fields) = interface.child(key, &keys) else {
        return family;
    };
    family.enabled = fields.flag("enabled").unwrap_or(false);
    let addresses = addresses(&fields, is_ipv4);
    let dhcp = fields.flag("dhcp") == Some(true) && family.enabled;
    let autoconf = if is_ipv4 {
        None
    } else {
        fields.flag("autoconf")
    };
    let has_autoconf = autoconf == Some(true) && family.enabled;
    if family.enabled {
        family.plan.addresses = addresses;
    }
    family.plan.method = match (family.enabled, dhcp, has_autoconf) {
        (false, ..) => Method::Disabled,
        (true, true, true) => Method::Auto,
        (true, true, false) if is_ipv4 => Method::Auto,
        (true, true, false) => Method::Dhcp,
        (true, false, true) => {
            fields.fault(
                "autoconf",
                "nmstate does not support autoconf without dhcp; add `dhcp: true`, which uses DHCP only if the routers announce it",
            );
            Method::Auto
        }
        (true, false, false) if !family.plan.addresses.is_empty() => Method::Manual,
        (true, false, false) if is_ipv4 => Method::Disabled,
        (true, false, false) => Method::LinkLocal,
    };
    let _ = fields.strict_flag("allow-extra-address");
    read_automatic(&fields, &mut family, is_ipv4);
    if is_ipv4 {
        let forwarding = fields.strict_flag("forwarding");
        if let Some(on) = forwarding.filter(|on| family.enabled || !on) {
            family.set("forwarding", u8::from(on));
        }
        let _ = fields.text("addr-gen-mode");
        let _ = fields.text("token");
        metric_ipv4(&fields, &mut family);
    } else {
        let mode = match fields.text("addr-gen-mode") {
            None | Some("eui64" | "EUI64") => 0,
            Some("stable-privacy" | "STABLE-PRIVACY") => 1,
            Some(other) => other.parse::<i32>().unwrap_or(0),
        };
        if mode != 0 {
            fields.warn("addr-gen-mode", "the ramdisk uses an eui64 address");
        }
        family.set("addr-gen-mode", mode);
        token(&fields, &mut family, autoconf);
    }
    family
}

fn addresses(fields: &Fields, is_ipv4: bool) -> Vec<IpPrefix> {
    let mut addresses = Vec::new();
    for item in fields.items_up_to(MOST_ADDRESSES, "address", ADDRESS_KEYS) {
        item.require(&["ip", "prefix-length"]);
        let expected = if is_ipv4 {
            "an IPv4 address"
        } else {
            "an IPv6 address"
        };
        let address: Option<IpAddr> = item.parsed("ip", expected);
        let longest = longest_prefix(is_ipv4);
        let length = item.number("prefix-length", 0..=longest.into());
        let (Some(address), Some(length)) = (address, length.and_then(|n| u8::try_from(n).ok()))
        else {
            continue;
        };
        if address.is_ipv4() != is_ipv4 {
            item.expected("ip", expected, address);
            continue;
        }
        if let Some(reason) = not_of_an_operator(&item, address) {
            item.findings.warn(&item.path, reason);
            continue;
        }
        addresses.push(IpPrefix { address, length });
    }
    addresses
}

/// The reason to leave out an address. A document that was read from a running system
/// also contains addresses that the operator did not configure.
fn not_of_an_operator(item: &Fields, address: IpAddr) -> Option<&'static str> {
    for key in ["preferred-life-time", "preferred-left", "preferred-lft"] {
        let _ = item.text(key);
    }
    for key in ["valid-life-time", "valid-left", "valid-lft"] {
        if item.text(key).is_some_and(|time| time != "forever") {
            return Some("ignored: its lifetime is limited, so it came from the network");
        }
    }
    let protocols = [("lo", false), ("ra", false), ("kernel_ll", false)];
    let other = match item.get("protocol") {
        None => false,
        Some(Yaml::Integer(number)) => !(1..=3).contains(number),
        Some(Yaml::Text(text)) if text.starts_with(|c: char| c.is_ascii_digit()) => {
            let number = match text.strip_prefix("0x") {
                Some(digits) => u8::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            };
            number.is_none_or(|number| !(1..=3).contains(&number))
        }
        Some(_) => item.word("protocol", &protocols, true).unwrap_or(false),
    };
    if other {
        return Some("ignored: another program has set it");
    }
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            Some("ignored: the kernel creates link-local addresses itself")
        }
        _ => None,
    }
}

fn read_automatic(fields: &Fields, family: &mut Family, is_ipv4: bool) {
    let dns = fields.flag("auto-dns");
    let gateway = fields.flag("auto-gateway");
    let routes = fields.flag("auto-routes");
    let table = fields.unsigned("auto-route-table-id", u32::MAX);
    let client_id = fields.text("dhcp-client-id");
    let duid = fields.text("dhcp-duid");
    let send_name = fields.strict_flag("dhcp-send-hostname");
    let name = fields.text("dhcp-custom-hostname");
    if !family.is_automatic() {
        if client_id.is_some() {
            fields.warn("dhcp-client-id", "ignored without DHCP");
        }
        return;
    }
    if let Some(table) = table {
        family.set("route-table", table);
        family.plan.automatic.table = Some(table).filter(|table| *table != 0);
        if !is_ipv4 {
            fields.warn(
                "auto-route-table-id",
                "the ramdisk puts the routes of router advertisements into the main table",
            );
        }
    }
    if !is_ipv4 {
        family.set("ra-timeout", FOREVER);
    }
    if send_name == Some(false) {
        family.set("dhcp-send-hostname", false);
    }
    let automatic = &mut family.plan.automatic;
    automatic.ignore_dns = dns == Some(false);
    automatic.never_default = gateway == Some(false);
    automatic.ignore_routes = routes == Some(false);
    automatic.host_name = name
        .filter(|name| !name.is_empty() && send_name != Some(false))
        .map(str::to_owned);
    match client_id.filter(|_| is_ipv4) {
        None | Some("ll" | "LL") => {}
        Some("iaid+duid" | "IAID+DUID") => {
            family.set("dhcp-client-id", "duid");
            fields.warn("dhcp-client-id", "the ramdisk uses the hardware address");
        }
        Some(text) => {
            family.plan.automatic.client_id = Some(client_id_bytes(text));
            family.set("dhcp-client-id", text);
        }
    }
    let duid = duid.filter(|_| !is_ipv4).map(|text| match text {
        "llt" | "LLT" => "llt",
        "en" | "EN" => "en",
        "ll" | "LL" => "ll",
        "uuid" | "UUID" => "uuid",
        other => other,
    });
    if let Some(duid) = duid.filter(|duid| *duid != "ll") {
        family.set("dhcp-duid", duid);
        fields.warn("dhcp-duid", "the ramdisk uses ll");
    }
}

fn metric_ipv4(fields: &Fields, family: &mut Family) {
    let bounds = DEFAULT_METRIC..=u32::MAX.into();
    let prefix = fields.number("prefix-route-metric", bounds.clone());
    let automatic = fields.number("auto-route-metric", bounds);
    if !family.enabled {
        return;
    }
    let automatic = automatic.filter(|_| family.is_automatic());
    let metric = match (prefix, automatic) {
        (Some(DEFAULT_METRIC) | None, other) => other.or(prefix),
        (other, Some(DEFAULT_METRIC) | None) => other,
        (Some(prefix), Some(automatic)) => {
            if prefix != automatic {
                fields.expected(
                    "auto-route-metric",
                    format!("{prefix} as in prefix-route-metric"),
                    automatic,
                );
            }
            Some(automatic)
        }
    };
    set_metric(family, metric);
}

fn set_metric(family: &mut Family, metric: Option<i64>) {
    let Some(metric) = metric else {
        return;
    };
    family.set("route-metric", metric);
    if family.is_automatic() {
        family.plan.automatic.metric = u32::try_from(metric).ok();
    }
}

fn token(fields: &Fields, family: &mut Family, autoconf: Option<bool>) {
    let metric = fields.number("auto-route-metric", DEFAULT_METRIC..=u32::MAX.into());
    if family.is_automatic() {
        set_metric(family, metric.filter(|_| autoconf != Some(false)));
    }
    let Some(text) = fields.text("token").filter(|text| !text.is_empty()) else {
        return;
    };
    let Ok(token) = text.parse::<Ipv6Addr>() else {
        fields.expected("token", "an address such as ::1", text);
        return;
    };
    if token.segments()[..4] != [0; 4] {
        fields.expected("token", "the first 64 bits to be zero", text);
    }
    if token.is_unspecified() {
        return;
    }
    if autoconf == Some(false) && family.enabled {
        fields.fault("token", "a token needs autoconf");
    }
    if family.is_automatic() {
        // `Display` writes the end of some tokens as an IPv4 address. A digit in the
        // first segment prevents that. The digit is then removed from the text.
        let mut segments = token.segments();
        segments[0] = 1;
        let with_prefix = Ipv6Addr::from(segments).to_string();
        family.set("token", &with_prefix[1..]);
        fields.warn("token", "the ramdisk uses an eui64 address");
    }
}
