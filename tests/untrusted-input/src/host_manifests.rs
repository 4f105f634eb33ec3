//! Fuzz functions for files in which users describe their hosts to other programs.

use landfall_host_manifests::{ManifestFile, Reading, read_bare_metal_hosts, read_install_config};
use landfall_network_plan::EmbeddedHost;

/// Reads install-config.yaml of OpenShift's installer.
pub fn openshift_install_config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut reading = Reading::default();
    read_install_config("f", &text, &mut reading);
    check(&reading);
}

/// Reads BareMetalHosts and Secrets.
pub fn bare_metal_hosts(data: &[u8]) {
    let file = ManifestFile {
        title: "f".to_owned(),
        text: String::from_utf8_lossy(data).into_owned(),
    };
    let mut reading = Reading::default();
    read_bare_metal_hosts(&[file], &mut reading);
    check(&reading);
}

/// Checks that each message is one line, because the builder prints the messages as a
/// list, and that the agent can read what the builder writes.
fn check(reading: &Reading) {
    let found = !reading.given.is_empty() || !reading.faults.is_empty();
    assert!(found, "neither a host nor a fault");
    for line in reading.faults.iter().chain(&reading.warnings) {
        assert!(line.starts_with("f: ") && !line.contains('\n'), "{line:?}");
    }
    if !reading.faults.is_empty() {
        return;
    }
    for given in &reading.given {
        let stored = given.host.to_json();
        assert_eq!(EmbeddedHost::from_json(&stored).as_ref(), Ok(&given.host));
        assert!(!given.host.name().contains('/'));
        let _ = given.host.plan();
    }
}
