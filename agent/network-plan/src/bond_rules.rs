//! Rules about which options of a bond can be combined.
//!
//! NetworkManager ignores bond options that the bond mode does not use, but it rejects
//! the whole profile for some other invalid combinations (`nm-setting-bond.c`, git of
//! 2026-08). This module removes only the affected options in both cases, so that the
//! ramdisk and the installed system get the same bond.

use std::collections::BTreeMap;

use crate::bond_option::bond_number;

const ROUND_ROBIN: u32 = 0;
const ACTIVE_BACKUP: u32 = 1;
const XOR: u32 = 2;
const BROADCAST: u32 = 3;
const LACP: u32 = 4;
const TLB: u32 = 5;
const ALB: u32 = 6;

/// NetworkManager's default of the bond option `miimon`, in milliseconds.
const DEFAULT_MIIMON: u32 = 100;
/// The number of `vlan+srcmac` among the values of the bond option `xmit_hash_policy`.
const VLAN_SRCMAC: u32 = 5;

/// Modes that have a preferred port.
const WITH_PRIMARY: &[u32] = &[ACTIVE_BACKUP, TLB, ALB];
/// Modes that can monitor their ports by ARP.
const WITH_ARP: &[u32] = &[ROUND_ROBIN, ACTIVE_BACKUP, XOR, BROADCAST];

/// The bond modes in which the option has an effect. `None` if it has an effect in every
/// mode, or if the option is not listed here.
fn modes_of(option: &str) -> Option<&'static [u32]> {
    Some(match option {
        "active_slave" | "primary" => WITH_PRIMARY,
        "ad_actor_sys_prio" | "ad_actor_system" | "ad_user_port_key" | "lacp_active"
        | "lacp_rate" => &[LACP],
        "arp_interval" | "arp_ip_target" | "arp_missed_max" | "arp_validate" => WITH_ARP,
        "balance-slb" => &[XOR],
        "packets_per_slave" => &[ROUND_ROBIN],
        "tlb_dynamic_lb" => &[TLB, ALB],
        _ => return None,
    })
}

/// Removes the options that the bond mode does not use and the options that conflict with
/// others. Returns, for each removed option, its name and a message with its value and
/// the reason.
pub(crate) fn drop_conflicts(options: &mut BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut dropped = Vec::new();
    let mut drop_option = |options: &mut BTreeMap<String, String>, name: &str, why: &str| {
        if let Some(value) = options.remove(name) {
            dropped.push((name.to_owned(), format!("bond option {name}={value} {why}")));
        }
    };
    let number = |options: &BTreeMap<String, String>, name: &str| {
        options.get(name).and_then(|value| bond_number(name, value))
    };
    let mode = number(options, "mode").unwrap_or(ROUND_ROBIN);
    let is_unused = |name: &&String| modes_of(name).is_some_and(|modes| !modes.contains(&mode));
    for name in options
        .keys()
        .filter(is_unused)
        .cloned()
        .collect::<Vec<_>>()
    {
        drop_option(options, &name, "does not apply to this mode");
    }

    let miimon = number(options, "miimon").unwrap_or(DEFAULT_MIIMON);
    if miimon == 0 {
        for name in ["updelay", "downdelay", "peer_notif_delay"] {
            if number(options, name) != Some(0) {
                drop_option(options, name, "needs miimon");
            }
        }
    }
    let has_targets =
        options.contains_key("arp_ip_target") || options.contains_key("ns_ip6_target");
    if number(options, "arp_interval").is_some_and(|interval| interval > 0) && !has_targets {
        drop_option(options, "arp_interval", "needs arp_ip_target");
    }
    let arp_interval = number(options, "arp_interval").unwrap_or(0);
    if arp_interval == 0 {
        for name in ["arp_ip_target", "ns_ip6_target"] {
            drop_option(options, name, "needs arp_interval");
        }
    }
    let delay = number(options, "peer_notif_delay").unwrap_or(0);
    if miimon != 0 && !delay.is_multiple_of(miimon) && arp_interval == 0 {
        drop_option(options, "peer_notif_delay", "is not a multiple of miimon");
    }
    if let (Some(one), Some(other)) = (
        number(options, "num_grat_arp"),
        number(options, "num_unsol_na"),
    ) && one != other
    {
        drop_option(options, "num_unsol_na", "is another name of num_grat_arp");
    }
    let is_slb = number(options, "balance-slb") == Some(1);
    if is_slb && number(options, "xmit_hash_policy").is_some_and(|policy| policy != VLAN_SRCMAC) {
        drop_option(options, "balance-slb", "needs xmit_hash_policy=vlan+srcmac");
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_go_together() {
        let table = include_str!("../test_data/bond_options/conflicts.txt");
        for row in table.lines().filter(|row| !row.starts_with('#')) {
            let columns: Vec<_> = row.split(" | ").collect();
            let [text, kept, dropped] = columns[..] else {
                panic!("{row}")
            };
            let words = text.split(' ').filter_map(|word| word.split_once('='));
            let mut options: BTreeMap<_, _> = words
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let found = drop_conflicts(&mut options).into_iter();
            let found: Vec<_> = found
                .map(|(_, why)| why.replace("bond option ", ""))
                .collect();
            let found = if found.is_empty() {
                "none".to_owned()
            } else {
                found.join(", ")
            };
            assert_eq!(found, dropped, "{text}");
            let left: Vec<_> = options.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(left.join(" "), kept, "{text}");
        }
    }
}
