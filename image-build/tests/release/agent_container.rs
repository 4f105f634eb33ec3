//! The container for OpenShift's `ironicAgentImage`.
//!
//! These tests are about its content. The end-to-end tests start it in a live system
//! (`tests/e2e/agent_container.rs`).

use serde_json::Value;

use crate::podman::Podman;
use crate::run;

const IMAGE: &str = concat!("localhost/landfall-agent:", env!("CARGO_PKG_VERSION"));

#[test]
fn the_agent_reads_the_configuration_of_the_image_and_of_the_unit() {
    let podman = Podman::with_image("landfall-agent.tar", IMAGE);
    let host = tempfile::tempdir().unwrap();
    // What image-customization-controller writes, with the empty values of current
    // cluster-baremetal-operator.
    let file = host.path().join("ironic-python-agent.conf");
    std::fs::write(
        &file,
        "[DEFAULT]\napi_url = https://192.0.2.5:6385,https://192.0.2.6:6385\n\
         inspection_callback_url = \ninsecure = True\nenable_vlan_interfaces = \n",
    )
    .unwrap();
    let mut command = podman.run(&file, "/etc/ironic-python-agent/ignition.conf");
    command.args(["--entrypoint", "/usr/local/bin/landfall-agent", IMAGE]);
    let shown = run(command.args(["show-params", "--json"]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let text = shown.to_string();
    assert!(text.contains("https://192.0.2.6:6385"), "{text}");
    assert!(text.contains("00-defaults.conf"), "{text}");
    assert!(text.contains("ignition.conf"), "{text}");
}

#[test]
fn the_image_starts_the_agent() {
    let podman = Podman::with_image("landfall-agent.tar", IMAGE);
    let inspected = run(podman.command().args(["image", "inspect", IMAGE]));
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let config = &inspected[0]["Config"];
    let entrypoint = ["/usr/local/bin/landfall-agent", "run"];
    assert_eq!(config["Entrypoint"], serde_json::json!(entrypoint));
    assert_eq!(inspected[0]["Architecture"], "amd64");
}
