//! The network data in a Secret.
//!
//! | key | content | written by |
//! |---|---|---|
//! | `nmstate` | NMState, YAML | OpenShift |
//! | `networkData` | OpenStack's network_data, JSON or YAML | metal3 |
//! | `value` | the same, the older key | metal3 |
//!
//! If there are several, the first one of this table that is not empty counts.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use landfall_network_plan::from_nmstate::yaml_to_json;
use landfall_network_plan::{Document, NetworkPlan};
use serde_json::Value;

const NMSTATE: &str = "nmstate";
const NETWORK_DATA: &[&str] = &["networkData", "value"];
/// In bytes. A Secret can have 1 MiB; a host with a hundred interfaces needs a tenth
/// of this.
const LARGEST: usize = 256 << 10;
/// At most this many faults of a document are reported.
const MOST_FAULTS: usize = 20;

/// Why the network data of a Secret cannot be used. None of these texts contains a
/// value of the Secret's other keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretFault {
    /// Holds the names of the keys that it has.
    #[error(
        "the Secret has no network data: expected the key nmstate, networkData or value, found {0}"
    )]
    NoKey(String),
    #[error("{key}: expected at most {LARGEST} bytes, found {found}")]
    TooLong { key: &'static str, found: usize },
    #[error("{0}: expected text in UTF-8")]
    NotText(&'static str),
    /// Holds the faults, joined by semicolons.
    #[error("{key}: {faults}")]
    Document { key: &'static str, faults: String },
}

/// The network that a Secret describes, checked with the code that reads it in the
/// ramdisk. [`Document::None`] if the Secret is empty, or all its keys are.
///
/// # Errors
/// If the Secret has keys, but none for a network, or if the network cannot be used.
pub(crate) fn network_document(
    data: &BTreeMap<String, ByteString>,
) -> Result<Document, SecretFault> {
    let keys = std::iter::once(&NMSTATE).chain(NETWORK_DATA);
    let present: Vec<(&'static str, &[u8])> = keys
        .filter_map(|key| Some((*key, data.get(*key)?.0.as_slice())))
        .collect();
    if present.is_empty() && !data.is_empty() {
        return Err(SecretFault::NoKey(names(data)));
    }
    let Some((key, bytes)) = present.into_iter().find(|(_, bytes)| !bytes.is_empty()) else {
        return Ok(Document::None);
    };
    if bytes.len() > LARGEST {
        let found = bytes.len();
        return Err(SecretFault::TooLong { key, found });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| SecretFault::NotText(key))?;
    let document = match key {
        NMSTATE => nmstate(text),
        _ => network_data(text),
    };
    document.map_err(|faults| {
        let left_out = faults.len().saturating_sub(MOST_FAULTS);
        let mut faults: Vec<String> = faults.into_iter().take(MOST_FAULTS).collect();
        if left_out > 0 {
            faults.push(format!("and {left_out} more"));
        }
        let faults = faults.join("; ");
        SecretFault::Document { key, faults }
    })
}

/// The names of the first keys. Kubernetes allows 253 characters in each.
fn names(data: &BTreeMap<String, ByteString>) -> String {
    const MOST: usize = 8;
    let mut names: Vec<&str> = data.keys().take(MOST).map(String::as_str).collect();
    if data.len() > MOST {
        names.push("...");
    }
    names.join(", ")
}

fn nmstate(text: &str) -> Result<Document, Vec<String>> {
    let text = match as_json(text)? {
        // A quoted `networkConfig: |` in install-config.yaml becomes text in YAML.
        Value::String(inner) => inner,
        _ => text.to_owned(),
    };
    let plan = NetworkPlan::from_nmstate(&text).map_err(|error| error.lines())?;
    if plan.interfaces.is_empty() && plan.installed.is_empty() {
        return Err(vec!["no network configuration".to_owned()]);
    }
    Ok(Document::NmState(text))
}

fn network_data(text: &str) -> Result<Document, Vec<String>> {
    let value = match as_json(text)? {
        Value::String(inner) => as_json(&inner)?,
        value => value,
    };
    if is_netplan(&value) {
        return Err(vec![
            "expected OpenStack's network_data with links and networks, found netplan".to_owned(),
        ]);
    }
    let text = value.to_string();
    NetworkPlan::from_network_data(&text).map_err(|error| error.lines())?;
    Ok(Document::NetworkData(text))
}

/// JSON is YAML, so this reads both.
fn as_json(text: &str) -> Result<Value, Vec<String>> {
    yaml_to_json(text).map_err(|error| vec![error.to_string()])
}

/// The format of cloud-init and netplan, which people put there because other tools
/// call it network data, too.
fn is_netplan(value: &Value) -> bool {
    let inner = value.get("network").unwrap_or(value);
    value.get("links").is_none()
        && ["version", "renderer", "ethernets", "config"]
            .iter()
            .any(|key| inner.get(key).is_some())
}

#[cfg(test)]
mod tests;
