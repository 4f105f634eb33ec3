//! Applies `config` of Ironic's lookup answer: the options that Ironic sets on
//! every agent.

use landfall_boot_params::{BootParams, Origin};
use serde_json::Value;

/// The members of `config`, with the options that they set. [`apply`] also handles the
/// options in `agent_containers`. All other members are not options: the token is handled
/// separately, and the agent sends no metrics.
const OPTIONS: &[(&str, &str)] = &[
    ("heartbeat_timeout", "heartbeat_timeout"),
    ("agent_md5_checksum_enable", "md5_enabled"),
    (
        "disable_deep_image_inspection",
        "disable_deep_image_inspection",
    ),
    ("permitted_image_formats", "permitted_image_formats"),
    ("agent_skip_bmc_detect", "agent_skip_bmc_detect"),
    (
        "enable_bios_bootloader_install",
        "enable_bios_bootloader_install",
    ),
    ("tls_min_version", "tls_min_version"),
    ("tls_cipher_suites", "tls_cipher_suites"),
];

/// Applies `config`, which overrides the settings of the boot. A `null` changes nothing.
/// Returns the ignored options with the reason, one line each. Skips members that are not
/// options.
pub(super) fn apply(params: &mut BootParams, config: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let containers = config.get("agent_containers").and_then(Value::as_object);
    let containers = containers.into_iter().flatten().map(|(name, value)| {
        let option = format!("container.{name}");
        (format!("agent_containers.{name}"), option, value)
    });
    let options = OPTIONS.iter().filter_map(|&(member, option)| {
        Some((member.to_owned(), option.to_owned(), config.get(member)?))
    });
    for (member, option, value) in options.chain(containers) {
        match text_of(value) {
            Some(text) => warnings.extend(params.apply_override(&option, &text, Origin::Lookup)),
            None if value.is_null() => {}
            None => warnings.push(format!(
                "lookup: {member}: expected text, a number, a boolean or a list of texts; ignored"
            )),
        }
    }
    warnings
}

/// The value as it would be written in a configuration file. `None` for `null`, an
/// object, and a list that contains anything but texts.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(value) => Some(value.clone()),
        Value::Array(list) => {
            let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            Some(texts?.join(","))
        }
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use landfall_boot_params::argument_value::TlsVersion;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_of_a_real_conductor() {
        // Members of `config` in an answer of Ironic 39, also some that are not options.
        let config = json!({
            "metrics": {"backend": "noop"}, "metrics_statsd": {"statsd_host": "localhost"},
            "heartbeat_timeout": 30, "agent_token": "******", "agent_token_required": true,
            "agent_md5_checksum_enable": true, "disable_deep_image_inspection": false,
            "permitted_image_formats": ["raw", "gpt", "qcow2", "iso"],
            "agent_skip_bmc_detect": true, "enable_bios_bootloader_install": false,
            "tls_min_version": "1.3", "tls_cipher_suites": null,
            "agent_containers": {"allow_arbitrary_containers": false,
                "allowed_containers": [], "container_steps_file": "/etc/steps.yaml",
                "runner": "podman", "pull_options": "--tls-verify=false", "run_options": ""},
        });
        let mut params = BootParams::default();
        assert!(!*params.md5_enabled, "the default");
        assert_eq!(apply(&mut params, &config), [""; 0]);
        assert_eq!(params.heartbeat_timeout.value, Duration::from_secs(30));
        assert!(*params.md5_enabled);
        assert_eq!(params.permitted_image_formats.len(), 4);
        assert_eq!(params.tls_min_version.value, TlsVersion::V1_3);
        assert_eq!(params.tls_min_version.origin, Origin::Lookup);
        assert!(params.tls_cipher_suites.is_default());
        let listed = params.list();
        for (key, value) in [
            ("agent_skip_bmc_detect", "true"),
            ("container.runner", "podman"),
        ] {
            let found = listed.iter().find(|setting| setting.key == key).unwrap();
            assert_eq!((&found.value[..], found.origin), (value, &Origin::Lookup));
        }
        assert_eq!(
            params.not_supported_yet(),
            [""; 0],
            "the operator did not ask for them"
        );
    }

    #[test]
    fn an_invalid_option_is_reported() {
        let mut params = BootParams::default();
        let config = json!({
            "heartbeat_timeout": -1, "tls_min_version": {"x": 1},
            "permitted_image_formats": ["raw", 1], "agent_containers": {"new": "x"}, "other": 1,
        });
        assert_eq!(
            apply(&mut params, &config),
            [
                "lookup: heartbeat_timeout = -1: expected a number of seconds; default used (300)",
                "lookup: permitted_image_formats: expected text, a number, a boolean or a list of texts; ignored",
                "lookup: tls_min_version: expected text, a number, a boolean or a list of texts; ignored",
                "lookup: container.new: unknown name; ignored",
            ]
        );
        assert_eq!(params, BootParams::default());
        for config in [json!(null), json!([1]), json!({"agent_containers": 1})] {
            assert_eq!(apply(&mut params, &config), [""; 0]);
        }
    }
}
