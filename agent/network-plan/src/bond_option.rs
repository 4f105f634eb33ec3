//! The options of a bond and the values that each accepts.
//!
//! Names and values are the kernel's (`bonding.rst`). The bounds are
//! NetworkManager's, since it reads the same options on the installed system.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use landfall_boot_params::MacAddr;
use landfall_boot_params::dracut_net::is_interface_name;

/// The mode of a bond that names no mode: the kernel's default.
pub(crate) const DEFAULT_MODE: &str = "balance-rr";

/// The largest number that an option accepts: NetworkManager's upper bound, which is
/// the kernel's `INT_MAX`.
const MOST: u32 = i32::MAX as u32;
/// The kernel keeps at most this many targets (BOND_MAX_ARP_TARGETS).
const MOST_TARGETS: usize = 16;

/// The values that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BondValue {
    /// A number within these bounds, both included.
    Number(u32, u32),
    /// One of these words, or its index in this list: the index is the kernel's number
    /// for the word.
    Word(&'static [&'static str]),
    /// IPv4 addresses joined by `,`.
    Ipv4List,
    /// IPv6 addresses joined by `,`.
    Ipv6List,
    /// A hardware address.
    Mac,
    /// The name of a port.
    Port,
}

const SWITCH: BondValue = BondValue::Word(&["off", "on"]);

/// All options, sorted by name.
const OPTIONS: &[(&str, BondValue)] = &[
    ("active_slave", BondValue::Port),
    ("ad_actor_sys_prio", BondValue::Number(1, 65535)),
    ("ad_actor_system", BondValue::Mac),
    (
        "ad_select",
        BondValue::Word(&["stable", "bandwidth", "count"]),
    ),
    ("ad_user_port_key", BondValue::Number(0, 1023)),
    ("all_slaves_active", BondValue::Number(0, 1)),
    ("arp_all_targets", BondValue::Word(&["any", "all"])),
    ("arp_interval", BondValue::Number(0, MOST)),
    ("arp_ip_target", BondValue::Ipv4List),
    ("arp_missed_max", BondValue::Number(1, 255)),
    (
        "arp_validate",
        BondValue::Word(&[
            "none",
            "active",
            "backup",
            "all",
            "filter",
            "filter_active",
            "filter_backup",
        ]),
    ),
    ("balance-slb", BondValue::Number(0, 1)),
    ("broadcast_neighbor", SWITCH),
    ("downdelay", BondValue::Number(0, MOST)),
    (
        "fail_over_mac",
        BondValue::Word(&["none", "active", "follow"]),
    ),
    ("lacp_active", SWITCH),
    ("lacp_rate", BondValue::Word(&["slow", "fast"])),
    ("lp_interval", BondValue::Number(1, MOST)),
    ("miimon", BondValue::Number(0, MOST)),
    ("min_links", BondValue::Number(0, MOST)),
    (
        "mode",
        BondValue::Word(&[
            DEFAULT_MODE,
            "active-backup",
            "balance-xor",
            "broadcast",
            "802.3ad",
            "balance-tlb",
            "balance-alb",
        ]),
    ),
    ("ns_ip6_target", BondValue::Ipv6List),
    ("num_grat_arp", BondValue::Number(0, 255)),
    ("num_unsol_na", BondValue::Number(0, 255)),
    ("packets_per_slave", BondValue::Number(0, 65535)),
    ("peer_notif_delay", BondValue::Number(0, MOST)),
    ("primary", BondValue::Port),
    (
        "primary_reselect",
        BondValue::Word(&["always", "better", "failure"]),
    ),
    ("resend_igmp", BondValue::Number(0, 255)),
    ("tlb_dynamic_lb", BondValue::Number(0, 1)),
    ("updelay", BondValue::Number(0, MOST)),
    ("use_carrier", BondValue::Number(0, 1)),
    (
        "xmit_hash_policy",
        BondValue::Word(&[
            "layer2",
            "layer3+4",
            "layer2+3",
            "encap2+3",
            "encap3+4",
            "vlan+srcmac",
        ]),
    ),
];

/// The values that an option accepts; `None` if there is no such option.
pub fn bond_value(name: &str) -> Option<BondValue> {
    let found = OPTIONS
        .binary_search_by_key(&name, |(known, _)| known)
        .ok()?;
    Some(OPTIONS[found].1)
}

/// The kernel's number for a value that is a word or a number.
pub fn bond_number(name: &str, value: &str) -> Option<u32> {
    match bond_value(name)? {
        BondValue::Number(least, most) => {
            let number = digits(value)?;
            (least..=most).contains(&number).then_some(number)
        }
        BondValue::Word(words) => {
            let place = match digits(value) {
                Some(number) => Some(number as usize).filter(|number| *number < words.len()),
                None => words.iter().position(|word| *word == value),
            };
            place.and_then(|place| u32::try_from(place).ok())
        }
        _ => None,
    }
}

/// Parses a number without a sign.
fn digits(value: &str) -> Option<u32> {
    let is_number = value.bytes().all(|c| c.is_ascii_digit());
    value.parse().ok().filter(|_| is_number)
}

/// Why an option is not valid. The text says what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidOption {
    #[error("an option that the kernel knows")]
    Name,
    #[error("{0}")]
    Value(BondValue),
}

/// Checks a value and returns it in the form of a plan: the mode by its name, IPv6
/// addresses in their canonical text, and other values as given.
pub(crate) fn normal(name: &str, value: &str) -> Result<String, InvalidOption> {
    let kind = bond_value(name).ok_or(InvalidOption::Name)?;
    let is_list = |is_item: fn(&str) -> bool| {
        let items = value.split(',').count();
        items <= MOST_TARGETS && value.split(',').all(is_item)
    };
    let is_right = match kind {
        BondValue::Number(..) | BondValue::Word(_) => bond_number(name, value).is_some(),
        BondValue::Ipv4List => is_list(|item| item.parse::<Ipv4Addr>().is_ok()),
        BondValue::Ipv6List => is_list(|item| item.parse::<Ipv6Addr>().is_ok()),
        BondValue::Mac => value.parse::<MacAddr>().is_ok(),
        BondValue::Port => is_interface_name(value),
    };
    if !is_right {
        return Err(InvalidOption::Value(kind));
    }
    match (name, kind, bond_number(name, value)) {
        ("mode", BondValue::Word(words), Some(number)) => Ok(words[number as usize].to_owned()),
        (_, BondValue::Ipv6List, _) => {
            let items = value.split(',').filter_map(|item| item.parse().ok());
            let items: Vec<_> = items.map(|address: Ipv6Addr| address.to_string()).collect();
            Ok(items.join(","))
        }
        _ => Ok(value.to_owned()),
    }
}

/// Formats the accepted values for an error message, such as `0 to 255`.
impl fmt::Display for BondValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BondValue::Number(least, most) => write!(f, "{least} to {most}"),
            BondValue::Word(words) => write!(f, "one of {}", words.join(" ")),
            BondValue::Ipv4List => write!(f, "at most {MOST_TARGETS} IPv4 addresses"),
            BondValue::Ipv6List => write!(f, "at most {MOST_TARGETS} IPv6 addresses"),
            BondValue::Mac => f.write_str("a hardware address"),
            BondValue::Port => f.write_str("the name of a port"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_searched() {
        assert!(OPTIONS.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn values_are_checked_and_the_mode_is_named() {
        let table = include_str!("../test_data/bond_options/values.txt");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let (option, expected) = row.split_once(" | ").unwrap();
            let (name, value) = option.split_once('=').unwrap();
            let found = normal(name, value).unwrap_or("invalid".to_owned());
            assert_eq!(found, expected, "{option}");
        }
        assert_eq!(bond_number("lacp_rate", "fast"), Some(1));
        assert_eq!(bond_number("primary", "eth0"), None);
    }
}
