//! Reads the network of a host from a Secret.
//!
//! The keys are those of the two programs that read such Secrets: `nmstate`
//! (OpenShift's image-customization-controller), `networkData` and `value` (metal3's
//! baremetal-operator).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_network_plan::Document;
use landfall_network_plan::from_nmstate::{InvalidYaml, LARGEST, yaml_to_json};
use serde_json::Value;

use crate::manifest::Manifest;
use crate::network_config::{NetworkConfigError, nmstate_in};
use crate::reader::{kind, start};

const NMSTATE: &str = "nmstate";

/// The keys under which a Secret holds the network of a host. The first one that is
/// there takes effect.
pub const NETWORK_KEYS: [&str; 3] = [NMSTATE, "networkData", "value"];

/// At most this many key names are listed in a message.
const MOST_NAMES: usize = 8;

/// Why a Secret has no usable description of a network. Shows no value of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkSecretError {
    #[error("expected one of the keys nmstate, networkData and value, found {names}")]
    NoKey { names: String },
    #[error("{path}: expected {expected}, found {found}")]
    Shape {
        path: String,
        expected: &'static str,
        found: &'static str,
    },
    /// `data` holds base64, `stringData` plain text.
    #[error("{path}: expected base64, found other text -- is `stringData` meant?")]
    NoBase64 { path: String },
    #[error("{key}: expected at most {LARGEST} bytes, found {found}")]
    TooLong { key: &'static str, found: usize },
    #[error("{key}: expected text in UTF-8, found other bytes")]
    NoText { key: &'static str },
    #[error("{key}: {fault}")]
    NmState { key: &'static str, fault: String },
    #[error("{key}: {error}")]
    Yaml {
        key: &'static str,
        error: InvalidYaml,
    },
    #[error("{key}: expected OpenStack's network_data with links and networks, found {found}")]
    NetworkData {
        key: &'static str,
        found: &'static str,
    },
}

/// The description of a network under one of the [`NETWORK_KEYS`].
///
/// # Errors
/// If the bytes are no description. Does not check the description itself.
pub fn network_document(key: &'static str, bytes: &[u8]) -> Result<Document, NetworkSecretError> {
    if bytes.len() > LARGEST {
        let found = bytes.len();
        return Err(NetworkSecretError::TooLong { key, found });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| NetworkSecretError::NoText { key })?;
    if text.trim().is_empty() {
        return Ok(Document::None);
    }
    if key == NMSTATE {
        let fault = |error: NetworkConfigError| NetworkSecretError::NmState {
            key,
            fault: error.to_string(),
        };
        return nmstate_in(text).map_err(fault);
    }
    network_data_in(key, text)
}

/// The document of network_data, which may be YAML. The parser of network_data reads
/// JSON.
fn network_data_in(key: &'static str, text: &str) -> Result<Document, NetworkSecretError> {
    let (value, text) = match serde_json::from_str::<Value>(text) {
        Ok(value) => (value, text.to_owned()),
        Err(_) => {
            let value =
                yaml_to_json(text).map_err(|error| NetworkSecretError::Yaml { key, error })?;
            let text = format!("{value:#}\n");
            (value, text)
        }
    };
    let found = match &value {
        Value::Object(fields) if fields.is_empty() => "no settings",
        // cloud-init's format. Many Secrets hold it for the installed system.
        Value::Object(fields)
            if !fields.contains_key("links")
                && ["ethernets", "bonds", "vlans", "network", "renderer"]
                    .iter()
                    .any(|key| fields.contains_key(*key)) =>
        {
            "netplan"
        }
        Value::Object(_) => return Ok(Document::NetworkData(text)),
        other => kind(other),
    };
    Err(NetworkSecretError::NetworkData { key, found })
}

/// The network of a Secret manifest. [`Document::None`] if the Secret has no key at
/// all. Decodes only the value that holds the network.
pub(crate) fn network_of(secret: &Manifest) -> Result<Document, NetworkSecretError> {
    let mut names = Vec::new();
    let mut parts = Vec::new();
    // The API server copies `stringData` over `data`.
    for part in ["stringData", "data"] {
        let fields = match secret.fields.get(part) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(fields)) => fields,
            Some(other) => {
                return Err(NetworkSecretError::Shape {
                    path: part.to_owned(),
                    expected: "keys and values",
                    found: kind(other),
                });
            }
        };
        names.extend(fields.keys().map(|name| start(name)));
        parts.push((part, fields));
    }
    for key in NETWORK_KEYS {
        for (part, fields) in &parts {
            if let Some(value) = fields.get(key) {
                let path = format!("{part}.{key}");
                return network_document(key, &bytes(path, part, key, value)?);
            }
        }
    }
    if names.is_empty() {
        return Ok(Document::None);
    }
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let mut names = names.join(", ").escape_debug().to_string();
    if more > 0 {
        names += &format!(" and {more} more");
    }
    Err(NetworkSecretError::NoKey { names })
}

fn bytes(
    path: String,
    part: &str,
    key: &'static str,
    value: &Value,
) -> Result<Vec<u8>, NetworkSecretError> {
    let text = match value {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) => text,
        other => {
            return Err(NetworkSecretError::Shape {
                path,
                expected: "text",
                found: kind(other),
            });
        }
    };
    if part != "data" {
        return Ok(text.clone().into_bytes());
    }
    // Base64 is longer than its content by a third, and by line ends.
    if text.len() > 2 * LARGEST {
        let found = text.len() / 4 * 3;
        return Err(NetworkSecretError::TooLong { key, found });
    }
    let packed: String = text.split_ascii_whitespace().collect();
    STANDARD
        .decode(packed)
        .map_err(|_| NetworkSecretError::NoBase64 { path })
}
