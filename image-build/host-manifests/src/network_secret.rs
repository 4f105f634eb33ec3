//! Reads the network of a host from a Secret.
//!
//! The keys are those of the two programs that read such Secrets: `nmstate`
//! (OpenShift's image-customization-controller), `networkData` and `value` (metal3's
//! baremetal-operator). The builder reads Secrets in files, Landfall's controller
//! reads them from Kubernetes, both with [`network_of_keys`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_network_plan::Document;
use landfall_network_plan::from_nmstate::{InvalidYaml, yaml_to_json};
use serde_json::Value;

use crate::manifest::Manifest;
use crate::network_config::{NetworkConfigError, nmstate_in};
use crate::reader::{kind, start};

const NMSTATE: &str = "nmstate";

/// The keys under which a Secret holds the network of a host. The first one that is
/// not empty takes effect.
pub const NETWORK_KEYS: [&str; 3] = [NMSTATE, "networkData", "value"];

/// The maximum size in bytes of the network in a Secret. Kubernetes stores Secrets of up
/// to 1 MiB; a host with a hundred interfaces needs about 25 KiB.
const LARGEST: usize = 256 << 10;
/// The maximum size in bytes of the network in base64, which is a third longer than the
/// content and may contain line ends.
const LARGEST_BASE64: usize = 2 * LARGEST;
/// The maximum number of key names in a message.
const MOST_NAMES: usize = 8;

/// Why a Secret has no usable description of a network. The error shows no value of the
/// Secret.
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
    #[error("{path}: expected base64, found other text -- write plain text below `stringData`")]
    NoBase64 { path: String },
    #[error("{path}: expected at most {LARGEST_BASE64} bytes of base64, found {found}")]
    LongBase64 { path: String, found: usize },
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

/// The network that a Secret with these keys describes: the text under the first of
/// the [`NETWORK_KEYS`] that is not empty. Returns [`Document::None`] if the Secret has
/// no keys, or if every [`NETWORK_KEYS`] key in it is empty.
///
/// # Errors
/// If the Secret has keys, but none for a network, or if the text does not describe a
/// network. Does not check the description itself.
pub fn network_of_keys(data: &BTreeMap<&str, &[u8]>) -> Result<Document, NetworkSecretError> {
    let value = |key| Ok(data.get(key).map(|bytes| Cow::Borrowed(*bytes)));
    first_network(data.keys().copied(), value)
}

/// Calls `value` with each of the [`NETWORK_KEYS`] in order, and parses the first result
/// that is not empty. `keys` are all keys of the Secret.
fn first_network<'v>(
    keys: impl ExactSizeIterator<Item = &'v str>,
    value: impl Fn(&'static str) -> Result<Option<Cow<'v, [u8]>>, NetworkSecretError>,
) -> Result<Document, NetworkSecretError> {
    let mut is_there = keys.len() == 0;
    for key in NETWORK_KEYS {
        match value(key)? {
            Some(bytes) if bytes.trim_ascii().is_empty() => is_there = true,
            Some(bytes) => return network_document(key, &bytes),
            None => {}
        }
    }
    if is_there {
        return Ok(Document::None);
    }
    let names = names(keys);
    Err(NetworkSecretError::NoKey { names })
}

/// The names of the first keys, each shortened, because Kubernetes allows 253 characters
/// in each name.
fn names<'k>(keys: impl Iterator<Item = &'k str>) -> String {
    let mut names: Vec<String> = keys.map(start).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let mut names = names.join(", ").escape_debug().to_string();
    if more > 0 {
        names += &format!(" and {more} more");
    }
    names
}

fn network_document(key: &'static str, bytes: &[u8]) -> Result<Document, NetworkSecretError> {
    if bytes.len() > LARGEST {
        let found = bytes.len();
        return Err(NetworkSecretError::TooLong { key, found });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| NetworkSecretError::NoText { key })?;
    if key == NMSTATE {
        let fault = |error: NetworkConfigError| NetworkSecretError::NmState {
            key,
            fault: error.to_string(),
        };
        return nmstate_in(text).map_err(fault);
    }
    network_data_in(key, text)
}

/// The document of a network_data. The text is JSON or YAML, or a quoted text that
/// contains JSON or YAML. The parser of network_data reads JSON.
fn network_data_in(key: &'static str, text: &str) -> Result<Document, NetworkSecretError> {
    let (value, text) = match json_of(key, text)? {
        (Value::String(inner), _) => json_of(key, &inner)?,
        found => found,
    };
    let found = match &value {
        Value::Object(fields) if fields.is_empty() => "no settings",
        // cloud-init's format. Many Secrets hold it for the installed system.
        Value::Object(fields)
            if !fields.contains_key("links")
                && [
                    "version",
                    "renderer",
                    "ethernets",
                    "bonds",
                    "vlans",
                    "config",
                    "network",
                ]
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

/// Parses a text in JSON or YAML. Returns the value and its JSON text, which is the
/// unchanged `text` if that is already JSON.
fn json_of(key: &'static str, text: &str) -> Result<(Value, String), NetworkSecretError> {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return Ok((value, text.to_owned()));
    }
    let value = yaml_to_json(text).map_err(|error| NetworkSecretError::Yaml { key, error })?;
    let text = format!("{value:#}\n");
    Ok((value, text))
}

/// The network of a Secret manifest. Does not decode the values of other keys, which may
/// be passwords.
pub(crate) fn network_of(secret: &Manifest) -> Result<Document, NetworkSecretError> {
    let mut values = BTreeMap::new();
    // The API server copies `stringData` over `data`.
    for part in ["data", "stringData"] {
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
        values.extend({ fields.iter() }.map(|(name, value)| (name.as_str(), (part, value))));
    }
    let value = |key| match values.get(key) {
        None => Ok(None),
        Some((part, value)) => Ok(Some(Cow::Owned(bytes(part, key, value)?))),
    };
    first_network(values.keys().copied(), value)
}

fn bytes(part: &str, key: &'static str, value: &Value) -> Result<Vec<u8>, NetworkSecretError> {
    let path = format!("{part}.{key}");
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
    if text.len() > LARGEST_BASE64 {
        let found = text.len();
        return Err(NetworkSecretError::LongBase64 { path, found });
    }
    let packed: String = text.split_ascii_whitespace().collect();
    STANDARD
        .decode(packed)
        .map_err(|_| NetworkSecretError::NoBase64 { path })
}

#[cfg(test)]
mod tests;
