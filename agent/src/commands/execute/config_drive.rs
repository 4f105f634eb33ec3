//! The config drive as the step `write_image` gets it.

use serde_json::Value;

use crate::disk::config_drive::ConfigDrive;
use crate::failure::{Class, Failure, Result};

/// Reads the value in a command; `None` if there is no config drive.
///
/// # Errors
/// If the value is in the form of its parts, which has to be rendered first.
pub(super) fn read(value: &Value) -> Result<Option<ConfigDrive>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) if is_url(text) => Ok(Some(ConfigDrive::Url(text.trim().to_owned()))),
        Value::String(text) => Ok(Some(ConfigDrive::Text(text.clone()))),
        Value::Object(parts) if parts.is_empty() => Ok(None),
        _ => Err(Failure::new(
            Class::InvalidCommandParamsError,
            "config drive: expected base64 text or a URL, found JSON parts",
        )
        .hint("the conductor renders the parts for write_image; install_coreos takes them")),
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
            assert_eq!(read(&value), Ok(expected), "{value}");
        }
        assert!(read(&json!({"user_data": "x"})).is_err());
        assert!(read(&json!([1])).is_err());
    }
}
