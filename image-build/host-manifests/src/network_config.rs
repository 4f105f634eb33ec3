//! Reads NMState that is a part of another file.

use landfall_network_plan::Document;
use landfall_network_plan::from_nmstate::yaml_to_json;
use serde_json::Value;

use crate::reader::kind;

/// Why a value is no description of a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NetworkConfigError {
    #[error("expected NMState as keys and values, found {0}")]
    NoMapping(&'static str),
    /// An empty description would switch off every NIC. OpenShift's
    /// image-customization-controller rejects it too.
    #[error("expected NMState, found no settings -- leave it out, and the host uses DHCP")]
    Empty,
}

/// The document of an install-config's `networkConfig`. Newer releases of the installer
/// expect keys and values, older releases expect a text with the same keys and values.
pub(crate) fn nmstate_of(value: &Value) -> Result<Document, NetworkConfigError> {
    match value {
        Value::Null => Ok(Document::None),
        Value::String(text) => nmstate_in(text),
        Value::Object(fields) if fields.is_empty() => Err(NetworkConfigError::Empty),
        // JSON is also YAML, so the parser of NMState reads it like the original text.
        Value::Object(_) => Ok(Document::NmState(format!("{value:#}\n"))),
        other => Err(NetworkConfigError::NoMapping(kind(other))),
    }
}

/// The document of a text. A text that contains only white space gives `Document::None`.
pub(crate) fn nmstate_in(text: &str) -> Result<Document, NetworkConfigError> {
    if text.trim().is_empty() {
        return Ok(Document::None);
    }
    match yaml_to_json(text) {
        Ok(Value::Null) => Err(NetworkConfigError::Empty),
        Ok(Value::Object(fields)) if fields.is_empty() => Err(NetworkConfigError::Empty),
        // If `networkConfig` is a text, the installer writes it as a YAML string: YAML
        // in YAML.
        Ok(Value::String(inner)) => Ok(Document::NmState(inner)),
        // The parser of NMState reports what is wrong with the text.
        _ => Ok(Document::NmState(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nmstate_is_a_mapping_or_a_text() {
        const TEXT: &str = "interfaces:\n- name: eth0\n";
        let nmstate = |text: &str| Ok(Document::NmState(text.to_owned()));
        for (value, expected) in [
            (json!(null), Ok(Document::None)),
            (json!(" \n"), Ok(Document::None)),
            (json!(TEXT), nmstate(TEXT)),
            (json!(json!(TEXT).to_string()), nmstate(TEXT)),
            (
                json!({"interfaces": []}),
                nmstate("{\n  \"interfaces\": []\n}\n"),
            ),
            (json!("a: ["), nmstate("a: [")),
            (json!({}), Err(NetworkConfigError::Empty)),
            (json!("--- {}\n"), Err(NetworkConfigError::Empty)),
            (json!("# nothing"), Err(NetworkConfigError::Empty)),
            (json!([1]), Err(NetworkConfigError::NoMapping("a list"))),
            (json!(true), Err(NetworkConfigError::NoMapping("a boolean"))),
        ] {
            assert_eq!(nmstate_of(&value), expected, "{value}");
        }
    }
}
