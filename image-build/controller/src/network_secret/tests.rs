use proptest::prelude::*;

use super::*;

const NMSTATE_TEXT: &str = "\
interfaces:
- name: eno1
  type: ethernet
  state: up
  mac-address: 52:54:00:00:00:01
  ipv4:
    enabled: true
    address:
    - ip: 192.0.2.50
      prefix-length: 24
";
const NETWORK_DATA_TEXT: &str = r#"{"links": [{"id": "eno1", "type": "phy",
    "ethernet_mac_address": "52:54:00:00:00:01"}],
    "networks": [{"id": "n0", "link": "eno1", "type": "ipv4_dhcp"}]}"#;
const NETWORK_DATA_YAML: &str = "\
links:
- id: eno1
  type: phy
  ethernet_mac_address: 52:54:00:12:34:56
networks:
- id: n0
  link: eno1
  type: ipv4
  ip_address: 192.0.2.50
  netmask: 255.255.255.0
";

fn secret(keys: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    let pair = |(key, text): &(&str, &str)| ((*key).to_owned(), ByteString((*text).into()));
    keys.iter().map(pair).collect()
}

#[test]
fn which_key_counts() {
    let quoted = serde_json::to_string(NMSTATE_TEXT).unwrap();
    for (keys, expected) in [
        (&[("nmstate", NMSTATE_TEXT)][..], "nmstate"),
        (&[("nmstate", &quoted)], "nmstate"),
        (&[("networkData", NETWORK_DATA_TEXT)], "network_data"),
        (&[("networkData", NETWORK_DATA_YAML)], "network_data"),
        (&[("value", NETWORK_DATA_TEXT)], "network_data"),
        (
            &[
                ("networkData", NETWORK_DATA_TEXT),
                ("nmstate", NMSTATE_TEXT),
            ],
            "nmstate",
        ),
        (
            &[("networkData", NETWORK_DATA_TEXT), ("nmstate", "")],
            "network_data",
        ),
        (
            &[("value", "no"), ("networkData", NETWORK_DATA_TEXT)],
            "network_data",
        ),
        (&[("nmstate", "")], "none"),
        (&[], "none"),
    ] {
        let document = network_document(&secret(keys)).unwrap();
        assert_eq!(document.kind(), expected, "{keys:?}");
    }
}

/// The text in the image is the operator's own, without the quotes.
#[test]
fn a_quoted_document_is_unwrapped() {
    let quoted = serde_json::to_string(NMSTATE_TEXT).unwrap();
    let document = network_document(&secret(&[("nmstate", &quoted)])).unwrap();
    assert_eq!(document.text(), NMSTATE_TEXT);
}

#[test]
fn a_hardware_address_in_yaml_stays_text() {
    let document = network_document(&secret(&[("networkData", NETWORK_DATA_YAML)])).unwrap();
    assert!(
        document.text().contains("\"52:54:00:12:34:56\""),
        "{}",
        document.text()
    );
}

#[test]
fn what_cannot_be_used() {
    let long = format!("interfaces: []\n#{}", "x".repeat(1 << 20));
    let netplan = "version: 2\nethernets:\n  eno1:\n    dhcp4: true\n";
    for (keys, expected) in [
        (
            &[("username", "admin"), ("password", "hunter2")][..],
            "the Secret has no network data: expected the key nmstate, networkData or value, \
             found password, username",
        ),
        (
            &[("nmstate", &long)],
            "nmstate: expected at most 262144 bytes, found 1048592",
        ),
        (
            &[("nmstate", "--- {}")],
            "nmstate: no network configuration",
        ),
        (
            &[("networkData", netplan)],
            "networkData: expected OpenStack's network_data with links and networks, found netplan",
        ),
        (
            &[("value", "{\"links\": []}")],
            "value: it describes no link",
        ),
        (&[("nmstate", "interfaces: [")], "nmstate: expected YAML: "),
    ] {
        let fault = network_document(&secret(keys)).unwrap_err().to_string();
        assert!(fault.starts_with(expected), "{fault}");
    }
    let binary = [("nmstate".to_owned(), ByteString(vec![0xff, 0xfe]))];
    let fault = network_document(&binary.into()).unwrap_err();
    assert_eq!(fault, SecretFault::NotText("nmstate"));
}

/// Aliases that multiply to billions of values.
#[test]
fn a_yaml_bomb_is_refused_at_once() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        let list = [below.as_str(); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{list}]\n");
    }
    let deep = "[".repeat(100_000);
    for text in [&bomb, &deep] {
        for key in ["nmstate", "networkData", "value"] {
            let begin = std::time::Instant::now();
            let fault = network_document(&secret(&[(key, text)])).unwrap_err();
            assert!(begin.elapsed().as_secs() < 5, "{fault}");
            assert!(fault.to_string().len() < 4096, "{fault}");
        }
    }
}

#[test]
fn the_report_of_faults_has_a_limit() {
    let interface = "- name: eno1\n  type: nonsense\n";
    let text = format!("interfaces:\n{}", interface.repeat(500));
    let fault = network_document(&secret(&[("nmstate", &text)])).unwrap_err();
    assert!(fault.to_string().ends_with("more"), "{fault}");
}

proptest! {
    #[test]
    fn what_is_accepted_can_be_read_in_the_ramdisk(text in "[a-z:\\[\\]{}\\- \n\"]{0,60}") {
        for key in ["nmstate", "networkData"] {
            match network_document(&secret(&[(key, &text)])) {
                Ok(Document::NmState(text)) => {
                    prop_assert!(NetworkPlan::from_nmstate(&text).is_ok());
                }
                Ok(Document::NetworkData(text)) => {
                    prop_assert!(NetworkPlan::from_network_data(&text).is_ok());
                }
                Ok(Document::None) => prop_assert!(text.is_empty()),
                Err(fault) => prop_assert!(!fault.to_string().is_empty()),
            }
        }
    }
}
