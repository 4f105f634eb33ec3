use super::*;
use landfall_network_plan::Document;

const FILE: &str = include_str!("../../test_data/install-config.yaml");

fn read(text: &str) -> Reading {
    let mut reading = Reading::default();
    read_install_config("f", text, &mut reading);
    reading
}

#[test]
fn hosts_have_names_addresses_networks_and_hints() {
    let reading = read(FILE);
    assert_eq!(reading.faults, [""; 0]);
    let shown: Vec<String> = { reading.given.iter() }
        .map(|given| {
            let hints = given.host.root_device_hints.as_ref();
            let hints = hints.map(ToString::to_string).unwrap_or_default();
            format!("{} {} {hints}", given.host, given.host.document.kind())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "master-0 (52:54:00:00:00:10) nmstate serialNumber: \"S4EV0001\"",
            "master-1 (52:54:00:00:00:11) nmstate deviceName: \
             \"/dev/disk/by-path/pci-0000:00:1f.2-ata-1\", rotational: false",
            "worker-0.example.org (52:54:00:00:00:12) none ",
        ]
    );
    let plan = reading.given[1].host.plan().unwrap();
    assert_eq!(plan.interfaces.len(), 1);
}

/// The password of the BMC and the pull secret are in the same file.
#[test]
fn no_secret_reaches_a_host_or_a_message() {
    let reading = read(FILE);
    let files: String = { reading.given.iter() }
        .map(|it| it.host.to_json())
        .collect();
    let broken = FILE.replace("bootMACAddress", "bootMacAddress");
    let faults = read(&broken).faults.join("\n");
    assert!(
        faults.contains("the nearest is `bootMACAddress`"),
        "{faults}"
    );
    for secret in ["hunter2", "redfish", "PULL", "admin"] {
        assert!(FILE.contains(secret));
        assert!(
            !files.contains(secret) && !faults.contains(secret),
            "{secret}"
        );
    }
}

#[test]
fn every_fault_has_its_path() {
    let host = |keys: &str| format!("platform: {{baremetal: {{hosts: [{{{keys}}}]}}}}");
    const GOOD: &str = "name: a, bootMACAddress: 52:54:00:00:00:01";
    const AT: &str = "f: platform.baremetal.hosts[0]";
    for (text, fault) in [
        (
            String::new(),
            "f: the file: expected one document, found 0".to_owned(),
        ),
        (
            "a: 1\n---\nb: 2".to_owned(),
            "f: the file: expected one document, found 2".to_owned(),
        ),
        (
            "- a".to_owned(),
            "f: the file: expected keys and values, found a list".to_owned(),
        ),
        (
            "a: 1".to_owned(),
            "f: platform: expected keys and values, found nothing".to_owned(),
        ),
        (
            "platform: {none: {}}".to_owned(),
            "f: platform: expected baremetal, found \"none\"".to_owned(),
        ),
        (
            "platform: {baremetal: {}}".to_owned(),
            "f: platform.baremetal.hosts: expected at least one host, found none".to_owned(),
        ),
        (
            "platform: {baremetal: {hosts: [5]}}".to_owned(),
            format!("{AT}: expected keys and values, found a number"),
        ),
        (
            "kind: AgentConfig".to_owned(),
            "f: kind: expected an install-config.yaml, found \"AgentConfig\" -- give the file \
             with --agent-config"
                .to_owned(),
        ),
        (
            "kind: BareMetalHost".to_owned(),
            "f: kind: expected an install-config.yaml, found \"BareMetalHost\" -- give the \
             file with --bare-metal-hosts"
                .to_owned(),
        ),
        (
            host("name: ../etc/passwd, bootMACAddress: 52:54:00:00:00:01"),
            format!("{AT}.name: expected a host name, found \"../etc/passwd\""),
        ),
        (
            host("name: [a], bootMACAddress: 52:54:00:00:00:01"),
            format!("{AT}.name: expected text, found a list"),
        ),
        (
            host("bootMACAddress: 52:54:00:00:00:01"),
            format!("{AT}.name: expected a host name, found none"),
        ),
        (
            host("name: a"),
            format!(
                "{AT}.bootMACAddress: expected a hardware address such as 52:54:00:00:00:01, \
                 found none"
            ),
        ),
        (
            host("name: a, bootMACAddress: 52:54"),
            format!(
                "{AT}.bootMACAddress: expected six hexadecimal bytes joined by ':' or '-', \
                 found \"52:54\""
            ),
        ),
        (
            host(&format!("{GOOD}, networkConfig: {{}}")),
            format!(
                "{AT}.networkConfig: expected NMState, found no settings -- leave it out, and \
                 the host uses DHCP"
            ),
        ),
        (
            host(&format!("{GOOD}, networkConfig: [a]")),
            format!("{AT}.networkConfig: expected NMState as keys and values, found a list"),
        ),
        (
            host(&format!("{GOOD}, rootDeviceHint: {{wwn: x}}")),
            format!("{AT}: no such key \"rootDeviceHint\"; the nearest is `rootDeviceHints`"),
        ),
        (
            host(&format!("{GOOD}, rootDeviceHints: {{serialNumber: 4711}}")),
            format!("{AT}.rootDeviceHints.serialNumber: expected a text in quotes, found 4711"),
        ),
    ] {
        assert_eq!(read(&text).faults, [fault], "{text}");
    }
    // A key of a newer release is no fault.
    assert_eq!(read(&host(&format!("{GOOD}, newThing: 1"))).faults, [""; 0]);
}

#[test]
fn a_network_may_be_a_text() {
    let text = "platform:\n  baremetal:\n    hosts:\n    - name: a\n      bootMACAddress: \
                52-54-00-00-00-01\n      networkConfig: |\n        interfaces:\n        - name: eth0\n";
    let reading = read(text);
    assert_eq!(reading.faults, [""; 0]);
    let document = &reading.given[0].host.document;
    assert_eq!(
        *document,
        Document::NmState("interfaces:\n- name: eth0\n".to_owned())
    );
}

#[test]
fn a_bomb_is_one_fault() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
         c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
         e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    for text in [bomb, &"[".repeat(100_000), "a: 1\na: 2"] {
        let faults = read(text).faults;
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("f: expected YAML: "), "{faults:?}");
    }
}
