//! Reads install-config.yaml of OpenShift's installer (installer,
//! pkg/types/baremetal/platform.go). Each host in `platform.baremetal.hosts` has the
//! MAC address of one NIC (`bootMACAddress`). The host's `networkConfig` refers to NICs
//! by name.

use landfall_network_plan::from_nmstate::yaml_documents;
use serde_json::{Map, Value};

use crate::network_config::nmstate_of;
use crate::reader::{Reader, start};
use crate::{Given, Identity, Reading, host};

const HOSTS: &str = "platform.baremetal.hosts";

/// The keys of a host that this module reads.
const USED: &[&str] = &["name", "bootMACAddress", "networkConfig", "rootDeviceHints"];
/// The other known keys of a host. They have no effect on the host; some cause a warning.
/// `bmc` holds a password.
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
mod tests;
