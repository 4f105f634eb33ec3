use proptest::prelude::*;

use super::*;

fn paths(files: &[GivenFile]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_str()).collect()
}

#[test]
fn configs_of_image_customization_controller() {
    let bytes = include_bytes!("../test_data/image_customization_controller.ign");
    let found = ConfigIgn::read(bytes).unwrap();
    assert_eq!(paths(&found.agent_files), ["/etc/ironic-python-agent.conf"]);
    assert_eq!(paths(&found.keyfiles), ["eth0.nmconnection"]);
    assert!(found.keyfiles[0].content.starts_with(b"[connection]\n"));
    assert_eq!(
        paths(&found.authorities),
        ["/etc/pki/ca-trust/source/anchors/ca.crt"]
    );
    assert_eq!(found.ntp_servers, ["ntp1.example"]);
    assert_eq!(found.ntp_path, "/etc/chrony.conf");
    assert_eq!(found.host_name, None);
    let environment = found.agent_unit.unwrap().environment;
    let environment: Vec<_> = environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        environment,
        [
            "HTTP_PROXY=http://proxy.example:3128",
            "IPA_COREOS_COPY_NETWORK=true",
            "IPA_COREOS_IP_OPTIONS=ip=dhcp",
            "IPA_DEFAULT_HOSTNAME=node7",
            "NO_PROXY=.example,192.0.2.0/24",
        ]
    );
    assert_eq!(
        found.applied,
        [
            "/etc/NetworkManager/system-connections/eth0.nmconnection: network",
            "/etc/chrony.conf: time servers; the agent ignores its other lines",
            "/etc/ironic-python-agent.conf: settings of the agent",
            "/etc/pki/ca-trust/source/anchors/ca.crt: trusted by the agent",
            "ironic-agent.service: environment of the agent; the ramdisk starts no container",
        ]
    );
    assert_eq!(
        found.not_applied,
        [
            "user core: the ramdisk has no accounts",
            "/etc/authfile.json: the ramdisk pulls no containers",
            "/etc/containers/registries.conf: the ramdisk pulls no containers",
            "NTP server ntp2.example: the agent asks one NTP server, ntp1.example",
        ]
    );
    assert_eq!(found.not_needed.len(), 4, "{:?}", found.not_needed);
}

#[test]
fn configs_of_iso_customize() {
    let bytes = include_bytes!("../test_data/iso_customize.ign");
    let found = ConfigIgn::read(bytes).unwrap();
    // The config inside overrides the outer one.
    assert_eq!(found.host_name.as_deref(), Some("node8"));
    assert_eq!(
        found.applied,
        [
            "/etc/hostname: host name, unless another source gives one",
            "ignition.security.tls.certificateAuthorities[0]: trusted by the agent",
        ]
    );
    assert_eq!(
        found.not_applied,
        [
            "kernelArguments: the ramdisk does not apply it",
            "storage.directories: the ramdisk does not apply it",
            "ignition.config.merge[1]: it is on a server (https:), and the agent reads only data: URLs here",
            "/etc/coreos/installer.d/customize.yaml: the ramdisk reads such files only from its own archive",
            "/etc/motd: the agent has no use for it",
            "a.service: the ramdisk has no systemd",
            "coreos-installer-pre.service: the ramdisk has no systemd",
        ]
    );
}

#[test]
fn invalid_configs_are_rejected() {
    for (text, expected) in [
        (
            "",
            "expected an Ignition config, found JSON that is cut off at line 1, column 0",
        ),
        (
            "{\n\"a\": hunter2}",
            "expected an Ignition config, found invalid JSON at line 2, column 6",
        ),
        ("[]", "the config: expected an object, found an array"),
        ("{}", "expected ignition.version 3.x, found none"),
        (
            "{\"ignition\": \"hunter2\"}",
            "ignition: expected an object, found a string",
        ),
        (
            "{\"ignition\": {\"version\": 3}}",
            "ignition.version: expected a string, found a number",
        ),
        (
            "{\"ignition\": {}}",
            "expected ignition.version 3.x, found none",
        ),
        (
            "{\"ignition\": {\"version\": \"\"}}",
            "expected ignition.version 3.x, found \"\"",
        ),
        (
            "{\"ignition\": {\"version\": \"2.2.0\"}}",
            "expected ignition.version 3.x, found \"2.2.0\"",
        ),
    ] {
        let error = ConfigIgn::read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
    let long = vec![b' '; LARGEST + 1];
    let error = ConfigIgn::read(&long).unwrap_err();
    assert_eq!(error, InvalidConfig::TooLong(LARGEST + 1));
}

fn with_files(files: &str) -> ConfigIgn {
    let text = format!(
        "{{\"ignition\": {{\"version\": \"3.0.0\"}}, \"storage\": {{\"files\": [{files}]}}}}"
    );
    ConfigIgn::read(text.as_bytes()).unwrap()
}

#[test]
fn a_faulty_entry_leaves_the_others() {
    let found = with_files(
        r#"{"path": 7}, {"path": "/etc/hostname", "contents": {"source": "data:,a_b"}},
           {"path": "/etc/chrony.conf", "contents": {"source": "data:,driftfile%20x"}},
           {"path": "/etc/ironic-python-agent.conf", "contents": {"source": "http://h/x"}},
           {"path": "/etc/ironic-python-agent/a.crt", "contents": null, "append": null},
           {"path": "/etc/NetworkManager/conf.d/clientid.conf", "contents": {"source": "data:,ipv6.dhcp-duid=llt"}}"#,
    );
    assert_eq!(paths(&found.companions), ["/etc/ironic-python-agent/a.crt"]);
    assert_eq!(
        found.not_applied,
        [
            "storage.files[0].path: expected a string, found a number",
            "/etc/NetworkManager/conf.d/clientid.conf: the ramdisk has no NetworkManager",
            "/etc/chrony.conf: it names no time server that the agent could ask",
            "/etc/hostname: expected a host name, found none",
            "/etc/ironic-python-agent.conf: it is on a server (http:), and the agent reads only data: URLs here",
        ]
    );
}

/// Everything in the config except `good` has a fault in one place, and this place
/// contains a secret.
#[test]
fn a_faulty_part_leaves_the_others_and_its_value_is_not_shown() {
    const SECRET: &str = r#""data:,image_server_password=hunter2""#;
    let good = r#""path": "/etc/landfall/a.conf", "contents": {"source": "data:,a"}"#;
    let inner: String = r#"{"ignition": {"version": "3.0.0"}, "passwd": "hunter2"}"#
        .bytes()
        .map(|byte| format!("%{byte:02x}"))
        .collect();
    for (ignition, config, file, expected) in [
        // A forgotten `source`.
        (
            "",
            "",
            r#""path": "/etc/landfall/b.conf", "contents": SECRET"#,
            "storage.files[1].contents: expected an object, found a string",
        ),
        (
            "",
            "",
            r#""path": "/b", "append": [SECRET]"#,
            "storage.files[1].append[0]: expected an object, found a string",
        ),
        (
            "",
            "",
            r#""path": "/b", "append": SECRET"#,
            "storage.files[1].append: expected an array, found a string",
        ),
        (
            "",
            "",
            r#""path": "/b", "contents": {"source": [SECRET]}"#,
            "storage.files[1].contents.source: expected a string, found an array",
        ),
        (
            "",
            "",
            r#""path": "/b", "contents": {"verification": SECRET}"#,
            "storage.files[1].contents.verification: expected an object, found a string",
        ),
        (
            "",
            "",
            r#""contents": {"source": SECRET}"#,
            "storage.files[1].path: expected a string, found nothing",
        ),
        (
            "",
            r#""passwd": {"users": [{"passwordHash": SECRET}]}"#,
            "",
            "passwd.users[0].name: expected a string, found nothing",
        ),
        (
            "",
            r#""passwd": {"groups": SECRET}"#,
            "",
            "passwd.groups: expected an array, found a string",
        ),
        (
            "",
            r#""passwd": SECRET"#,
            "",
            "passwd: expected an object, found a string",
        ),
        (
            "",
            r#""systemd": {"units": [SECRET]}"#,
            "",
            "systemd.units[0]: expected an object, found a string",
        ),
        (
            "",
            r#""systemd": {"units": [{"name": "a", "mask": SECRET}]}"#,
            "",
            "systemd.units[0].mask: expected true or false, found a string",
        ),
        (
            "",
            r#""systemd": {"units": [{"name": "a", "dropins": [{"contents": SECRET}]}]}"#,
            "",
            "systemd.units[0].dropins[0].name: expected a string, found nothing",
        ),
        (
            "",
            r#""systemd": SECRET"#,
            "",
            "systemd: expected an object, found a string",
        ),
        (
            r#""security": SECRET"#,
            "",
            "",
            "ignition.security: expected an object, found a string",
        ),
        (
            r#""security": {"tls": SECRET}"#,
            "",
            "",
            "ignition.security.tls: expected an object, found a string",
        ),
        (
            r#""security": {"tls": {"certificateAuthorities": [null]}}"#,
            "",
            "",
            "ignition.security.tls.certificateAuthorities[0]: expected an object, found null",
        ),
        (
            r#""config": SECRET"#,
            "",
            "",
            "ignition.config: expected an object, found a string",
        ),
        (
            r#""config": {"merge": SECRET}"#,
            "",
            "",
            "ignition.config.merge: expected an array, found a string",
        ),
        (
            r#""config": {"merge": [SECRET]}"#,
            "",
            "",
            "ignition.config.merge[0]: expected an object, found a string",
        ),
        (
            r#""config": {"replace": SECRET}"#,
            "",
            "",
            "ignition.config.replace: expected an object, found a string",
        ),
        (
            r#""config": {"merge": [{"source": SECRET}]}"#,
            "",
            "",
            "ignition.config.merge[0]: expected an Ignition config, found invalid JSON at line 1, column 1",
        ),
        (
            r#""config": {"merge": [{"source": "data:,INNER"}]}"#,
            "",
            "",
            "passwd: expected an object, found a string",
        ),
    ] {
        let member = |text: &str, before: &str| match text {
            "" => String::new(),
            text => format!("{before}{text}"),
        };
        let ignition = member(ignition, ", ");
        let config = member(config, ", ");
        let file = match file {
            "" => String::new(),
            file => format!(", {{{file}}}"),
        };
        let text = format!(
            r#"{{"ignition": {{"version": "3.0.0"{ignition}}}, "storage": {{"files": [{{{good}}}{file}]}}{config}}}"#
        );
        let text = text.replace("SECRET", SECRET).replace("INNER", &inner);
        let found = ConfigIgn::read(text.as_bytes()).unwrap();
        assert_eq!(found.not_applied, [expected], "{text}");
        assert_eq!(paths(&found.agent_files), ["/etc/landfall/a.conf"]);
    }
    let text = format!(r#"{{"ignition": {{"version": "3.0.0"}}, "storage": {SECRET}}}"#);
    let found = ConfigIgn::read(text.as_bytes()).unwrap();
    let expected = "storage: expected an object, found a string";
    assert_eq!(found.not_applied, [expected]);
}

#[test]
fn the_lists_are_short_and_on_single_lines() {
    let files: Vec<_> = (0..99)
        .map(|n| format!(r#"{{"path": "/a{n}\n"}}"#))
        .collect();
    let found = with_files(&files.join(","));
    assert_eq!(found.not_applied.len(), MOST_LINES + 1);
    assert_eq!(found.not_applied[MOST_LINES], "49 more");
    assert!(!found.not_applied[0].contains('\n'));
}

/// A config with the file `outer`, and inside it a config with the file `inner`.
fn with_file_inside(outer: &str, inner: &str) -> ConfigIgn {
    let config = |ignition: &str, file: &str| {
        format!(
            r#"{{"ignition": {{"version": "3.0.0"{ignition}}}, "storage": {{"files": [{file}]}}}}"#
        )
    };
    let inner = config("", inner);
    let escaped: String = inner.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let merge = format!(r#", "config": {{"merge": [{{"source": "data:,{escaped}"}}]}}"#);
    ConfigIgn::read(config(&merge, outer).as_bytes()).unwrap()
}

#[test]
fn a_later_config_overrides_only_what_it_gives() {
    let of_a = "sha256-ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
    let gzip_of_a = "data:;base64,H4sIAAAAAAACA0sEAEO+t+gBAAAA";
    let with_hash =
        format!(r#""contents": {{"source": "data:,a", "verification": {{"hash": "{of_a}"}}}}"#);
    let packed = format!(r#""contents": {{"source": "{gzip_of_a}", "compression": "gzip"}}"#);
    for (outer, inner, expected) in [
        (r#""contents": {"source": "data:,a"}"#, "", Some("a")),
        (
            r#""contents": {"source": "data:,a"}"#,
            r#""contents": {"source": "data:,b"}"#,
            Some("b"),
        ),
        // As programs in Go write a file that is only appended to.
        (
            r#""contents": {"source": "data:,a"}"#,
            r#""contents": {"verification": {}}, "append": [{"source": "data:,b"}]"#,
            Some("ab"),
        ),
        (
            r#""contents": {"source": "data:,a"}"#,
            r#""contents": null"#,
            Some("a"),
        ),
        (
            r#""contents": {"source": "data:,a"}"#,
            r#""contents": {"source": null}"#,
            Some("a"),
        ),
        (
            r#""contents": {"source": "data:,a"}"#,
            r#""contents": {"source": ""}"#,
            Some(""),
        ),
        (&packed, r#""contents": {"verification": {}}"#, Some("a")),
        (
            &packed,
            r#""contents": {"source": "data:,b", "compression": ""}"#,
            Some("b"),
        ),
        (&packed, r#""contents": {"source": "data:,b"}"#, None),
        (&with_hash, r#""contents": {"source": "data:,b"}"#, None),
        (
            r#""contents": {"source": "data:,b"}"#,
            &with_hash,
            Some("a"),
        ),
    ] {
        let file = |members: &str| {
            let comma = if members.is_empty() { "" } else { ", " };
            format!(r#"{{"path": "/etc/landfall/a.conf"{comma}{members}}}"#)
        };
        let found = with_file_inside(&file(outer), &file(inner));
        let content = found.agent_files.first().map(|file| file.content.clone());
        let content = content.map(|content| String::from_utf8(content).unwrap());
        assert_eq!(content.as_deref(), expected, "{outer} {inner}");
    }
}

#[test]
fn configs_inside_each_other_have_a_limit() {
    let mut config = "{\"ignition\": {\"version\": \"3.0.0\"}}".to_owned();
    for _ in 0..6 {
        let escaped: String = config.bytes().map(|byte| format!("%{byte:02x}")).collect();
        config = format!(
            "{{\"ignition\": {{\"version\": \"3.0.0\", \"config\": {{\"merge\": [{{\"source\": \"data:,{escaped}\"}}]}}}}}}"
        );
    }
    let found = ConfigIgn::read(config.as_bytes()).unwrap();
    assert_eq!(
        found.not_applied,
        ["ignition.config.merge[0]: expected at most 4 configs inside each other"]
    );
}

#[test]
fn the_number_of_values_has_a_limit() {
    let zeros = "0,".repeat(LARGEST / 2 - 100) + "0";
    let text = |files: &str| {
        format!(r#"{{"ignition": {{"version": "3.0.0"}}, "storage": {{"files": [{files}]}}}}"#)
    };
    let error = ConfigIgn::read(text(&zeros).as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected at most 100000 values, found more"
    );
    // A text counts as one value, whatever it contains.
    let file = format!(r#"{{"path": "/a", "contents": {{"source": "data:,\"{zeros}"}}}}"#);
    assert_eq!(with_files(&file).not_applied.len(), 1);
    // The configs inside count as well.
    let zeros = "0,".repeat(60_000) + "0";
    let inner = format!("{{%22ignition%22: {{%22version%22: %223.0.0%22}}, %22x%22: [{zeros}]}}");
    let merge = format!(r#"{{"source": "data:,{inner}"}}"#);
    let outer = format!(
        r#"{{"ignition": {{"version": "3.0.0", "config": {{"merge": [{merge}, {merge}]}}}}}}"#
    );
    assert_eq!(
        ConfigIgn::read(outer.as_bytes()).unwrap().not_applied,
        [
            "x: the ramdisk does not apply it",
            "ignition.config.merge[1]: expected at most 100000 values, found more",
        ]
    );
}

proptest! {
    #[test]
    fn any_content_arrives(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let escaped: String = content.iter().map(|byte| format!("%{byte:02x}")).collect();
        let found = with_files(&format!(
            r#"{{"path": "/etc/ironic-python-agent.d/a.conf", "contents": {{"source": "data:,{escaped}"}}}}"#
        ));
        prop_assert_eq!(&found.agent_files[0].content, &content);
    }
}
