use super::*;
use crate::argument_value::Secret;
use crate::cmdline::CommandLine;
use crate::test_table::rows;

fn read(text: &str) -> BootParams {
    BootParams::from_command_line(&CommandLine::parse(text))
}

fn value_of(params: &BootParams, key: &str) -> String {
    let all = params.list();
    let found = all.iter().find(|setting| setting.key == key);
    found
        .unwrap_or_else(|| panic!("{key} is not listed"))
        .value
        .clone()
}

#[test]
fn an_empty_command_line_gives_the_documented_defaults() {
    let params = read("");
    assert_eq!(params, BootParams::default());
    // The defaults in the documentation of the configuration options of Ironic's agent.
    for (key, value) in [
        ("ipa-api-url", ""),
        ("ipa-inspection-collectors", "default,logs"),
        ("ipa-inspection-dhcp-wait-timeout", "60"),
        ("ipa-lldp-timeout", "30"),
        ("ipa-listen-port", "9999"),
        ("ipa-advertise-port", "9999"),
        ("ipa-advertise-protocol", "http"),
        ("ipa-ip-lookup-attempts", "6"),
        ("ipa-lookup-timeout", "600"),
        ("ipa-http-request-timeout", "30"),
        ("ipa-disk-wait-attempts", "10"),
        ("ipa-disk-wait-delay", "3"),
        ("ipa-insecure", "0"),
        ("ipa-tls-min-version", "1.2"),
        ("ipa-tls-certificate-curve", "p384"),
        ("ipa-image-download-connection-retries", "9"),
        ("ipa-guard-special-filesystems", "1"),
    ] {
        assert_eq!(value_of(&params, key), value, "{key}");
    }
    assert!(params.list().iter().all(|s| *s.origin == Origin::Default));
}

#[test]
fn reads_what_ironic_writes() {
    // The kernel command lines of PXE and of virtual media.
    let params = read(
        "nofb vga=normal text selinux=0 troubleshoot=0 ipa-debug=1 \
         ipa-inspection-callback-url=https://192.0.2.1:5050/v1/continue_inspection \
         ipa-collect-lldp=1 ipa-api-url=https://192.0.2.1:6385,https://[2001:db8::1]:6385 \
         BOOTIF=01-52-54-00-AA-00-01 coreos.live.rootfs_url=http://192.0.2.1/x",
    );
    assert_eq!(params.warnings, Vec::<String>::new());
    assert!(params.wants_debug());
    assert!(*params.collect_lldp);
    assert_eq!(
        params.api_url.value,
        Some(ServiceUrls::Urls(vec![
            "https://192.0.2.1:6385".into(),
            "https://[2001:db8::1]:6385".into()
        ]))
    );
    assert_eq!(value_of(&params, "BOOTIF"), "52:54:00:aa:00:01");
    assert!(!params.is_virtual_media());

    let params = read(
        "boot_method=vmedia ipa-agent-token=t0k3n ir_pub_id=3c1f BOOTIF=52:54:00:aa:00:01 \
         ipa-global-request-id=req-4b9a8e6e-f809-4d71-9b92-2ff55b0d3854 ipa-ironic-api-version=1.68",
    );
    assert_eq!(params.warnings, Vec::<String>::new());
    assert!(params.is_virtual_media());
    assert_eq!(params.agent_token.value, Some(Secret("t0k3n".into())));
    assert_eq!(params.publisher_id.as_deref(), Some("3c1f"));
    assert_eq!(
        params.boot_interface.as_ref().unwrap().text,
        "52:54:00:aa:00:01"
    );
}

#[test]
fn every_value_says_where_it_came_from() {
    let params =
        read("ipa-listen-port=1 ipa-listen-port=8443 ipa-agent-token=t0k3n bootif=0:1:2:3:4:5");
    let origin = |key| {
        let all = params.list();
        all.iter()
            .find(|s| s.key == key)
            .unwrap()
            .origin
            .to_string()
    };
    assert_eq!(
        origin("ipa-listen-port"),
        "kernel argument ipa-listen-port=8443"
    );
    assert_eq!(origin("BOOTIF"), "kernel argument bootif=0:1:2:3:4:5");
    assert_eq!(origin("ipa-insecure"), "default");
    assert_eq!(
        origin("ipa-agent-token"),
        "kernel argument ipa-agent-token=***"
    );
    assert_eq!(value_of(&params, "ipa-agent-token"), "***");
    assert!(!format!("{params:?}").contains("t0k3n"));
}

#[test]
fn a_bad_value_is_a_warning_and_the_default() {
    for (text, warning) in rows(include_str!("../../test_data/agent_args/bad_values.txt")) {
        let params = read(text);
        assert_eq!(params.warnings, [warning], "{text}");
        let settings = BootParams {
            warnings: Vec::new(),
            ..params
        };
        assert_eq!(settings, BootParams::default(), "{text}");
    }
}

#[test]
fn a_line_over_the_limit_is_reported() {
    let params = read(&"a ".repeat(3000));
    assert_eq!(
        params.warnings,
        ["kernel command line is longer than 4096 bytes; the rest is ignored"]
    );
}

#[test]
fn empty_values_count_as_not_given() {
    let params = read("ipa-api-url= ipa-listen-port= ipa-agent-token=\"\" BOOTIF= boot_method=");
    assert_eq!(params, BootParams::default());
}

#[test]
fn a_bare_switch_of_ours_is_on() {
    assert!(read("landfall.debug").wants_debug());
    assert!(!read("landfall.debug=0").wants_debug());
    assert_eq!(
        read("landfall.coreos.image=http://h/i.raw.xz")
            .coreos_image
            .value
            .unwrap()
            .urls,
        ["http://h/i.raw.xz"]
    );
    assert_eq!(read("landfall.coreos.image").warnings.len(), 1);
}

#[test]
fn ignored_settings_are_reported() {
    let reported =
        |text| BootParams::from_command_line(&CommandLine::parse(text)).not_supported_yet();
    assert_eq!(
        reported("ipa-inspection-benchmarks=cpu ipa-api-url=http://192.0.2.1 quiet"),
        ["ipa-inspection-benchmarks: not supported yet; ignored"]
    );
    assert_eq!(
        reported("ipa-api-url=http://192.0.2.1 ipa-insecure=1"),
        [""; 0]
    );
    let mut params = BootParams::default();
    params.read_file(
        "f",
        "[DEFAULT]\nlog_dir = /x\ndisable_bootc_deploy = true\nauto_tls_allowed_clock_skew = 60\n",
    );
    assert_eq!(params.warnings, [""; 0]);
    assert_eq!(
        params.not_supported_yet(),
        ["log_dir: not supported yet; ignored"]
    );
    assert_eq!(value_of(&params, "log_dir"), "/x");
}
