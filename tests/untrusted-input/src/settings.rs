//! Fuzz functions for settings from files and media.

use landfall_boot_params::{BootParams, Origin};
use landfall_http_client::tls::pem_files;
use landfall_ignition_config::ConfigIgn;
use landfall_network_plan::{Keyfile, NetworkPlan};

/// Reads a configuration file. The input is also read as parameters.txt, and its lines
/// as settings from mDNS and from a lookup.
pub fn config_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut params = BootParams::default();
    params.read_parameters("/dev/sr0", &text);
    params.read_file("f.conf", &text);
    params.check_together();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let _ = params.apply_mdns(key, value);
        let _ = params.apply_override(key.trim(), value, Origin::Lookup);
    }
    let _ = (params.list().len(), params.not_supported_yet());
    let _ = params.inspection_urls();
}

/// Reads an Ignition config. The parts that the agent takes from it are passed to the
/// parsers that read them at boot.
pub fn config_ign(data: &[u8]) {
    if let Ok(config) = ConfigIgn::read(data) {
        read_parts(&config);
    }
}

/// Reads the parts of a config as the agent does at boot.
pub(crate) fn read_parts(config: &ConfigIgn) {
    for line in [&config.applied, &config.not_applied, &config.not_needed]
        .into_iter()
        .flatten()
    {
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    assert!(config.not_applied.len() < 100);
    let mut params = BootParams::default();
    for file in &config.agent_files {
        params.read_file(&file.path, &String::from_utf8_lossy(&file.content));
    }
    for file in config.agent_files.iter().chain(&config.companions) {
        let is_ours = file.path.starts_with("/etc/ironic-python-agent")
            || file.path.starts_with("/etc/landfall/");
        assert!(is_ours && !file.path.contains("/../"), "{}", file.path);
    }
    let keyfiles = config.keyfiles.iter().map(|file| Keyfile {
        name: file.path.clone(),
        text: String::from_utf8_lossy(&file.content).into_owned(),
    });
    let keyfiles: Vec<Keyfile> = keyfiles.collect();
    assert!(keyfiles.iter().all(|file| !file.name.contains(['/', '\0'])));
    let _ = NetworkPlan::from_keyfiles(&keyfiles);
    for file in &config.authorities {
        let _ = pem_files::certificates_of(&file.path, &file.content);
    }
}
