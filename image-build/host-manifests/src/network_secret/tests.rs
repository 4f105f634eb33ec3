use landfall_network_plan::NetworkPlan;
use proptest::prelude::*;

use super::*;

const NMSTATE_TEXT: &str = "\
interfaces:
- name: eno1
  type: ethernet
  state: up
  mac-address: 52:54:00:00:00:01
";
const DATA: &str = r#"{"links": [{"id": "eno1", "type": "phy",
    "ethernet_mac_address": "52:54:00:00:00:01"}],
    "networks": [{"id": "n0", "link": "eno1", "type": "ipv4_dhcp"}]}"#;
const DATA_YAML: &str = "\
links:
- id: eno1
  type: phy
  ethernet_mac_address: 52:54:00:12:34:56
networks: []
";

fn of(keys: &[(&str, &str)]) -> Result<Document, NetworkSecretError> {
    let data = keys.iter().map(|(key, text)| (*key, text.as_bytes()));
    network_of_keys(&data.collect())
}

/// Checks which key takes effect, and that the operator's text stays unchanged.
#[test]
fn the_first_key_that_is_not_empty() {
    let nmstate = || Document::NmState(NMSTATE_TEXT.to_owned());
    let network_data = || Document::NetworkData(DATA.to_owned());
    let quoted = |text: &str| Value::from(text).to_string();
    for (keys, expected) in [
        (&[("nmstate", NMSTATE_TEXT)][..], nmstate()),
        (&[("nmstate", &quoted(NMSTATE_TEXT))], nmstate()),
        (&[("networkData", DATA)], network_data()),
        (&[("networkData", &quoted(DATA))], network_data()),
        (&[("value", DATA)], network_data()),
        (
            &[("networkData", DATA), ("nmstate", NMSTATE_TEXT)],
            nmstate(),
        ),
        (&[("networkData", DATA), ("nmstate", "")], network_data()),
        (&[("value", DATA), ("networkData", " \n")], network_data()),
        (&[("value", "no"), ("networkData", DATA)], network_data()),
        (&[("nmstate", ""), ("password", "hunter2")], Document::None),
        (&[("nmstate", "")], Document::None),
        (&[], Document::None),
    ] {
        assert_eq!(of(keys).unwrap(), expected, "{keys:?}");
    }
}

#[test]
fn a_hardware_address_in_yaml_stays_text() {
    let quoted = Value::from(DATA_YAML).to_string();
    for text in [DATA_YAML, &quoted] {
        let document = of(&[("networkData", text)]).unwrap();
        assert!(
            document.text().contains("\"52:54:00:12:34:56\""),
            "{document:?}"
        );
    }
}

#[test]
fn invalid_descriptions_are_rejected() {
    let long = format!("interfaces: []\n#{}", "x".repeat(LARGEST));
    let netplan =
        "networkData: expected OpenStack's network_data with links and networks, found netplan";
    for (keys, expected) in [
        (
            &[("username", "admin"), ("password", "hunter2")][..],
            "expected one of the keys nmstate, networkData and value, found password, username",
        ),
        (
            &[("nmstate", &long)],
            "nmstate: expected at most 262144 bytes, found 262160",
        ),
        (
            &[("nmstate", "--- {}")],
            "nmstate: expected NMState, found no settings -- leave it out, and the host uses DHCP",
        ),
        (
            &[("networkData", "version: 2\nethernets:\n  eno1: {}\n")],
            netplan,
        ),
        (&[("networkData", "bonds: {}\n")], netplan),
        (&[("networkData", "network: {config: disabled}\n")], netplan),
    ] {
        assert_eq!(of(keys).unwrap_err().to_string(), expected);
    }
    let bytes = [0xff, 0xfe];
    let fault = network_of_keys(&[("nmstate", &bytes[..])].into()).unwrap_err();
    assert_eq!(fault, NetworkSecretError::NoText { key: "nmstate" });
}

/// The first text has aliases that expand to 10^12 values. The second text is nested
/// 100000 levels deep.
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
        for key in NETWORK_KEYS {
            let begin = std::time::Instant::now();
            let result = of(&[(key, text)]);
            assert!(begin.elapsed().as_secs() < 5, "{result:?}");
            match result {
                Ok(document) => assert!(NetworkPlan::from_nmstate(document.text()).is_err()),
                Err(fault) => assert!(fault.to_string().len() < 4096, "{fault}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_a_description_or_a_fault(text in "[a-z:\\[\\]{}\\- \n\"]{0,60}") {
        for key in NETWORK_KEYS {
            match of(&[(key, &text)]) {
                Ok(Document::None) => prop_assert!(text.trim().is_empty()),
                Ok(_) => {}
                Err(fault) => prop_assert!(fault.to_string().starts_with(key)),
            }
        }
    }
}
