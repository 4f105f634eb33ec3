//! The container for OpenShift's `ironicAgentImage`.
//!
//! These tests check the content of the container, and start it where it must not run.
//! The end-to-end tests start it in a live system (`tests/e2e/agent_container.rs`).

use serde_json::Value;

use crate::podman::Podman;
use crate::{output, run};

const IMAGE: &str = concat!("localhost/landfall-agent:", env!("CARGO_PKG_VERSION"));

#[test]
fn the_agent_reads_the_configuration_of_the_image_and_of_the_unit() {
    let podman = Podman::with_image("landfall-agent.tar", IMAGE);
    let host = tempfile::tempdir().unwrap();
    // The file that image-customization-controller writes, with the empty values that the
    // current cluster-baremetal-operator passes.
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
fn the_image_names_the_agent_as_its_program() {
    let podman = Podman::with_image("landfall-agent.tar", IMAGE);
    let inspected = run(podman.command().args(["image", "inspect", IMAGE]));
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let config = &inspected[0]["Config"];
    let entrypoint = ["/usr/local/bin/landfall-agent", "run"];
    assert_eq!(config["Entrypoint"], serde_json::json!(entrypoint));
    assert_eq!(inspected[0]["Architecture"], "amd64");
}

/// A user who starts the container on another machine must not lose the disks of that
/// machine. The test does not use `--privileged`, so that the container sees no disks if
/// the agent runs nevertheless.
#[test]
fn it_refuses_to_run_without_the_unit() {
    let podman = Podman::with_image("landfall-agent.tar", IMAGE);
    let nothing = tempfile::tempdir().unwrap();
    for (options, missing) in [
        (
            &[][..],
            &["expected to be in two PID namespaces, found 0"][..],
        ),
        (
            &["--name=ironic-agent", "--volume=/proc:/mnt/coreos/proc:ro"],
            // The second message appears if this machine is a container.
            &[
                "expected the root of the host's PID 1 at /mnt/coreos",
                "expected the host's procfs at /mnt/coreos/proc",
            ],
        ),
    ] {
        let mut command = podman.run(nothing.path(), "/nothing");
        // In seconds: podman stops an agent that wrongly runs, because it does not end by
        // itself.
        command.arg("--timeout=120").args(options).arg(IMAGE);
        let output = output(&mut command);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{options:?}: {error}");
        let refusal = "this container is not OpenShift's agent container on a live system: ";
        let (_, reason) = error
            .split_once(refusal)
            .unwrap_or_else(|| panic!("{options:?}: expected {refusal:?}, found {error}"));
        let is_expected = missing.iter().any(|missing| reason.starts_with(missing));
        assert!(is_expected, "{options:?}: {error}");
        assert!(reason.contains("; nothing was changed"), "{error}");
    }
}
