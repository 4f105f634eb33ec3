use std::fs;
use std::path::Path;

use landfall_boot_params::NetArgs;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::plan::IpPlan;

fn args(text: &str) -> NetArgs {
    NetArgs::parse(text)
}

fn plan(text: &str) -> NetworkPlan {
    NetworkPlan::from_boot_args(&args(text))
}

/// `NAME.cmdline` in `test_data/boot_args` must produce the plan in `NAME.json`, in the
/// normal form.
#[test]
fn every_vector_gives_its_plan() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/boot_args");
    let mut checked = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "cmdline")
        {
            continue;
        }
        let line = fs::read_to_string(&path).unwrap();
        let expected = fs::read_to_string(path.with_extension("json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let found = serde_json::to_value(plan(&line)).unwrap();
        let text = serde_json::to_string_pretty(&found).unwrap();
        assert_eq!(found, expected, "{}: {line}found:\n{text}", path.display());
        checked += 1;
    }
    assert!(checked > 20, "only {checked} vectors in {}", dir.display());
}

/// Each command line in `vectors.txt` must produce the plan that follows it. The file
/// describes its format.
#[test]
fn every_command_line_gives_the_plan_of_networkmanager() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/boot_args/vectors.txt");
    let text = fs::read_to_string(path).unwrap();
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let lines: Vec<&str> = text.lines().filter(is_content).collect();
    let (pairs, rest) = lines.as_chunks::<2>();
    assert!(rest.is_empty() && pairs.len() > 240, "{}", pairs.len());
    for [line, expected] in pairs {
        let mut found = serde_json::to_value(plan(line)).unwrap();
        found.as_object_mut().unwrap().remove("warnings");
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(
            without_defaults(found).to_string(),
            without_defaults(expected).to_string(),
            "{line}"
        );
    }
}

/// Removes all values that are null, false or an empty list.
fn without_defaults(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().map(|(k, v)| (k, without_defaults(v)));
            let is_default =
                |v: &Value| v.is_null() || *v == false || v.as_array().is_some_and(Vec::is_empty);
            Value::Object(kept.filter(|(_, v)| !is_default(v)).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_defaults).collect()),
        other => other,
    }
}

/// The plan for a boot in short: for each interface its match and the methods of IPv4 and
/// IPv6.
fn booted(text: &str) -> Vec<String> {
    let plan = NetworkPlan::for_boot(&args(text));
    let word = |ip: &Option<IpPlan>| ip.as_ref().map(|ip| format!("{:?}", ip.method));
    plan.interfaces
        .iter()
        .map(|i| {
            format!("{} {:?}/{:?}", i.matches, word(&i.ipv4), word(&i.ipv6))
                .replace(['"', '(', ')'], "")
        })
        .map(|text| text.replace("Some", ""))
        .collect()
}

#[test]
fn a_boot_without_instructions_asks_the_network_on_every_device() {
    for (text, expected) in [
        ("", vec!["any NIC Auto/Auto"]),
        ("quiet nameserver=192.0.2.53", vec!["any NIC Auto/Auto"]),
        (
            "BOOTIF=01-52-54-00-00-00-01",
            vec![
                "any NIC Auto/Auto",
                "the NIC with MAC 52:54:00:00:00:01 Auto/Auto",
            ],
        ),
        (
            "rd.bootif=0 BOOTIF=01-52-54-00-00-00-01",
            vec!["any NIC Auto/Auto"],
        ),
        // An argument that cannot be parsed does not count as an instruction.
        ("ip=eth0:bogus", vec!["any NIC Auto/Auto"]),
        ("rd.neednet=1", vec!["any NIC Auto/Auto"]),
        ("ip=ibft", vec!["any NIC Auto/Auto"]),
        (
            "rd.route=10.0.0.0/8:192.0.2.1:eth1",
            vec!["any NIC Auto/Auto", "eth1 Auto/Auto"],
        ),
        // If arguments say which interfaces to configure, the plan contains only these.
        ("bootdev=eth1", vec!["eth1 Auto/Auto"]),
        ("ip=off", vec!["any NIC Disabled/Disabled"]),
        (
            "ip=dhcp BOOTIF=01-52-54-00-00-00-01",
            vec!["the NIC with MAC 52:54:00:00:00:01 Auto/Auto"],
        ),
        ("ip=eth0:dhcp", vec!["eth0 Auto/Auto"]),
    ] {
        assert_eq!(booted(text), expected, "{text}");
    }
}

#[test]
fn name_servers_reach_the_interfaces_of_a_boot_without_instructions() {
    let plan = NetworkPlan::for_boot(&args("nameserver=192.0.2.53 BOOTIF=0:1:2:3:4:5"));
    assert_eq!(plan.interfaces.len(), 2);
    for interface in &plan.interfaces {
        assert_eq!(interface.ipv4.as_ref().unwrap().dns.len(), 1);
    }
    let empty = NetworkPlan::from_boot_args(&args("nameserver=192.0.2.53"));
    assert!(empty.interfaces.is_empty());
}

#[test]
fn an_invalid_argument_gives_a_warning_and_changes_nothing() {
    let known = "ip=eth0:dhcp bond=bond0:eth1 ip=bond0:dhcp";
    let table = include_str!("../../test_data/boot_args/ignored.txt");
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let (argument, warning) = row.split_once(" | ").unwrap();
        let without = plan(known);
        let with = plan(&format!("{known} {argument}"));
        assert_eq!(with.interfaces, without.interfaces, "{argument}");
        assert_eq!(with.warnings.len(), 1, "{argument}: {:?}", with.warnings);
        assert!(with.warnings[0].ends_with(warning), "{:?}", with.warnings);
    }
    let first = plan("ip=eth0:dhcp rd.ethtool=a/b:on");
    assert_eq!(
        first.warnings,
        [
            "rd.ethtool=a/b:on: expected an interface name or a MAC address, found \"a/b\"; \
             the first interface is used"
        ]
    );
    assert!(first.interfaces[0].ethtool.is_some());
    // `nameserver=` is for every interface, so a port causes no warning about it.
    assert_eq!(
        plan("bond=bond0:eth1 nameserver=192.0.2.53").warnings.len(),
        0
    );
}

#[test]
fn the_host_name_of_a_device_that_cannot_exist_is_kept() {
    let plan = plan("ip=1.2.3.4::::n:%");
    assert_eq!(plan.host_name.as_deref(), Some("n"));
    assert_eq!(plan.interfaces, []);
    assert_eq!(plan.warnings.len(), 1);
}

#[test]
fn a_route_without_an_interface_is_for_the_same_one_in_the_boot() {
    let line = "rd.route=10.1.0.0/16:10.0.0.1:ens3 rd.route=10.2.0.0/16:10.0.0.1";
    for plan in [plan(line), NetworkPlan::for_boot(&args(line))] {
        let mut named = plan.interfaces.iter().filter(|i| !i.matches.is_any());
        let ens3 = named.next().unwrap();
        assert_eq!(ens3.ipv4.as_ref().unwrap().routes.len(), 2);
    }
    let only = NetworkPlan::for_boot(&args("rd.route=10.2.0.0/16:10.0.0.1 rd.neednet"));
    assert_eq!(only.interfaces.len(), 1);
    assert!(only.interfaces[0].needed);
}

#[test]
fn words_for_a_hardware_address_reach_the_installed_system() {
    for (word, warnings) in [
        ("preserve", 0),
        ("permanent", 0),
        ("random", 1),
        ("stable", 1),
    ] {
        let plan = plan(&format!("ip=eth0:dhcp::{word}"));
        assert_eq!(plan.warnings.len(), warnings, "{:?}", plan.warnings);
        let file = &plan.keyfiles()[0].text;
        let line = format!("\ncloned-mac-address={word}\n");
        assert!(file.contains(&line), "{file}");
    }
}

#[test]
fn a_team_is_a_bond_in_the_ramdisk() {
    for (runner, mode, warnings) in [
        ("", "active-backup", 0),
        (":activebackup", "active-backup", 1),
        (":lacp", "802.3ad", 1),
        (":loadbalance", "balance-xor", 1),
        (":random", "active-backup", 1),
        (":lacp:x", "802.3ad", 2),
    ] {
        let plan = plan(&format!("team=team0:eth0{runner}"));
        let kinds: Vec<_> = plan.interfaces.into_iter().map(|i| i.kind).collect();
        assert!(
            kinds.contains(&InterfaceKind::Team { bond_mode: mode }),
            "{runner}"
        );
        assert_eq!(
            plan.warnings.len(),
            warnings,
            "{runner} {:?}",
            plan.warnings
        );
    }
}

fn argument() -> impl Strategy<Value = String> {
    let address = "(192\\.0\\.2\\.[0-9]{1,3}|\\[2001:db8::[0-9a-f]{1,4}\\])?(/[0-9]{1,3})?";
    let device = "(eth[0-2]|52-54-00-00-00-0[1-3]|averylonginterface)?";
    let method = "(none|off|dhcp|dhcp6|auto|link6|dhcp,dhcp6|bogus)?";
    let tail = "(:(1400)?(:02-00-00-00-00-01)?|:192\\.0\\.2\\.53(:\\[2001:db8::53\\])?)?";
    let pattern = [
        format!("ip={address}::{address}:[0-9]{{0,2}}:[a-z]{{0,3}}:{device}:{method}{tail}"),
        format!("ip={device}:{method}{tail}"),
        format!("ip={method}"),
        format!("nameserver={address}"),
        format!("rd\\.route={address}:{address}(:{device})?"),
        format!("bootdev={device}"),
        "(BOOTIF|bootif)=(01-)?52-54-00-00-00-0[1-3]".to_owned(),
        "rd\\.neednet(=[01])?".to_owned(),
        "vlan=(v[0-9]{1,4}|bond0\\.5)?:(eth[0-2]|bond0|v1|52-54-00-00-00-01)?".to_owned(),
        "bond=(bond0|eth1)?(:eth[0-2](,eth[0-2]|,52-54-00-00-00-01)?(:(mode|miimon|x)=[0-9a-z]{1,3})?)?".to_owned(),
        "ib\\.pkey=ib0\\.[0-9a-f]{0,5}".to_owned(),
        format!("rd\\.ethtool={device}:(on|off|x)?(:[0-9]{{0,5}})?"),
        format!("rd\\.net\\.dhcp\\.client-id={device}:(@[a-z]{{0,3}}|[0-9a-f]{{0,4}})"),
        "(rd\\.iscsi\\.ibft|ip=ibft|ip=eth0:ibft)".to_owned(),
        "(bridge|team)=(br0|bond0)?(:(bond0|eth0))?".to_owned(),
        "(ip|bond|bridge|vlan|team)=\\PC{0,30}".to_owned(),
    ]
    .join("|");
    proptest::string::string_regex(&pattern).unwrap()
}

proptest! {
    #[test]
    fn every_plan_can_be_applied(list in proptest::collection::vec(argument(), 0..6)) {
        let args = args(&list.join(" "));
        for plan in [NetworkPlan::from_boot_args(&args), NetworkPlan::for_boot(&args)] {
            for interface in &plan.interfaces {
                let is_port = interface.controller.is_some();
                prop_assert_eq!(interface.ipv4.is_none() && interface.ipv6.is_none(), is_port);
                for ip in interface.families() {
                    prop_assert_eq!(ip.method == Method::Manual, !ip.addresses.is_empty() && !ip.method.is_automatic());
                    prop_assert!(ip.gateway.is_none() || !ip.addresses.is_empty());
                    prop_assert!(ip.method != Method::Disabled || (ip.dns.is_empty() && !ip.required));
                }
                prop_assert!(!interface.multi || is_port || interface.ipv4.as_ref().unwrap().addresses.is_empty());
                let has_mode = match &interface.kind {
                    InterfaceKind::Bond { options } => options.contains_key("mode"),
                    _ => true,
                };
                prop_assert!(has_mode, "a bond always has a mode");
            }
            let order: Vec<_> = plan.interfaces.iter().map(|i| (&i.matches, i.multi)).collect();
            prop_assert!(order.is_sorted());
            prop_assert!(!crate::describe::describe(&plan).is_empty());
            serde_json::to_string(&plan).unwrap();
        }
        prop_assert!(!NetworkPlan::for_boot(&args).interfaces.is_empty());
    }
}
