//! Reads `link-aggregation` of an interface.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use landfall_boot_params::MacAddr;

use super::described::{Described, Port, State};
use super::fields::{Fields, Findings};
use crate::bond_option::{self, BondValue, DEFAULT_MODE};
use crate::plan::InterfaceKind;

const KEYS: &[&str] = &["mode", "options", "port", "ports-config"];
const OPTIONS: &[&str] = &[
    "ad_actor_sys_prio",
    "ad_actor_system",
    "ad_select",
    "ad_user_port_key",
    "all_slaves_active",
    "arp_all_targets",
    "arp_interval",
    "arp_ip_target",
    "arp_missed_max",
    "arp_validate",
    BALANCE_SLB,
    "balance-slb",
    "downdelay",
    "fail_over_mac",
    "lacp_active",
    "lacp_rate",
    "lp_interval",
    "miimon",
    "min_links",
    "ns_ip6_target",
    "num_grat_arp",
    "num_unsol_na",
    "packets_per_slave",
    "primary",
    "primary_reselect",
    "resend_igmp",
    "tlb_dynamic_lb",
    "updelay",
    "use_carrier",
    "xmit_hash_policy",
];
/// An option that NetworkManager implements with nftables rules; the kernel does
/// not have it.
const BALANCE_SLB: &str = "balance_slb";
const LACP: &str = "802.3ad";
/// Modes that have a preferred port.
const WITH_PRIMARY: &[&str] = &["active-backup", "balance-tlb", "balance-alb"];
/// Modes that cannot monitor their ports by ARP.
const WITHOUT_ARP: &[&str] = &[LACP, "balance-tlb", "balance-alb"];
/// The kernel's default of `arp_missed_max`. nmstate does not write this value.
const DEFAULT_ARP_MISSED_MAX: &str = "2";

/// Reads the bond. Returns the keys that only an interface of this type may have.
pub(super) fn read(interface: &Fields, described: &mut Described) -> &'static [&'static str] {
    let own = &["link-aggregation", "bond"];
    let key = if interface.has("bond") {
        "bond"
    } else {
        "link-aggregation"
    };
    let mut options = BTreeMap::new();
    let fields = interface.child(key, KEYS);
    let mode = fields.as_ref().and_then(mode);
    if mode.is_none()
        && described.state == State::Up
        && fields.as_ref().is_none_or(|fields| !fields.has("mode"))
    {
        interface.fault(
            &format!("{key}.mode"),
            "a bond needs a mode, such as active-backup",
        );
    }
    let mode = mode.unwrap_or(DEFAULT_MODE);
    options.insert("mode".to_owned(), mode.to_owned());
    if let Some(fields) = &fields {
        if let Some(given) = fields.child("options", OPTIONS) {
            read_options(&given, mode, &mut options, described);
        }
        described.ports = read_ports(fields);
    }
    described.interface.kind = InterfaceKind::Bond { options };
    own
}

/// True if the bond takes the MAC address of its active port. nmstate then ignores a MAC
/// address in the document.
pub(super) fn has_mac_of_port(described: &Described) -> bool {
    match &described.interface.kind {
        InterfaceKind::Bond { options } => {
            options["mode"] == "active-backup"
                && options.get("fail_over_mac").is_some_and(|v| v == "active")
        }
        _ => false,
    }
}

fn mode(fields: &Fields) -> Option<&'static str> {
    let Some(BondValue::Word(words)) = bond_option::bond_value("mode") else {
        return None;
    };
    let mut modes: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
    modes.push(("lacp", LACP));
    let digits = ["0", "1", "2", "3", "4", "5", "6"];
    modes.extend(digits.iter().copied().zip(words.iter().copied()));
    fields.word("mode", &modes, true)
}

fn read_options(
    fields: &Fields,
    mode: &str,
    options: &mut BTreeMap<String, String>,
    described: &mut Described,
) {
    for key in OPTIONS {
        if let Some(value) = option(fields, key) {
            options.insert((*key).to_owned(), value);
        }
    }
    for key in [BALANCE_SLB, "balance-slb"] {
        if let Some(value) = options.remove(key) {
            let is_right = options
                .get("xmit_hash_policy")
                .is_some_and(|v| v == "vlan+srcmac");
            if value == "1" && (mode != "balance-xor" || !is_right) {
                fields.fault(
                    key,
                    "needs mode balance-xor and xmit_hash_policy vlan+srcmac",
                );
            }
            described.set("bond", "balance-slb", value);
            fields.warn(key, "has no effect in the ramdisk");
        }
    }
    if options
        .get("arp_missed_max")
        .is_some_and(|v| v == DEFAULT_ARP_MISSED_MAX)
    {
        options.remove("arp_missed_max");
    }
    check_together(fields, mode, options);
    options.retain(|_, value| !value.is_empty());
}

/// The value of one option, in the form of the kernel and of NetworkManager.
fn option(fields: &Fields, key: &str) -> Option<String> {
    match key {
        "tlb_dynamic_lb" | "use_carrier" | "lacp_active" | BALANCE_SLB | "balance-slb" => {
            return fields.flag(key).map(|on| u8::from(on).to_string());
        }
        "all_slaves_active" => {
            let words = [("dropped", 0), ("delivered", 1), ("0", 0), ("1", 1)];
            return fields.word(key, &words, true).map(|on| on.to_string());
        }
        "ad_actor_system" => {
            let mac: MacAddr = fields.parsed(key, "a hardware address")?;
            let text = mac.to_string().to_ascii_uppercase();
            if text.starts_with("01:00:5E") {
                fields.fault(key, "expected no multicast address");
            }
            return Some(text);
        }
        "ns_ip6_target" => return ipv6_targets(fields, key),
        _ => {}
    }
    match bond_option::bond_value(key)? {
        BondValue::Number(least, most) => {
            let number = fields.number(key, least.into()..=most.into())?;
            Some(number.to_string())
        }
        BondValue::Word(words) => {
            let digits: Vec<String> = (0..words.len()).map(|n| n.to_string()).collect();
            let digits = digits.iter().map(String::as_str);
            let known: Vec<_> = words
                .iter()
                .copied()
                .chain(digits)
                .zip(words.iter().cycle())
                .collect();
            fields
                .word(key, &known, true)
                .map(|word| (*word).to_owned())
        }
        _ => {
            let text = fields.text(key)?;
            if text.is_empty() {
                return None;
            }
            match bond_option::normal(key, text) {
                Ok(_) => Some(text.to_owned()),
                Err(expected) => {
                    fields.expected(key, expected, text);
                    None
                }
            }
        }
    }
}

fn ipv6_targets(fields: &Fields, key: &str) -> Option<String> {
    let mut targets = Vec::new();
    for (path, text) in fields.texts(key)? {
        match text.parse::<Ipv6Addr>() {
            Ok(address) => targets.push(address.to_string()),
            Err(_) => fields
                .findings
                .fault(&path, format!("expected an IPv6 address, found {text:?}")),
        }
    }
    (!targets.is_empty()).then(|| targets.join(","))
}

/// Checks the options whose validity depends on other options, as nmstate and
/// NetworkManager do (`verify` in nm-setting-bond.c, git of 2026-08). NetworkManager
/// rejects a profile with such a fault, and the installed system would have no bond.
fn check_together(fields: &Fields, mode: &str, options: &BTreeMap<String, String>) {
    let is_on = |key: &str| options.get(key).is_some_and(|value| value != "0");
    if is_on("miimon") && is_on("arp_interval") {
        fields.fault(
            "arp_interval",
            "cannot be combined with miimon; set one of them to 0",
        );
    }
    if mode != LACP {
        for key in ["lacp_rate", "lacp_active"] {
            if options.contains_key(key) {
                fields.fault(key, format!("needs mode {LACP}, found {mode}"));
            }
        }
    }
    if is_on("arp_interval") && WITHOUT_ARP.contains(&mode) {
        fields.fault("arp_interval", format!("expected a mode other than {mode}"));
    }
    check_monitoring(fields, mode, options);
    if options.contains_key("primary") && !WITH_PRIMARY.contains(&mode) {
        let words = "needs mode active-backup, balance-tlb or balance-alb";
        fields.fault("primary", format!("{words}, found {mode}"));
    }
    if let (Some(one), Some(other)) = (options.get("num_grat_arp"), options.get("num_unsol_na"))
        && one != other
    {
        let words = "expected the value of num_grat_arp, which is the same option";
        fields.fault("num_unsol_na", format!("{words}: {one}, found {other}"));
    }
}

/// Checks the settings by which the bond detects a dead port: by ARP, or by the carrier
/// (`miimon`).
fn check_monitoring(fields: &Fields, mode: &str, options: &BTreeMap<String, String>) {
    let is_on = |key: &str| options.get(key).is_some_and(|value| value != "0");
    let targets = ["arp_ip_target", "ns_ip6_target"];
    let mut given = targets.iter().filter(|key| options.contains_key(**key));
    if !is_on("arp_interval") {
        for key in given {
            fields.fault(key, "needs an arp_interval above 0");
        }
    } else if given.next().is_none() {
        fields.fault("arp_interval", "needs arp_ip_target or ns_ip6_target");
    }
    if options.contains_key("arp_missed_max") && WITHOUT_ARP.contains(&mode) {
        let words = format!("expected a mode other than {mode}");
        fields.fault("arp_missed_max", words);
    }
    // Without `miimon`, NetworkManager uses 100 ms.
    if options.get("miimon").is_some_and(|value| value == "0") {
        for key in ["updelay", "downdelay"].iter().filter(|key| is_on(key)) {
            fields.fault(key, "needs a miimon above 0");
        }
    }
}

fn read_ports(fields: &Fields) -> Option<Vec<Port>> {
    let names = fields.texts("port");
    let configs = fields.list("ports-config").map(|list| {
        let read = |(path, item)| port_config(Fields::of(item, path, PORT_KEYS, fields.findings)?);
        list.into_iter().filter_map(read).collect::<Vec<Port>>()
    });
    check_queues(&configs, fields.findings);
    let (Some(names), Some(configs)) = (&names, &configs) else {
        return configs.or(names.map(|names| {
            let port = |(path, name): (String, &str)| Port::new(name, path);
            names.into_iter().map(port).collect()
        }));
    };
    for (path, name) in names {
        if !configs.iter().any(|port| port.name == *name) {
            fields.findings.fault(
                path,
                format!(
                    "port has {name}, ports-config has not: expected the same ports in both lists"
                ),
            );
        }
    }
    for port in configs {
        if !names.iter().any(|(_, name)| *name == port.name) {
            let words = format!(
                "ports-config has {}, port has not: expected the same ports in both lists",
                port.name
            );
            fields.findings.fault(&port.path, words);
        }
    }
    Some(configs.clone())
}

/// Reports ports of a bond that have the same queue id, which the kernel rejects.
fn check_queues(ports: &Option<Vec<Port>>, findings: &Findings) {
    let mut taken = Vec::new();
    for port in ports.iter().flatten() {
        let Some(queue) = port.queue else {
            continue;
        };
        if taken.contains(&queue) {
            findings.fault(
                &port.path,
                format!("expected a queue-id that no other port has, found {queue}"),
            );
        }
        taken.push(queue);
    }
}

const PORT_KEYS: &[&str] = &["name", "priority", "queue-id"];

fn port_config(fields: Fields) -> Option<Port> {
    if !fields.has("name") {
        fields.fault("name", "expected the name of a port, found nothing");
    }
    let mut port = Port::new(fields.text("name")?, fields.path.clone());
    let priority = fields.number("priority", i32::MIN.into()..=i32::MAX.into());
    let queue = fields.unsigned("queue-id", u16::MAX.into());
    let priority = priority.filter(|number| *number != 0);
    port.queue = queue.filter(|number| *number != 0);
    // Older versions of NetworkManager know neither of the two keys, so neither is
    // written if both have their default values.
    if priority.is_some() || port.queue.is_some() {
        port.section = Some("bond-port");
        port.settings
            .extend(priority.map(|n| ("prio".to_owned(), n.to_string())));
        port.settings
            .extend(queue.map(|n| ("queue-id".to_owned(), n.to_string())));
    }
    Some(port)
}
