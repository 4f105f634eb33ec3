use landfall_network_plan::Document;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Identity;

const FILE: &str = include_str!("../../test_data/bare-metal-hosts.yaml");

fn read_all(texts: &[&str]) -> Reading {
    let files: Vec<_> = (1..)
        .zip(texts)
        .map(|(number, text)| ManifestFile {
            title: format!("f{number}"),
            text: (*text).to_owned(),
        })
        .collect();
    let mut reading = Reading::default();
    read_bare_metal_hosts(&files, &mut reading);
    reading
}

fn read(text: &str) -> Reading {
    read_all(&[text])
}

/// Each host with its hints and the kind of its network.
fn shown(reading: &Reading) -> Vec<String> {
    let hosts = reading.given.iter().map(|given| {
        let hints = given.host.root_device_hints.as_ref();
        let hints = hints.map(ToString::to_string).unwrap_or_default();
        format!("{} {} {hints}", given.host, given.host.document.kind())
    });
    hosts.collect()
}

#[test]
fn hosts_get_the_networks_of_their_secrets() {
    let reading = read(FILE);
    assert_eq!(reading.faults, [""; 0]);
    assert_eq!(reading.warnings, [""; 0]);
    assert_eq!(
        shown(&reading),
        [
            "node-0 (52:54:00:12:34:56) nmstate serialNumber: \"S4EV0001\", minSizeGigabytes: 100",
            "node-1.example.org (52:54:00:12:34:57) network_data model: \"SSD\"",
            "node-2 (52:54:00:12:34:58) network_data ",
            "node-3 (52:54:00:12:34:59) none ",
        ]
    );
    for given in &reading.given {
        assert_eq!(given.identity, Identity::Listed);
        let plan = given.host.plan().unwrap();
        let expected = usize::from(given.host.document != Document::None);
        assert_eq!(plan.interfaces.len(), expected, "{}", given.title);
    }
    assert_eq!(
        reading.given[0].title,
        "f1: BareMetalHost metal3/node-0 (Secret node-0-nmstate)"
    );
}

/// The Secrets of the BMCs are in the same file.
#[test]
fn no_secret_of_a_bmc_reaches_a_host_or_a_message() {
    let secrets = ["aHVudGVyMg==", "hunter2", "YWRtaW4=", "cloud-init-password"];
    let check = |reading: &Reading| {
        let mut texts: Vec<String> = reading.faults.clone();
        texts.extend(reading.warnings.iter().cloned());
        texts.extend(reading.given.iter().map(|given| given.host.to_json()));
        for text in texts {
            assert!(
                !secrets.iter().any(|secret| text.contains(secret)),
                "{text}"
            );
        }
    };
    check(&read(FILE));
    // A host that names the BMC's Secret as its network.
    let wrong = FILE.replace(
        "preprovisioningNetworkDataName: node-0-nmstate",
        "preprovisioningNetworkDataName: node-0-bmc",
    );
    let reading = read(&wrong);
    check(&reading);
    assert_eq!(
        reading.faults,
        [
            "f1: Secret metal3/node-0-bmc: expected one of the keys nmstate, networkData and \
             value, found extra, password, username"
        ]
    );
}

fn host(spec: &Value) -> Value {
    json!({"kind": "BareMetalHost", "metadata": {"name": "a", "namespace": "n"}, "spec": spec})
}

fn secret(content: Value) -> Value {
    let mut secret = json!({"kind": "Secret", "metadata": {"name": "s", "namespace": "n"}});
    for (key, value) in content.as_object().unwrap() {
        secret[key] = value.clone();
    }
    secret
}

const MAC: &str = "52:54:00:00:00:01";

/// A host that names the Secret `s`.
fn with_secret(secret: Value) -> Reading {
    let spec = json!({"bootMACAddress": MAC, "preprovisioningNetworkDataName": "s"});
    read(&json!([host(&spec), secret]).to_string())
}

#[test]
fn all_forms_of_files_are_read() {
    let one = host(&json!({"bootMACAddress": MAC}));
    let two = json!({"kind": "BareMetalHost", "metadata": {"name": "b"},
        "spec": {"bootMACAddress": "52:54:00:00:00:02"}});
    let expected = ["a (52:54:00:00:00:01) none ", "b (52:54:00:00:00:02) none "];
    for text in [
        format!("{one}\n---\n{two}\n"),
        format!("---\n# two hosts\n---\n{one:#}\n---\n---\n{two:#}\n---\n"),
        json!([one, two]).to_string(),
        json!({"kind": "List", "apiVersion": "v1", "items": [one, two]}).to_string(),
        json!({"kind": "BareMetalHostList", "items": [{"kind": "List", "items": [one, two]}]})
            .to_string(),
        json!([one, {"kind": "Namespace", "metadata": {"name": "n"}}, two]).to_string(),
    ] {
        let reading = read(&text);
        assert_eq!(reading.faults, [""; 0], "{text}");
        assert_eq!(shown(&reading), expected, "{text}");
    }
    let reading = read_all(&[&one.to_string(), &two.to_string()]);
    assert_eq!(shown(&reading), expected);
}

/// Checks which value of a Secret takes effect, and how it may be encoded.
#[test]
fn keys_and_encodings() {
    const NMSTATE: &str = "interfaces:\n- name: eth0\n";
    const NMSTATE_BASE64: &str = "aW50ZXJmYWNlczoKLSBuYW1lOiBldGgwCg==";
    const DATA: &str = "{\"links\": [], \"networks\": []}";
    let nmstate = || Document::NmState(NMSTATE.to_owned());
    let network_data = || Document::NetworkData(DATA.to_owned());
    for (content, expected) in [
        (json!({"data": {"nmstate": NMSTATE_BASE64}}), nmstate()),
        (
            json!({"data": {"nmstate": "aW50ZXJmYWNlczoK\n  LSBuYW1lOiBldGgwCg==\n"}}),
            nmstate(),
        ),
        (json!({"stringData": {"nmstate": NMSTATE}}), nmstate()),
        (
            json!({"stringData": {"nmstate": NMSTATE}, "data": {"nmstate": "bm90aGluZw=="}}),
            nmstate(),
        ),
        (
            json!({"stringData": {"networkData": DATA}, "data": {"nmstate": NMSTATE_BASE64}}),
            nmstate(),
        ),
        (
            json!({"stringData": {"networkData": DATA, "value": "x"}}),
            network_data(),
        ),
        // The first key that is not empty, as in the controller.
        (
            json!({"stringData": {"networkData": DATA, "nmstate": ""}}),
            network_data(),
        ),
        (
            json!({"data": {"nmstate": NMSTATE_BASE64, "value": {"a": "b"}}}),
            nmstate(),
        ),
        (
            json!({"stringData": {"networkData": json!(DATA).to_string()}}),
            network_data(),
        ),
        (json!({"stringData": {"value": DATA}}), network_data()),
        (
            json!({"stringData": {"networkData": "links: []\nnetworks: []\n"}}),
            Document::NetworkData("{\n  \"links\": [],\n  \"networks\": []\n}\n".to_owned()),
        ),
        (
            json!({"stringData": {"nmstate": json!(NMSTATE).to_string()}}),
            nmstate(),
        ),
    ] {
        let reading = with_secret(secret(content.clone()));
        assert_eq!(reading.faults, [""; 0], "{content}");
        assert_eq!(reading.given[0].host.document, expected, "{content}");
        assert_eq!(reading.warnings, [""; 0]);
    }
    for empty in [
        json!({}),
        json!({"data": null}),
        json!({"data": {"nmstate": ""}}),
    ] {
        let reading = with_secret(secret(empty.clone()));
        assert_eq!(reading.faults, [""; 0], "{empty}");
        assert_eq!(
            reading.warnings,
            [
                "f1: Secret n/s: no description of a network; f1: BareMetalHost n/a uses DHCP, or \
                 kernel arguments"
            ]
        );
    }
}

#[test]
fn a_secret_that_cannot_be_used_is_a_fault() {
    let long = "x".repeat((256 << 10) + 1);
    for (content, fault) in [
        (
            json!({"data": {"userData": "cGFzc3dvcmQ="}}),
            "expected one of the keys nmstate, networkData and value, found userData",
        ),
        (
            json!({"data": ["nmstate"]}),
            "data: expected keys and values, found a list",
        ),
        (
            json!({"data": {"nmstate": {"interfaces": []}}}),
            "data.nmstate: expected text, found keys and values",
        ),
        (
            json!({"data": {"nmstate": "interfaces:"}}),
            "data.nmstate: expected base64, found other text -- write plain text below `stringData`",
        ),
        (
            json!({"data": {"nmstate": "/w=="}}),
            "nmstate: expected text in UTF-8, found other bytes",
        ),
        (
            json!({"stringData": {"nmstate": "--- {}"}}),
            "nmstate: expected NMState, found no settings -- leave it out, and the host uses DHCP",
        ),
        (
            json!({"stringData": {"nmstate": long}}),
            "nmstate: expected at most 262144 bytes, found 262145",
        ),
        (
            json!({"data": {"nmstate": "A".repeat(3 << 20)}}),
            "data.nmstate: expected at most 524288 bytes of base64, found 3145728",
        ),
        (
            json!({"stringData": {"networkData": "version: 2\nethernets: {}\n"}}),
            "networkData: expected OpenStack's network_data with links and networks, found netplan",
        ),
        (
            json!({"stringData": {"networkData": "5"}}),
            "networkData: expected OpenStack's network_data with links and networks, found a number",
        ),
        (
            json!({"stringData": {"value": "{}"}}),
            "value: expected OpenStack's network_data with links and networks, found no settings",
        ),
    ] {
        let reading = with_secret(secret(content));
        assert_eq!(reading.faults, [format!("f1: Secret n/s: {fault}")]);
    }
    let reading = with_secret(secret(json!({"stringData": {"networkData": "a: ["}})));
    let fault = &reading.faults[0];
    assert!(
        fault.starts_with("f1: Secret n/s: networkData: expected YAML: "),
        "{fault}"
    );
}

/// The limit is 256 KiB, as in Landfall's controller.
#[test]
fn the_largest_network_of_a_secret_is_read() {
    let mut text = "interfaces: [] # ".to_owned();
    text += &"x".repeat((256 << 10) - text.len());
    let reading = with_secret(secret(json!({"stringData": {"nmstate": text}})));
    assert_eq!(reading.faults, [""; 0]);
    assert_eq!(reading.given[0].host.document.text().len(), 256 << 10);
}

#[test]
fn a_secret_is_in_the_namespace_of_the_host() {
    let named = |host: Option<&str>, secrets: &[Option<&str>]| {
        let metadata =
            |name: &str, namespace: Option<&str>| json!({"name": name, "namespace": namespace});
        let mut all = vec![json!({
            "kind": "BareMetalHost", "metadata": metadata("a", host),
            "spec": {"bootMACAddress": MAC, "preprovisioningNetworkDataName": "s"},
        })];
        all.extend(secrets.iter().map(|namespace| {
            json!({"kind": "Secret", "metadata": metadata("s", *namespace),
                "stringData": {"nmstate": format!("hostname: {{config: {}}}", namespace.unwrap_or("none"))}})
        }));
        read(&json!(all).to_string())
    };
    let network = |reading: &Reading| reading.given[0].host.document.text().to_owned();
    for (host, secrets, expected, warned) in [
        (Some("n"), &[Some("m"), Some("n")][..], "n", false),
        (None, &[Some("m"), None], "none", false),
        (Some("n"), &[None], "none", true),
        (None, &[Some("m")], "m", true),
        (Some("n"), &[Some("m"), None], "none", true),
    ] {
        let reading = named(host, secrets);
        assert_eq!(reading.faults, [""; 0], "{host:?} {secrets:?}");
        assert_eq!(
            network(&reading),
            format!("hostname: {{config: {expected}}}")
        );
        assert_eq!(
            reading.warnings.len(),
            usize::from(warned),
            "{host:?} {secrets:?}"
        );
    }
    const AT: &str = "spec.preprovisioningNetworkDataName: expected";
    for (host, secrets, fault) in [
        (
            Some("n"),
            &[Some("m")][..],
            format!(
                "f1: BareMetalHost n/a: {AT} the Secret \"s\" in the namespace of the host, found \
                 f1: Secret m/s"
            ),
        ),
        (
            Some("n"),
            &[],
            format!("f1: BareMetalHost n/a: {AT} the Secret \"s\" in the files, found none"),
        ),
        (
            None,
            &[Some("m"), Some("n")],
            format!("f1: BareMetalHost a: {AT} one Secret \"s\", found 2 in different namespaces"),
        ),
        (
            None,
            &[None, None],
            "f1: Secret s is given twice".to_owned(),
        ),
    ] {
        assert_eq!(named(host, secrets).faults, [fault]);
    }
}

#[test]
fn every_fault_has_its_path() {
    let of = |name: &str, spec: Value| {
        json!({"kind": "BareMetalHost", "metadata": {"name": name}, "spec": spec}).to_string()
    };
    for (text, faults) in [
        (
            of("a/b", json!({"bootMACAddress": MAC})),
            &["f1: BareMetalHost a/b: metadata.name: expected a host name, found \"a/b\""][..],
        ),
        (
            of("../../etc\n", json!({"bootMACAddress": MAC})),
            &[
                "f1: BareMetalHost ../../etc\\n: metadata.name: expected a host name, found \
               \"../../etc\\n\"",
            ],
        ),
        (
            of("a", json!(null)),
            &["f1: BareMetalHost a: spec: expected keys and values, found nothing"],
        ),
        (
            of(
                "a",
                json!({"bootMACAddress": ["x"], "rootDeviceHints": {"wwn": 5, "size": 1}}),
            ),
            &[
                "f1: BareMetalHost a: spec.bootMACAddress: expected text, found a list",
                "f1: BareMetalHost a: spec.rootDeviceHints.size: no such hint; the nearest is \
                 `minSizeGigabytes`",
                "f1: BareMetalHost a: spec.rootDeviceHints.wwn: expected a text in quotes, found 5",
            ],
        ),
        (
            of("a", json!({"bootMacAddress": MAC, "rootDeviceHint": {}})),
            &[
                "f1: BareMetalHost a: spec: no such key \"bootMacAddress\"; the nearest is \
                 `bootMACAddress`",
                "f1: BareMetalHost a: spec: no such key \"rootDeviceHint\"; the nearest is \
                 `rootDeviceHints`",
            ],
        ),
        (
            of(
                "a",
                json!({"bootMACAddress": MAC, "preprovisioningNetworkDataName": {}}),
            ),
            &[
                "f1: BareMetalHost a: spec.preprovisioningNetworkDataName: expected text, found \
               keys and values",
            ],
        ),
        (
            format!("{0}\n---\n{0}", of("a", json!({"bootMACAddress": MAC}))),
            &["f1: BareMetalHost a is given twice"],
        ),
        (
            "[5, {kind: Secret}, {metadata: {name: x}}, {kind: Secret, metadata: {name: 5}}]"
                .to_owned(),
            &[
                "f1: document 1: items[0]: expected a resource (keys and values), found a number",
                "f1: document 1: items[1]: metadata.name: expected text, found nothing",
                "f1: document 1: items[2]: kind: expected text, found nothing",
                "f1: document 1: items[3]: metadata.name: expected text, found a number",
            ],
        ),
        (
            "".to_owned(),
            &["f1: expected at least one BareMetalHost, found nothing"],
        ),
        (
            "{kind: Secret, metadata: {name: x}}".to_owned(),
            &["f1: expected at least one BareMetalHost, found Secret"],
        ),
    ] {
        assert_eq!(read(&text).faults, faults, "{text}");
    }
}

#[test]
fn a_host_without_an_address_is_known_by_its_network() {
    let reading = read(&host(&json!({"bootMACAddress": ""})).to_string());
    assert_eq!(reading.faults, [""; 0]);
    assert_eq!(reading.given[0].identity, Identity::OnlyInNetwork);
}

#[test]
fn the_network_of_the_assisted_installer_is_named_and_ignored() {
    let other = json!({"kind": "NMStateConfig", "metadata": {"name": "x"}});
    let text = json!([host(&json!({"bootMACAddress": MAC})), other]).to_string();
    let reading = read(&text);
    assert_eq!(
        reading.warnings,
        [
            "f1: NMStateConfig x: ignored; a host's network comes only from the Secret that its \
             BareMetalHost names"
        ]
    );
}

#[test]
fn other_ways_to_choose_the_disk_are_named() {
    const MAC: &str = "52:54:00:00:00:01";
    let hints = json!({"serialNumber": "S1"});
    for (spec, expected) in [
        (
            json!({"hardwareProfile": "dell"}),
            "by the profile \"dell\"",
        ),
        (
            json!({"hardwareProfile": "dell", "rootDeviceHints": hints}),
            "",
        ),
        (json!({"hardwareProfile": "unknown"}), ""),
        (json!({"hardwareProfile": "empty"}), ""),
        (
            json!({"raid": {}, "rootDeviceHints": hints}),
            "root volume is a RAID",
        ),
        (json!({"raid": {}}), ""),
        (json!({"raid": null, "rootDeviceHints": hints}), ""),
    ] {
        let mut spec = spec;
        spec["bootMACAddress"] = MAC.into();
        let reading = read(&host(&spec).to_string());
        assert_eq!(reading.faults, [""; 0], "{spec}");
        let warnings = reading.warnings.concat();
        assert!(warnings.contains(expected), "{spec}: {warnings}");
        assert_eq!(
            warnings.is_empty(),
            expected.is_empty(),
            "{spec}: {warnings}"
        );
    }
}

#[test]
fn a_bomb_is_one_fault() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
         c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
         e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    let deep = "{kind: List, items: [".repeat(10_000);
    for text in [bomb, &deep, &"--- {}\n".repeat(20_000)] {
        let faults = read(text).faults;
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("f1: expected YAML: "), "{faults:?}");
    }
}

proptest! {
    /// Whatever a resource holds, a message is one line.
    #[test]
    fn messages_are_single_lines(name in any::<String>(), key in any::<String>(), text in any::<String>()) {
        let spec = json!({"bootMACAddress": text, "rootDeviceHints": {key.clone(): text}});
        let resource = json!({"kind": "BareMetalHost", "metadata": {"name": name, "namespace": key},
            "spec": spec});
        let reading = read(&resource.to_string());
        for line in reading.faults.iter().chain(&reading.warnings) {
            prop_assert!(!line.contains('\n'), "{:?}", line);
        }
    }
}
