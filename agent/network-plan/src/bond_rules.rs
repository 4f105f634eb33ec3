//! Rules about which options of a bond go together.
//!
//! NetworkManager ignores options that the mode does not use, but it rejects the
//! whole profile for some other combinations (`nm-setting-bond.c`, git of 2026-08).
//! Here the option is dropped and the bond stays: the ramdisk and the installed
//! system get the same options.

use std::collections::BTreeMap;

use crate::bond_option::bond_number;

const ROUND_ROBIN: u32 = 0;
const ACTIVE_BACKUP: u32 = 1;
const XOR: u32 = 2;
const BROADCAST: u32 = 3;
const LACP: u32 = 4;
const TLB: u32 = 5;
const ALB: u32 = 6;

/// NetworkManager's default in milliseconds, if `miimon` is not given.
const DEFAULT_MIIMON: u32 = 100;
/// The number of `vlan+srcmac` in `xmit_hash_policy`.
const VLAN_SRCMAC: u32 = 5;

/// Modes that have a preferred port.
const WITH_PRIMARY: &[u32] = &[ACTIVE_BACKUP, TLB, ALB];
/// Modes that can monitor their ports by ARP.
const WITH_ARP: &[u32] = &[ROUND_ROBIN, ACTIVE_BACKUP, XOR, BROADCAST];

/// The modes that use an option; `None`: all modes.
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

/// Removes the options that conflict with the others. Returns the name of each, and
/// a message with its value and the reason.
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
        for (text, kept, dropped) in [
            (
                "mode=802.3ad miimon=100 lacp_rate=fast updelay=200",
                "lacp_rate=fast miimon=100 mode=802.3ad updelay=200",
                "",
            ),
            (
                "mode=802.3ad primary=eth0",
                "mode=802.3ad",
                "primary=eth0 does not apply to this mode",
            ),
            (
                "mode=balance-alb arp_interval=9 arp_ip_target=192.0.2.1",
                "mode=balance-alb",
                "arp_interval=9 does not apply to this mode, arp_ip_target=192.0.2.1 does not apply to this mode",
            ),
            (
                "mode=balance-tlb arp_interval=9 ns_ip6_target=2001:db8::1",
                "mode=balance-tlb",
                "arp_interval=9 does not apply to this mode, ns_ip6_target=2001:db8::1 needs arp_interval",
            ),
            (
                "mode=active-backup arp_interval=9",
                "mode=active-backup",
                "arp_interval=9 needs arp_ip_target",
            ),
            (
                "mode=active-backup arp_interval=9 ns_ip6_target=2001:db8::1",
                "arp_interval=9 mode=active-backup ns_ip6_target=2001:db8::1",
                "",
            ),
            (
                "mode=balance-rr miimon=0 updelay=1 downdelay=0",
                "downdelay=0 miimon=0 mode=balance-rr",
                "updelay=1 needs miimon",
            ),
            (
                "mode=balance-rr peer_notif_delay=150",
                "mode=balance-rr",
                "peer_notif_delay=150 is not a multiple of miimon",
            ),
            (
                "mode=balance-rr num_grat_arp=1 num_unsol_na=2",
                "mode=balance-rr num_grat_arp=1",
                "num_unsol_na=2 is another name of num_grat_arp",
            ),
            (
                "mode=balance-xor balance-slb=1 xmit_hash_policy=layer2",
                "mode=balance-xor xmit_hash_policy=layer2",
                "balance-slb=1 needs xmit_hash_policy=vlan+srcmac",
            ),
        ] {
            let words = text.split(' ').filter_map(|word| word.split_once('='));
            let mut options: BTreeMap<_, _> = words
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let found = drop_conflicts(&mut options).into_iter();
            let found: Vec<_> = found
                .map(|(_, why)| why.replace("bond option ", ""))
                .collect();
            assert_eq!(found.join(", "), dropped, "{text}");
            let left: Vec<_> = options.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(left.join(" "), kept, "{text}");
        }
    }
}
