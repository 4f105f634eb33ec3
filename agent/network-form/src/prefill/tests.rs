use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use landfall_boot_params::NetArgs;
use landfall_network_plan::{Choice, Document, Embedded, EmbeddedHost, Keyfile};
use proptest::prelude::*;

use super::*;
use crate::NetworkForm;
use crate::tests::{looks_like_the_guide, nics, prefill};

/// The plan of an embedded host with this NMState document.
fn embedded(document: &str) -> NetworkPlan {
    let host = EmbeddedHost {
        host_name: None,
        macs: Vec::new(),
        nics: BTreeMap::new(),
        root_device_hints: None,
        document: Document::NmState(document.to_owned()),
    };
    let embedded = Embedded {
        host: Some(host),
        hosts: 1,
        ..Embedded::default()
    };
    let choice = Choice::for_boot(&embedded, None, &NetArgs::parse("ip=dhcp"));
    assert_eq!(choice.faults, [""; 0], "{document}");
    choice.plan
}

/// A NIC with an address and a gateway. `more` has further keys of the document.
fn eth0(more: &str) -> String {
    let address = "{ip: 192.0.2.10, prefix-length: 24}";
    format!(
        "interfaces: [{{name: eth0, type: ethernet, ipv4: {{enabled: true, address: [{address}]}}}}]\n\
         routes: {{config: [{{destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, \
         next-hop-interface: eth0}}]}}\n{more}"
    )
}

/// A bond with a VLAN. The NICs are identified by address, in reverse order.
const BOND_BY_MAC: &str = "\
interfaces:
  - {name: a, type: ethernet, identifier: mac-address, mac-address: '52:54:00:00:00:02'}
  - {name: b, type: ethernet, identifier: mac-address, mac-address: '52:54:00:00:00:01'}
  - name: bond7
    type: bond
    link-aggregation: {mode: 802.3ad, options: {miimon: 100, lacp_rate: fast}, port: [a, b]}
  - name: bond7.60
    type: vlan
    vlan: {base-iface: bond7, id: 60}
    ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}
dns-resolver: {config: {server: [192.0.2.53]}}
routes:
  config:
    - {destination: 0.0.0.0/0, next-hop-address: 192.0.2.1, next-hop-interface: bond7.60}
";

fn texts(lost: &[Fact]) -> Vec<String> {
    let text = |fact: &Fact| format!("{}: {}", fact.name, fact.text.replace(OTHER, ""));
    lost.iter().map(text).collect()
}

#[test]
fn an_embedded_plan_fills_every_field() {
    let prefill = prefill(&embedded(BOND_BY_MAC));
    let expected = "bond=bond0:eth1,eth0:mode=802.3ad,miimon=100 vlan=vlan60:bond0 \
                    ip=192.0.2.10::192.0.2.1:24::vlan60:none nameserver=192.0.2.53";
    assert_eq!(prefill.values.arguments().as_deref(), Ok(expected));
    assert_eq!(texts(&prefill.lost), ["bond7: bond option lacp_rate=fast"]);
    assert!(prefill.replaced.is_empty());
    let form = NetworkForm::new(nics(), prefill, Box::new(|_| Ok(())));
    looks_like_the_guide(&form);
}

/// The notice names exactly the settings that the form cannot express.
#[test]
fn settings_outside_the_form_are_named() {
    let static_eth1 = "{name: eth1, type: ethernet, ipv4: {enabled: true, dhcp: true}}";
    let table: &[(String, &[&str])] = &[
        (eth0(""), &[]),
        (
            eth0("dns-resolver: {config: {server: [192.0.2.53], search: [lab.example]}}"),
            &[": search domain lab.example"],
        ),
        (
            eth0("").replace("prefix-length: 24}", "prefix-length: 24}, {ip: 192.0.2.11, prefix-length: 24}"),
            &["eth0: address 192.0.2.11/24"],
        ),
        (
            eth0("").replace("interfaces: [", &format!("interfaces: [{static_eth1}, ")),
            &["eth1: IPv4 by DHCP"],
        ),
        (
            eth0("").replace("name: eth0, type: ethernet", "name: eth0, type: ethernet, mtu: 9000"),
            &["eth0: MTU 9000"],
        ),
        (
            eth0("").replace(
                "config: [",
                "config: [{destination: 198.51.100.0/24, next-hop-address: 192.0.2.9, \
                 next-hop-interface: eth0}, ",
            ),
            &["eth0: route 198.51.100.0/24 via 192.0.2.9"],
        ),
        (
            eth0("").replace(
                "type: ethernet, ",
                "type: ethernet, ipv6: {enabled: true, address: [{ip: '2001:db8::10', prefix-length: 64}]}, ",
            ),
            &["eth0: address 2001:db8::10/64"],
        ),
        (
            "interfaces: [{name: br0, type: linux-bridge, bridge: {port: [{name: eth0}]}, \
             ipv4: {enabled: true, address: [{ip: 192.0.2.10, prefix-length: 24}]}}]"
                .to_owned(),
            &["br0: bridge", "eth0: port of br0"],
        ),
        (
            BOND_BY_MAC.replace("port: [a, b]", "port: [a, b, eth9]"),
            &["bond7: bond option lacp_rate=fast", "eth9: port of bond0"],
        ),
    ];
    for (document, expected) in table {
        let prefill = prefill(&embedded(document));
        assert_eq!(texts(&prefill.lost), *expected, "{document}");
        assert!(prefill.replaced.is_empty(), "{document}");
    }
}

/// NICs that no keyfile describes get addresses by DHCP and router advertisements. The
/// notice names this, because the form cannot express it.
#[test]
fn keyfiles_lose_the_addresses_of_the_other_nics() {
    let text = "[connection]\nid=lan\ntype=ethernet\ninterface-name=ens0\n\
                [ipv4]\nmethod=manual\naddress1=192.0.2.10/24,192.0.2.1\n\
                [ipv6]\nmethod=disabled\n";
    let embedded = Embedded {
        keyfiles: vec![Keyfile {
            name: "lan.nmconnection".to_owned(),
            text: text.to_owned(),
        }],
        ..Embedded::default()
    };
    let choice = Choice::for_boot(&embedded, None, &NetArgs::default());
    assert_eq!(choice.faults, [""; 0]);
    let prefill = prefill(&choice.plan);
    let expected = "ip=192.0.2.10::192.0.2.1:24::eth0:none";
    assert_eq!(prefill.values.arguments().as_deref(), Ok(expected));
    let others = "every other NIC: IPv4 by DHCP, IPv6 by router advertisements";
    let notice = prefill.notice().unwrap();
    assert!(
        notice.ends_with(&format!("2 things are lost: {others}")),
        "{notice}"
    );
}

#[test]
fn a_nic_that_does_not_exist_is_replaced_and_the_rest_stays() {
    let document = BOND_BY_MAC.replace("'52:54:00:00:00:02'", "'52:54:00:00:00:09'");
    let prefill = prefill(&embedded(&document));
    let expected = "bond=bond0:eth0,eth1:mode=802.3ad,miimon=100 ";
    assert!(prefill.values.arguments().unwrap().starts_with(expected));
    let notice = prefill.notice().unwrap();
    let replaced = "the NIC with MAC 52:54:00:00:00:09 does not exist here; eth1 takes its place.";
    assert!(notice.starts_with(replaced), "{notice}");
    assert_eq!(texts(&prefill.lost), ["bond7: bond option lacp_rate=fast"]);
}

#[test]
fn a_long_list_ends_with_a_number() {
    let addresses: Vec<_> = (11..41)
        .map(|host| format!("{{ip: 192.0.2.{host}, prefix-length: 24}}"))
        .collect();
    let more = format!("prefix-length: 24}}, {}", addresses.join(", "));
    let document = eth0("").replace("prefix-length: 24}", &more);
    let notice = prefill(&embedded(&document)).notice().unwrap();
    assert!(
        notice.contains(" 30 things are lost: eth0: address 192.0.2.11/24, "),
        "{notice}"
    );
    assert!(notice.ends_with(" more") && notice.len() < 350, "{notice}");
}

fn values() -> impl Strategy<Value = Values> {
    let network = (any::<bool>(), any::<bool>(), 2_u8..255, any::<bool>());
    let link = (
        prop::bool::ANY,
        prop::option::of(any::<bool>()),
        prop::option::of(1_u16..4095),
    );
    let servers = prop::collection::btree_set(1_u8..255, 0..3);
    let name = prop::option::of("[a-z][a-z0-9]{0,8}");
    (network, link, servers, name).prop_map(|(network, link, servers, host_name)| {
        let (is_ipv4, is_static, host, has_gateway) = network;
        let (is_eth1, lacp, vlan) = link;
        let address = |host: u8| match is_ipv4 {
            true => IpAddr::from([192, 0, 2, host]),
            false => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()).into(),
        };
        let length = if is_ipv4 { 24 } else { 64 };
        let names = if is_eth1 {
            ["eth1", "eth0"]
        } else {
            ["eth0", "eth1"]
        };
        let servers: Vec<_> = servers
            .iter()
            .map(|host| address(*host).to_string())
            .collect();
        let mut values = Values {
            nic: names[0].to_owned(),
            second: lacp.map(|_| names[1].to_owned()),
            lacp: lacp.unwrap_or_default(),
            vlan: vlan.map(|id| id.to_string()).unwrap_or_default(),
            dns: servers.join(","),
            host_name,
            ..Values::default()
        };
        if is_static {
            values.address = format!("{}/{length}", address(host));
            if has_gateway {
                values.gateway = address(1).to_string();
            }
        }
        values
    })
}

proptest! {
    /// If the form opens again, it shows all values that it has tried.
    #[test]
    fn the_forms_own_arguments_come_back(values in values()) {
        let arguments = values.arguments().unwrap();
        let plan = NetworkPlan::for_boot(&NetArgs::parse(&arguments));
        let found = prefill(&plan);
        prop_assert_eq!(&found.values, &values, "{}", arguments);
        prop_assert_eq!(found.notice(), None);
    }

    /// Keyfiles that describe the same network fill the form with the same values.
    #[test]
    fn so_does_the_same_network_in_keyfiles(values in values()) {
        let arguments = values.arguments().unwrap();
        let keyfiles = NetworkPlan::for_boot(&NetArgs::parse(&arguments)).keyfiles();
        let plan = NetworkPlan::from_keyfiles(&keyfiles).unwrap();
        let found = prefill(&plan).values;
        // Keyfiles contain no host name and no order of the ports.
        let mut expected = Values { host_name: found.host_name.clone(), ..values };
        if let Some(second) = &mut expected.second
            && *second < expected.nic
        {
            std::mem::swap(second, &mut expected.nic);
        }
        prop_assert_eq!(found, expected, "{}", arguments);
    }
}
