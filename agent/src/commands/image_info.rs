//! Reads and checks `image_info`, Ironic's description of an image.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_boot_params::digest::Algorithm;
use landfall_http_client::Proxies;
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use super::partition_image;

/// An image as the step `write_image` receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// The name of the image in results.
    pub(super) id: String,
    /// The URLs of the image, at least one.
    pub(super) urls: Vec<String>,
    pub(super) checksum: GivenChecksum,
    /// The image format according to Ironic (`disk_format`).
    pub(super) disk_format: Option<String>,
    /// The credentials for the image server.
    pub(super) access: Access,
    pub(super) proxies: Proxies,
    is_partition: bool,
}

/// The remedy for a checksum that the agent rejects because of its algorithm.
pub(super) const MD5_ADVICE: &str = "give a sha256 or sha512 checksum, or allow MD5: allow_md5_checksum in section [agent] of Ironic's configuration, or md5_enabled in the agent's";

/// The credentials for an image server.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// `image_request_authorization`, in base64.
    authorization: Option<String>,
    /// `image_server_auth_strategy`
    strategy: Option<String>,
    /// `image_server_user`
    user: Option<String>,
    /// `image_server_password`
    password: Option<String>,
}

impl std::fmt::Debug for Access {
    /// Leaves out the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}

impl ImageInfo {
    /// Reads and checks `image_info`. The rules and their order are those of the
    /// validator in Ironic's agent (`_validate_image_info` in its extensions/standby.py).
    ///
    /// # Errors
    /// If there is no id, no URL or no checksum, if `checksum` is empty, if only one of
    /// `os_hash_algo` and `os_hash_value` is given, or if a field of the checksum or a
    /// proxy is not a text.
    pub fn read(info: &Value) -> Result<Self> {
        let field = |key: &str| {
            let value = info.get(key);
            value.ok_or_else(|| Failure::invalid_params(format!("Image is missing '{key}' field.")))
        };
        let (id, urls) = (field("id")?, field("urls")?);
        let id = match id {
            Value::String(id) => id.clone(),
            other => other.to_string(),
        };
        let urls: Vec<String> = urls
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if urls.is_empty() {
            return Err(Failure::invalid_params(
                "Image 'urls' must be a list with at least one element.",
            ));
        }
        let text = |key: &str| info[key].as_str().map(str::to_owned);
        Ok(Self {
            checksum: given_checksum(info)?,
            is_partition: info["image_type"] == "partition",
            disk_format: text("disk_format"),
            access: Access {
                authorization: text("image_request_authorization"),
                strategy: text("image_server_auth_strategy"),
                user: text("image_server_user"),
                password: text("image_server_password"),
            },
            proxies: proxies(info)?,
            id,
            urls,
        })
    }

    /// Rejects an image whose only checksum is an MD5, unless MD5 is enabled
    /// (`md5_enabled`, or `agent_md5_checksum_enable` of a lookup answer). Ironic's agent
    /// treats such an image like an image without a checksum.
    ///
    /// # Errors
    /// If the only checksum is an MD5. The error says that no checksum is
    /// available.
    pub(super) fn refuse_md5(&self, md5_enabled: bool) -> Result<()> {
        let GivenChecksum {
            os_hash_algo,
            checksum,
            ..
        } = &self.checksum;
        // As in Ironic's agent, a checksum that is not longer than an MD5 counts as an
        // MD5.
        let md5_digits = Algorithm::Md5.hex_length();
        let is_md5 = |text: &String| !text.contains("://") && text.chars().count() <= md5_digits;
        match checksum {
            Some(checksum) if !md5_enabled && os_hash_algo.is_none() && is_md5(checksum) => {
                Err(Failure::invalid_params(format!(
                    "Image checksum is not available: 'checksum' has {} characters, so it counts as an MD5 (at most {md5_digits}), and MD5 is disabled",
                    checksum.chars().count()
                ))
                .hint(MD5_ADVICE))
            }
            _ => Ok(()),
        }
    }

    /// # Errors
    /// If the image is a partition image.
    pub(super) fn must_be_whole_disk(&self) -> Result<()> {
        if self.is_partition {
            return Err(partition_image::refusal(&format!("image {}", self.id)));
        }
        Ok(())
    }
}

/// Reads `proxies` and `no_proxy`. Ironic takes them from the node's driver_info.
fn proxies(info: &Value) -> Result<Proxies> {
    let proxy = |scheme: &str| match &info["proxies"][scheme] {
        Value::Null => Ok(None),
        Value::String(url) if url.is_empty() => Ok(None),
        Value::String(url) => Ok(Some(url.clone())),
        _ => Err(Failure::invalid_params(format!(
            "proxies: {scheme}: expected a URL"
        ))),
    };
    Ok(Proxies {
        http: proxy("http")?,
        https: proxy("https")?,
        none_for: listed(info["no_proxy"].as_str().unwrap_or_default()),
    })
}

/// Splits `a, b` into `a` and `b`.
fn listed(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The checksum of an image as received, in any of the forms that Ironic uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GivenChecksum {
    /// `os_hash_algo`: the algorithm of `os_hash_value`.
    pub(super) os_hash_algo: Option<String>,
    /// `os_hash_value`: hexadecimal text, or the URL of a checksum file.
    pub(super) os_hash_value: Option<String>,
    /// `checksum`: hexadecimal digest of any algorithm, or the URL of a checksum file.
    pub(super) checksum: Option<String>,
}

/// Reads the checksum in `image_info`. (`instance_info` has the same keys with the
/// prefix `image_`.)
fn given_checksum(info: &Value) -> Result<GivenChecksum> {
    let text = |key: &str| match &info[key] {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        _ => Err(Failure::invalid_params(format!(
            "Image '{key}' must be a non-empty string."
        ))),
    };
    let is_given = |key: &str| !matches!(&info[key], Value::Null) && info[key] != "";
    let checksum = match &info["checksum"] {
        Value::Null => None,
        _ => Some(text("checksum")?),
    };
    if is_given("os_hash_algo") || is_given("os_hash_value") {
        return Ok(GivenChecksum {
            os_hash_algo: Some(text("os_hash_algo")?),
            os_hash_value: Some(text("os_hash_value")?),
            checksum,
        });
    }
    if checksum.is_none() {
        return Err(Failure::invalid_params(
            "Image checksum is not available: expected 'checksum', or 'os_hash_algo' with 'os_hash_value'.",
        ));
    }
    Ok(GivenChecksum {
        checksum,
        ..GivenChecksum::default()
    })
}

impl Access {
    /// The value of the `Authorization` header. The first of these takes precedence:
    /// `image_request_authorization`; the user name and password in `image_info`, if its
    /// strategy is `http_basic`; `own`, the user name and password in this machine's
    /// settings for image servers. `None` if there are none.
    ///
    /// # Errors
    /// If the credentials are malformed or incomplete.
    pub(super) fn header(&self, own: Option<(&str, &str)>) -> Result<Option<String>> {
        if let Some(encoded) = &self.authorization {
            // Ironic sends the whole header value in base64.
            let value = STANDARD.decode(encoded).ok();
            let value = value.and_then(|bytes| String::from_utf8(bytes).ok());
            return value.map(Some).ok_or_else(|| {
                Failure::invalid_params("image_request_authorization: expected text in base64")
            });
        }
        let given = match self.strategy.as_deref() {
            None | Some("" | "noauth") => None,
            Some("http_basic") => match (&self.user, &self.password) {
                (Some(user), Some(password)) => Some((user.as_str(), password.as_str())),
                _ => {
                    return Err(Failure::invalid_params(
                        "image_server_auth_strategy is http_basic: expected image_server_user and image_server_password",
                    ));
                }
            },
            Some(other) => {
                return Err(Failure::invalid_params(format!(
                    "image_server_auth_strategy: expected noauth or http_basic, found {other}"
                )));
            }
        };
        Ok(given.or(own).map(|(user, password)| basic(user, password)))
    }
}

/// The value of the `Authorization` header for basic authentication (RFC 7617).
pub(super) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

#[cfg(test)]
mod tests {
    use landfall_report::failure::Class;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_info_of_ironic_is_read() {
        let info = ImageInfo::read(&json!({
            "id": "disk.raw", "urls": ["http://192.0.2.1/disk.raw"], "disk_format": "raw",
            "container_format": null, "stream_raw_images": true,
            "os_hash_algo": "sha256", "os_hash_value": "ab", "node_uuid": "6d85",
        }))
        .unwrap();
        assert_eq!(info.urls, ["http://192.0.2.1/disk.raw"]);
    }

    /// The expected texts are those of Ironic's agent, except for the text that lists
    /// all forms of a checksum.
    #[test]
    fn missing_fields_have_the_errors_of_the_original() {
        let urls = "Image 'urls' must be a list with at least one element.";
        let checksum = "Image 'checksum' must be a non-empty string.";
        for (info, details) in [
            (json!(null), "Image is missing 'id' field."),
            (json!({}), "Image is missing 'id' field."),
            (json!({"id": "a"}), "Image is missing 'urls' field."),
            (json!({"id": "a", "urls": "x"}), urls),
            (json!({"id": "a", "urls": []}), urls),
            (
                json!({"id": "a", "urls": ["http://x"]}),
                "Image checksum is not available",
            ),
            (
                json!({"id": "a", "urls": ["http://x"], "checksum": ""}),
                checksum,
            ),
            (
                json!({"id": "a", "urls": ["http://x"], "checksum": 1}),
                checksum,
            ),
            (
                json!({"id": "a", "urls": ["http://x"], "checksum": "", "os_hash_algo": "sha256",
                    "os_hash_value": "a"}),
                checksum,
            ),
            (
                json!({"id": "a", "urls": ["http://x"], "os_hash_algo": "sha256"}),
                "Image 'os_hash_value' must be a non-empty string.",
            ),
            (
                json!({"id": "a", "urls": ["http://x"], "os_hash_value": "a"}),
                "Image 'os_hash_algo' must be a non-empty string.",
            ),
        ] {
            let failure = ImageInfo::read(&info).unwrap_err();
            assert_eq!(failure.class, Class::InvalidCommandParamsError);
            assert!(failure.details.starts_with(details), "{info}: {failure}");
        }
        let partition =
            json!({"id": "a", "urls": ["http://x"], "checksum": "c", "image_type": "partition"});
        let info = ImageInfo::read(&partition).unwrap();
        assert!(info.must_be_whole_disk().is_err());
    }

    #[test]
    fn an_md5_alone_is_no_checksum_unless_it_is_enabled() {
        let md5 = "0".repeat(32);
        for (checksums, refused) in [
            (json!({"checksum": md5}), true),
            (json!({"checksum": "abc"}), true),
            (json!({"checksum": "0".repeat(64)}), false),
            (json!({"checksum": "http://h/sums"}), false),
            (
                json!({"checksum": md5, "os_hash_algo": "sha256", "os_hash_value": "a"}),
                false,
            ),
        ] {
            let mut info = json!({"id": "a", "urls": ["http://x"]});
            let keys = info.as_object_mut().unwrap();
            keys.extend(checksums.as_object().unwrap().clone());
            let info = ImageInfo::read(&info).unwrap();
            assert_eq!(info.refuse_md5(true), Ok(()));
            let outcome = info.refuse_md5(false);
            assert_eq!(outcome.is_err(), refused, "{checksums}");
            if let Err(failure) = outcome {
                assert_eq!(failure.class, Class::InvalidCommandParamsError);
                assert!(
                    failure
                        .in_words()
                        .starts_with("Invalid command parameters: Image checksum is not available"),
                    "{failure}"
                );
            }
        }
    }

    #[test]
    fn credentials_for_the_image_server() {
        let access = |info: Value| {
            let mut whole = json!({"id": "a", "urls": ["http://x"], "checksum": "c"});
            whole
                .as_object_mut()
                .unwrap()
                .extend(info.as_object().unwrap().clone());
            ImageInfo::read(&whole).unwrap().access
        };
        let own = Some(("me", "mine"));
        let of_ironic = access(json!({
            "image_request_authorization": "QmVhcmVyIHQ=",
            "image_server_auth_strategy": "http_basic",
        }));
        assert_eq!(of_ironic.header(own).unwrap().unwrap(), "Bearer t");
        let basic = access(json!({
            "image_server_auth_strategy": "http_basic",
            "image_server_user": "a", "image_server_password": "b",
        }));
        assert_eq!(basic.header(own).unwrap().unwrap(), "Basic YTpi");
        assert!(!format!("{basic:?}").contains("password"));
        let nothing = access(json!({}));
        assert_eq!(nothing.header(own).unwrap().unwrap(), "Basic bWU6bWluZQ==");
        assert_eq!(nothing.header(None), Ok(None));
        for bad in [
            json!({"image_request_authorization": "%%"}),
            json!({"image_server_auth_strategy": "http_basic", "image_server_user": "a"}),
            json!({"image_server_auth_strategy": "kerberos"}),
        ] {
            assert!(access(bad).header(None).is_err());
        }
    }

    #[test]
    fn proxies_are_read() {
        let info = json!({"proxies": {"http": "http://p:3128", "https": ""}, "no_proxy": "a,b"});
        let proxies = proxies(&info).unwrap();
        assert_eq!(proxies.http.as_deref(), Some("http://p:3128"));
        assert_eq!(
            (proxies.https, proxies.none_for.join(" ")),
            (None, "a b".to_owned())
        );
        assert!(super::proxies(&json!({"proxies": {"http": 1}})).is_err());
    }
}
