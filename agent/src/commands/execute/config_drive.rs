//! Reads the config drive that Ironic sends to the step `write_image`.

use std::fmt;

use landfall_disk::config_drive::{ConfigDrive, Parts};
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use crate::commands::node::Node;

/// Reads the config drive of a command. Returns `None` if the command has none. If the
/// config drive comes as separate parts, its metadata gets the node's UUID and name, as
/// in a config drive that the conductor builds.
///
/// # Errors
/// If the value is not a config drive in one of the supported forms.
pub(super) fn read(value: &Value, node: &Node) -> Result<Option<ConfigDrive>> {
    let wrong =
        |reason: &dyn fmt::Display| Failure::invalid_params(format!("config drive: {reason}"));
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) if is_url(text) => Ok(Some(ConfigDrive::Url(text.trim().to_owned()))),
        Value::String(text) => Ok(Some(ConfigDrive::Text(text.clone()))),
        Value::Object(parts) if parts.is_empty() => Ok(None),
        Value::Object(parts) => {
            let mut parts = Parts::new(parts).map_err(|error| wrong(&error))?;
            for name in ["uuid", "name"] {
                if let Some(value) = node.0.get(name).and_then(Value::as_str) {
                    parts.default_meta_data(name, value);
                }
            }
            Ok(Some(ConfigDrive::Parts(parts)))
        }
        _ => Err(wrong(&"expected base64 text, a URL or its parts")),
    }
}

fn is_url(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("http://") || text.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_url_or_nothing() {
        let node = Node(Value::Null);
        for (value, expected) in [
            (json!(null), None),
            (json!(" "), None),
            (json!({}), None),
            (json!("H4sI"), Some(ConfigDrive::Text("H4sI".into()))),
            (
                json!(" https://host/drive\n"),
                Some(ConfigDrive::Url("https://host/drive".into())),
            ),
        ] {
            assert_eq!(read(&value, &node), Ok(expected), "{value}");
        }
        assert!(read(&json!({"userdata": "x"}), &node).is_err());
        assert!(read(&json!([1]), &node).is_err());
    }

    #[test]
    fn parts_get_the_nodes_names() {
        let node = Node(json!({"uuid": "u-1", "name": "node-1"}));
        let value = json!({"meta_data": {"name": "given"}, "user_data": "x"});
        let Ok(Some(ConfigDrive::Parts(parts))) = read(&value, &node) else {
            panic!("expected parts");
        };
        let meta_data: Value = serde_json::from_slice(&parts.files()[0].1).unwrap();
        assert_eq!(meta_data, json!({"uuid": "u-1", "name": "given"}));
    }
}
