//! `image_info`: Ironic's words for an image, read and checked.

use serde_json::Value;

use crate::failure::{Class, Failure, Result};

/// An image as the step `write_image` gets it.
#[derive(Debug, Clone)]
pub(crate) struct ImageInfo {
    /// Names the image in results.
    pub(super) id: String,
    /// Where the image is to be had; at least one.
    pub(super) urls: Vec<String>,
    /// What it must be.
    pub(super) checksum: GivenChecksum,
    /// `image_request_authorization`, in base64.
    pub(super) authorization: Option<String>,
}

impl ImageInfo {
    /// Reads and checks `image_info`.
    ///
    /// # Errors
    /// No id, no URL, no checksum; a partition image.
    pub(crate) fn read(info: &Value) -> Result<Self> {
        let text = |key: &str| info[key].as_str().map(str::to_owned);
        let id = text("id").ok_or_else(|| invalid("image_info has no id"))?;
        let urls: Vec<String> = info["urls"]
            .as_array()
            .map(|urls| {
                urls.iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect()
            })
            .unwrap_or_default();
        if urls.is_empty() {
            return Err(invalid(format!("image_info of {id} has no urls")));
        }
        if info["image_type"] == "partition" {
            return Err(invalid(format!(
                "image {id} is a partition image, expected a whole disk image"
            ))
            .hint("set image_type: whole-disk in instance_info"));
        }
        let info_checksum = given_checksum(info);
        if info_checksum.checksum.is_none() && info_checksum.os_hash_value.is_none() {
            return Err(invalid(format!(
                "image_info of {id} has neither checksum nor os_hash_value"
            )));
        }
        Ok(Self {
            id,
            urls,
            checksum: info_checksum,
            authorization: text("image_request_authorization"),
        })
    }
}

/// The checksum of an image in any of the forms in which Ironic gives it, as
/// it came.
#[derive(Debug, Clone, Default)]
pub(super) struct GivenChecksum {
    /// `os_hash_algo`
    pub(super) os_hash_algo: Option<String>,
    /// `os_hash_value`: hexadecimal text, or the URL of a checksum file.
    pub(super) os_hash_value: Option<String>,
    /// `checksum`: hexadecimal text of any algorithm, or the URL of a checksum file.
    pub(super) checksum: Option<String>,
}

/// The checksum in `image_info`; `instance_info` has the same with `image_` in
/// front of each key.
fn given_checksum(info: &Value) -> GivenChecksum {
    // An empty text is what a template leaves of a checksum that nobody gave.
    let text = |key: &str| {
        let given = info[key].as_str().filter(|text| !text.trim().is_empty());
        given.map(str::to_owned)
    };
    GivenChecksum {
        os_hash_algo: text("os_hash_algo"),
        os_hash_value: text("os_hash_value"),
        checksum: text("checksum"),
    }
}

/// The header value of [`ImageInfo::authorization`], which Ironic sends
/// complete and in base64.
///
/// # Errors
/// If it is not the base64 of a text.
pub(super) fn authorization(encoded: &str) -> Result<String> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| invalid("image_request_authorization is not base64 of a text"))
}

fn invalid(details: impl Into<String>) -> Failure {
    Failure::new(Class::InvalidCommandParamsError, details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_ironic_sends_is_read() {
        let info = ImageInfo::read(&json!({
            "id": "disk.raw", "urls": ["http://192.0.2.1/disk.raw"], "disk_format": "raw",
            "container_format": null, "stream_raw_images": true,
            "os_hash_algo": "sha256", "os_hash_value": "ab", "node_uuid": "6d85",
        }))
        .unwrap();
        assert_eq!(info.urls, ["http://192.0.2.1/disk.raw"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (info, missing) in [
            (json!({}), "id"),
            (json!({"id": "a"}), "urls"),
            (json!({"id": "a", "urls": []}), "urls"),
            (json!({"id": "a", "urls": ["http://x"]}), "checksum"),
            (
                json!({"id": "a", "urls": ["http://x"], "checksum": "", "os_hash_value": " "}),
                "checksum",
            ),
            (
                json!({"id": "a", "urls": ["http://x"], "checksum": "c", "image_type": "partition"}),
                "partition",
            ),
        ] {
            let failure = ImageInfo::read(&info).unwrap_err();
            assert_eq!(failure.class, Class::InvalidCommandParamsError);
            assert!(failure.details.contains(missing), "{failure}");
        }
    }

    #[test]
    fn authorization_is_unwrapped() {
        assert_eq!(authorization("QmFzaWMgYTpi").unwrap(), "Basic a:b");
        assert!(authorization("%%").is_err());
    }
}
