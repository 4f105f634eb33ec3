//! Reads agent-config.yaml of OpenShift's agent-based installer (installer,
//! pkg/types/agent). Each of its `hosts` lists NICs by hardware address. The host's
//! network refers to these NICs by names that the list defines.

use landfall_boot_params::dracut_net::is_interface_name;
use landfall_network_plan::from_nmstate::yaml_to_json;
use landfall_network_plan::{Document, EmbeddedHost};
use serde_json::{Map, Value};

use crate::reader::Reader;
use crate::{Given, Identity, Reading, host};

/// All valid keys of the file. The builder ignores those that are not about a
/// host's network.
const FILE_KEYS: &[&str] = &[
    "additionalNTPSources",
    "apiVersion",
    "bootArtifactsBaseURL",
    "hosts",
    "ipxeBaseURL",
    "kind",
    "metadata",
    "minimalISO",
    "rendezvousIP",
];
const HOST_KEYS: &[&str] = &[
    "hostname",
    "interfaces",
    "networkConfig",
    "role",
    "rootDeviceHints",
];
const INTERFACE_KEYS: &[&str] = &["macAddress", "name"];

/// Adds the hosts of an agent-config.yaml to `reading`.
pub fn read_agent_config(title: &str, text: &str, reading: &mut Reading) {
    let document: Value = match yaml_to_json(text) {
        Ok(document) => document,
        Err(error) => return reading.faults.push(format!("{title}: {error}")),
    };
    let mut reader = Reader { title, reading };
    let Some(file) = reader.object("the file", Some(&document)) else {
        return;
    };
    reader.check_keys("the file", file, FILE_KEYS);
    let hosts = reader.list("hosts", file.get("hosts"));
    if hosts.is_empty() {
        reader.fault("hosts", "expected at least one host, found none");
    }
    for (index, value) in hosts.iter().enumerate() {
        let path = format!("hosts[{index}]");
        if let Some(fields) = reader.object(&path, Some(value)) {
            reader.check_keys(&path, fields, HOST_KEYS);
            let host = reader.agent_host(&path, fields);
            let name = host.host_name.as_deref().map(|name| format!(" ({name})"));
            let title = format!("{title}: {path}{}", name.unwrap_or_default());
            reader.reading.given.push(Given {
                title,
                host,
                identity: Identity::Listed,
            });
        }
    }
}

impl Reader<'_> {
    fn agent_host(&mut self, path: &str, fields: &Map<String, Value>) -> EmbeddedHost {
        let name = self.host_name(&format!("{path}.hostname"), fields.get("hostname"));
        let document = match fields.get("networkConfig") {
            None | Some(Value::Null) => Document::None,
            // JSON is also YAML, so the parser of NMState reads it like the original
            // text.
            Some(network) => Document::NmState(format!("{network:#}\n")),
        };
        let mut host = host(name, document);
        host.root_device_hints = self.hints(path, fields);
        let list_path = format!("{path}.interfaces");
        let interfaces = self.list(&list_path, fields.get("interfaces"));
        if interfaces.is_empty() {
            self.fault(
                &list_path,
                "expected at least one interface with a macAddress, found none",
            );
        }
        for (index, value) in interfaces.iter().enumerate() {
            let path = format!("{list_path}[{index}]");
            if let Some(fields) = self.object(&path, Some(value)) {
                self.check_keys(&path, fields, INTERFACE_KEYS);
                self.interface(&path, fields, &mut host);
            }
        }
        host
    }

    fn interface(&mut self, path: &str, fields: &Map<String, Value>, host: &mut EmbeddedHost) {
        let mac_path = format!("{path}.macAddress");
        let value = fields.get("macAddress");
        if matches!(value, None | Some(Value::Null)) {
            let missing = "expected a hardware address such as 52:54:00:00:00:01, found none";
            return self.fault(&mac_path, missing);
        }
        let Some(mac) = self.mac(&mac_path, value) else {
            return;
        };
        if host.macs.contains(&mac) {
            return self.fault(&mac_path, format_args!("{mac} is given twice"));
        }
        host.macs.push(mac);
        let name_path = format!("{path}.name");
        let Some(name) = self.text(&name_path, fields.get("name")) else {
            return;
        };
        if !is_interface_name(&name) {
            let fault = format!("expected the name of an interface, found {name:?}");
            return self.fault(&name_path, fault);
        }
        if let Some(other) = host.nics.insert(name.clone(), mac) {
            self.fault(
                &name_path,
                format_args!("{name} already stands for {other}"),
            );
        }
    }
}
