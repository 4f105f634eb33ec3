//! Reads agent-config.yaml of OpenShift's agent-based installer (installer,
//! pkg/types/agent). Each of its `hosts` lists NICs by hardware address. The host's
//! network refers to these NICs by names that the list defines.

use std::fmt::Display;

use landfall_boot_params::MacAddr;
use landfall_boot_params::dracut_net::{is_host_name, is_interface_name};
use landfall_network_plan::from_nmstate::yaml_to_json;
use landfall_network_plan::{Document, EmbeddedHost};
use serde_json::{Map, Value};

use super::{Given, Reading, host};

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

/// Adds the hosts of the file to `reading`.
pub(super) fn read(title: &str, text: &str, reading: &mut Reading) {
    let document: Value = match yaml_to_json(text) {
        Ok(document) => document,
        Err(error) => return reading.faults.push(format!("{title}: {error}")),
    };
    let mut reader = Reader {
        title,
        faults: &mut reading.faults,
    };
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
            let host = reader.host(&path, fields);
            let name = host.host_name.as_deref().map(|name| format!(" ({name})"));
            let title = format!("{title}: {path}{}", name.unwrap_or_default());
            reading.given.push(Given {
                title,
                host,
                has_addresses: true,
            });
        }
    }
}

/// Reads values of the file and collects their faults.
struct Reader<'a> {
    title: &'a str,
    faults: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn host(&mut self, path: &str, fields: &Map<String, Value>) -> EmbeddedHost {
        let name_path = format!("{path}.hostname");
        let name = self.text(&name_path, fields.get("hostname"));
        if let Some(name) = &name
            && !is_host_name(name)
        {
            self.fault(
                &name_path,
                format_args!("expected a host name, found {name:?}"),
            );
        }
        let document = match fields.get("networkConfig") {
            None | Some(Value::Null) => Document::None,
            // JSON is also YAML, so the parser of NMState reads it like the original text.
            Some(network) => Document::NmState(format!("{network:#}\n")),
        };
        let mut host = host(name, document);
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
        let mac = match self.text(&mac_path, fields.get("macAddress")) {
            None => {
                let missing = "expected a hardware address such as 52:54:00:00:00:01, found none";
                return self.fault(&mac_path, missing);
            }
            Some(text) => match text.parse::<MacAddr>() {
                Ok(mac) => mac,
                Err(expected) => {
                    return self.fault(&mac_path, format_args!("{expected}, found {text:?}"));
                }
            },
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

    fn text(&mut self, path: &str, value: Option<&Value>) -> Option<String> {
        match value {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(other) => {
                self.fault(path, format_args!("expected text, found {}", kind(other)));
                None
            }
        }
    }

    fn list<'v>(&mut self, path: &str, value: Option<&'v Value>) -> &'v [Value] {
        match value {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) => list,
            Some(other) => {
                self.fault(path, format_args!("expected a list, found {}", kind(other)));
                &[]
            }
        }
    }

    fn object<'v>(
        &mut self,
        path: &str,
        value: Option<&'v Value>,
    ) -> Option<&'v Map<String, Value>> {
        match value {
            Some(Value::Object(fields)) => Some(fields),
            other => {
                let found = other.map_or("nothing", kind);
                self.fault(
                    path,
                    format_args!("expected keys and values, found {found}"),
                );
                None
            }
        }
    }

    fn check_keys(&mut self, path: &str, fields: &Map<String, Value>, known: &[&str]) {
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            let known = known.join(", ");
            self.fault(
                path,
                format_args!("expected keys of {known}; found {key:?}"),
            );
        }
    }

    fn fault(&mut self, path: &str, fault: impl Display) {
        self.faults.push(format!("{}: {path}: {fault}", self.title));
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "keys and values",
    }
}
