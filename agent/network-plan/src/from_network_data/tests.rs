use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// `NAME.json` in `test_data/network_data` gives the plan in `NAME.plan`, in the
/// normal form.
#[test]
fn every_document_gives_its_plan() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/network_data");
    let mut checked = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let plan = NetworkPlan::from_network_data(&text).unwrap();
        let found = serde_json::to_value(&plan).unwrap();
        let shown = serde_json::to_string_pretty(&found).unwrap();
        let expected = fs::read_to_string(path.with_extension("plan")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(found, expected, "{}: found:\n{shown}", path.display());
        checked += 1;
    }
    assert!(
        checked > 10,
        "only {checked} documents in {}",
        dir.display()
    );
}

#[test]
fn two_links_with_one_nic_are_one_link() {
    let plan = NetworkPlan::from_network_data(
        r#"{"links": [
        {"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:0a"},
        {"id": "b", "type": "vif", "ethernet_mac_address": "52:54:00:00:00:0A", "mtu": 9000},
        {"id": "v", "type": "vlan", "vlan_link": "b", "vlan_id": 5}],
        "networks": [
        {"id": "m", "type": "ipv4_dhcp", "link": "a"},
        {"id": "n", "type": "ipv6_slaac", "link": "b"}]}"#,
    );
    let plan = plan.unwrap();
    let [nic, vlan] = &plan.interfaces[..] else {
        panic!("{plan:?}");
    };
    let method = |ip: &Option<IpPlan>| ip.as_ref().unwrap().method;
    assert_eq!(method(&nic.ipv4), Method::Auto);
    assert_eq!(method(&nic.ipv6), Method::Auto);
    assert_eq!(nic.mtu, Some(9000));
    assert_eq!(vlan.matches.name.as_deref(), Some("a.5"));
    assert_eq!(
        plan.warnings,
        ["link b: ethernet_mac_address is that of link a; treated as the same link"]
    );
}

fn error(text: &str) -> String {
    NetworkPlan::from_network_data(text)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_document_without_use_is_an_error() {
    let nic = r#"{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}"#;
    for (text, expected) in [
        (
            "",
            "expected JSON: EOF while parsing a value at line 1 column 0",
        ),
        ("[]", "expected an object with links and networks"),
        ("{}", "it describes no link"),
        (r#"{"links": null, "networks": []}"#, "it describes no link"),
        (r#"{"links": {}}"#, "no link can be used"),
        (
            &format!(r#"{{"links": [{nic}], "networks": [{{"type": "ipv4", "link": "a"}}]}}"#),
            "no network can be used",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    let long = format!("{{\"links\": [{nic}], \"x\": \"{}\"}}", "x".repeat(LARGEST));
    assert!(error(&long).starts_with("expected at most 1048576 bytes, found "));
    // A link that is only brought up is not a fault.
    let up = format!("\u{feff}{{\"links\": [{nic}], \"networks\": []}}");
    assert_eq!(
        NetworkPlan::from_network_data(&up).unwrap().warnings,
        [""; 0]
    );
}

#[test]
fn faults_are_reported_up_to_a_limit() {
    let links: Vec<_> = (0..600)
        .map(|n| json!({ "id": n, "type": "phy" }))
        .collect();
    let error = NetworkPlan::from_network_data(&json!({ "links": links }).to_string());
    let error = error.unwrap_err();
    assert_eq!(error.warnings().len(), 65);
    assert_eq!(
        error.warnings()[0],
        "link: expected at most 512, found 600; the rest is ignored"
    );
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (0u32..5000).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        "(52:54:00:00:00:0[1-3]|[a-c]|192\\.0\\.2\\.[0-9]|2001:db8::[1-9](/64)?|255\\.255\\.0\\.0|::|0\\.0\\.0\\.0)"
            .prop_map(Value::from),
        "(phy|bond|vlan|ipv4|ipv6|ipv4_dhcp|ipv6_slaac|dns|802\\.3ad|\\PC{0,5})".prop_map(Value::from),
        proptest::collection::vec("[a-c]", 0..3).prop_map(Value::from),
    ]
}

fn object() -> impl Strategy<Value = Value> {
    let key = "(id|type|link|ethernet_mac_address|vlan_link|vlan_id|vlan_mac_address|bond_links|bond_mode|bond_miimon|mtu|ip_address|netmask|gateway|network|address|services|routes)";
    let nested = proptest::collection::vec((key, value()), 0..8)
        .prop_map(|pairs| pairs.into_iter().collect::<Value>());
    let routes = proptest::collection::vec(nested, 0..3);
    (proptest::collection::vec((key, value()), 3..10), routes).prop_map(|(pairs, routes)| {
        let mut object: Value = pairs.into_iter().collect();
        object["routes"] = routes.into();
        object
    })
}

proptest! {
    #[test]
    fn every_plan_can_be_applied(
        links in proptest::collection::vec(object(), 0..6),
        networks in proptest::collection::vec(object(), 0..6),
        services in proptest::collection::vec(object(), 0..3),
    ) {
        let text = json!({"links": links, "networks": networks, "services": services}).to_string();
        let Ok(plan) = NetworkPlan::from_network_data(&text) else {
            return Ok(());
        };
        let names: Vec<_> = plan.interfaces.iter().filter_map(|i| i.matches.name.as_ref()).collect();
        for interface in &plan.interfaces {
            let is_port = interface.controller.is_some();
            prop_assert_eq!(is_port, interface.ipv4.is_none() && interface.ipv6.is_none());
            prop_assert!(interface.controller.as_ref().is_none_or(|name| names.contains(&name)));
            for (ip, is_ipv4) in [(&interface.ipv4, true), (&interface.ipv6, false)] {
                let Some(ip) = ip else { continue };
                prop_assert!(ip.addresses.iter().all(|a| a.address.is_ipv4() == is_ipv4));
                prop_assert!(ip.routes.iter().all(|r| r.destination.address.is_ipv4() == is_ipv4));
                prop_assert!(ip.routes.iter().all(|r| r.via.is_none_or(|via| via.is_ipv4() == is_ipv4)));
                prop_assert!(ip.gateway.is_none() || !ip.addresses.is_empty());
                prop_assert!(ip.method != Method::Disabled || (ip.dns.is_empty() && !ip.required));
                prop_assert_eq!(ip.method == Method::Manual, !ip.addresses.is_empty() && !ip.method.is_automatic());
            }
        }
        let mut once = names.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), names.len(), "two interfaces of one name");
        prop_assert!(!crate::describe::describe(&plan).is_empty());
        serde_json::to_string(&plan).unwrap();
    }
}
