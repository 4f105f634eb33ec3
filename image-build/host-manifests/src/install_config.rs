//! Reads install-config.yaml of OpenShift's installer (installer,
//! pkg/types/baremetal/platform.go). Each of its `platform.baremetal.hosts` has the
//! hardware address of one NIC. Its network refers to NICs by their names.

use landfall_network_plan::from_nmstate::yaml_documents;
use serde_json::{Map, Value};

use crate::network_config::nmstate_of;
use crate::reader::{Reader, start};
use crate::{Given, Identity, Reading, host};

const HOSTS: &str = "platform.baremetal.hosts";

/// The keys of a host that this module reads.
const USED: &[&str] = &["name", "bootMACAddress", "networkConfig", "rootDeviceHints"];
/// The other keys of a host. `bmc` holds a password.
const READ_PAST: &[&str] = &[
    "annotations",
    "bmc",
    "bootMode",
    "hardwareProfile",
    "labels",
    "role",
];

/// Adds the hosts of an install-config.yaml to `reading`.
pub fn read_install_config(title: &str, text: &str, reading: &mut Reading) {
    let documents = match yaml_documents(text) {
        Ok(documents) => documents,
        Err(error) => return reading.faults.push(format!("{title}: {error}")),
    };
    let mut reader = Reader { title, reading };
    let [document] = &documents[..] else {
        let count = documents.len();
        return reader.fault(
            "the file",
            format_args!("expected one document, found {count}"),
        );
    };
    let Some(hosts) = reader.hosts_of(document) else {
        return;
    };
    if hosts.is_empty() {
        reader.fault(HOSTS, "expected at least one host, found none");
    }
    for (index, value) in hosts.iter().enumerate() {
        let path = format!("{HOSTS}[{index}]");
        if let Some(fields) = reader.object(&path, Some(value)) {
            reader.check_spelling(&path, fields, USED, READ_PAST);
            let given = reader.installer_host(&path, fields);
            reader.reading.given.push(given);
        }
    }
}

impl Reader<'_> {
    fn hosts_of<'v>(&mut self, document: &'v Value) -> Option<&'v [Value]> {
        let file = self.object("the file", Some(document))?;
        // A real install-config.yaml has no kind.
        if let Some(found) = file.get("kind").and_then(Value::as_str) {
            let option = match found {
                "AgentConfig" => "--agent-config",
                _ => "--bare-metal-hosts",
            };
            let found = start(found);
            self.fault(
                "kind",
                format_args!("expected an install-config.yaml, found {found:?} -- give the file with {option}"),
            );
            return None;
        }
        let platform = self.object("platform", file.get("platform"))?;
        if !platform.contains_key("baremetal") {
            let found: Vec<String> = platform.keys().map(|key| start(key)).collect();
            let found = found.join(", ");
            self.fault(
                "platform",
                format_args!("expected baremetal, found {found:?}"),
            );
            return None;
        }
        let baremetal = self.object("platform.baremetal", platform.get("baremetal"))?;
        Some(self.list(HOSTS, baremetal.get("hosts")))
    }

    fn installer_host(&mut self, path: &str, fields: &Map<String, Value>) -> Given {
        let at = |key: &str| format!("{path}.{key}");
        let name = self.host_name(&at("name"), fields.get("name"));
        if matches!(fields.get("name"), None | Some(Value::Null)) {
            self.fault(&at("name"), "expected a host name, found none");
        }
        let mac_path = at("bootMACAddress");
        let mac = fields.get("bootMACAddress").unwrap_or(&Value::Null);
        if mac.is_null() {
            let missing = "expected a hardware address such as 52:54:00:00:00:01, found none";
            self.fault(&mac_path, missing);
        }
        let mac = self.mac(&mac_path, Some(mac));
        let network = fields.get("networkConfig").unwrap_or(&Value::Null);
        let document = nmstate_of(network).unwrap_or_else(|error| {
            self.fault(&at("networkConfig"), error);
            landfall_network_plan::Document::None
        });
        let hints = self.hints(path, fields);
        let title = match &name {
            Some(name) => format!("{}: {path} ({})", self.title, start(name)),
            None => format!("{}: {path}", self.title),
        };
        let mut host = host(name, document);
        host.macs.extend(mac);
        host.root_device_hints = hints;
        Given {
            title,
            host,
            identity: Identity::Listed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_network_plan::Document;

    const FILE: &str = include_str!("../test_data/install-config.yaml");

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
        let told = read(&broken).faults.join("\n");
        assert!(told.contains("the nearest is `bootMACAddress`"), "{told}");
        for secret in ["hunter2", "redfish", "PULL", "admin"] {
            assert!(FILE.contains(secret));
            assert!(
                !files.contains(secret) && !told.contains(secret),
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
}
