//! Turns a checksum as Ironic gives it into a digest that can be computed.

use landfall_boot_params::digest::{Algorithm, Digest};

use crate::commands::image_info::{GivenChecksum, MD5_ADVICE};
use crate::disk::checksum_file::ChecksumSource;
use crate::failure::{Class, Failure, Result};

/// Determines the expected digest of the image at these URLs. Fetches a checksum
/// file if the checksum is a URL. `md5_enabled` is the setting of that name.
/// `verified` is false if servers need no valid certificate (`ipa-insecure`).
///
/// # Errors
/// If a checksum was given but cannot be used. The image is never written without
/// the check.
pub(super) fn resolve(
    given: &GivenChecksum,
    image_urls: &[String],
    authorization: &Option<String>,
    client: &reqwest::Client,
    md5_enabled: bool,
    verified: bool,
) -> Result<Option<Digest>> {
    let Some(source) = chosen(given)? else {
        return Ok(None);
    };
    if let Some(warning) = proves_nothing(&source.text_or_url, verified) {
        tracing::warn!("{warning}");
    }
    let expected = source.resolve(image_urls, authorization.as_deref(), client)?;
    if expected.algorithm() == Algorithm::Md5 && !md5_enabled {
        return Err(Failure::new(
            Class::InvalidCommandParamsError,
            "checksum: expected sha256 or sha512, found MD5, which is disabled",
        )
        .hint(MD5_ADVICE));
    }
    Ok(Some(expected))
}

/// The warning for a checksum file that anyone on the network path could have sent.
/// It is accepted all the same, as in the original, because some sites have nothing
/// else.
fn proves_nothing(text_or_url: &str, verified: bool) -> Option<String> {
    let scheme = text_or_url.split_once("://")?.0.to_ascii_lowercase();
    let reason = match scheme.as_str() {
        "http" => "it comes over http",
        "https" if !verified => "ipa-insecure verifies no certificate",
        _ => return None,
    };
    Some(format!(
        "checksum {text_or_url}: {reason}, so it detects damage but does not prove who made the image -- give the checksum itself, or an https URL whose certificate is verified"
    ))
}

/// `os_hash_*` takes precedence over `checksum` if its algorithm is known
/// (ironic-python-agent, `extensions/standby.py`).
fn chosen(given: &GivenChecksum) -> Result<Option<ChecksumSource>> {
    let not_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let name = not_empty(&given.os_hash_algo);
    let value = not_empty(&given.os_hash_value);
    let algorithm = name.as_deref().and_then(Algorithm::by_name);
    let source = |algorithm, text_or_url| {
        Ok(Some(ChecksumSource {
            algorithm,
            text_or_url,
        }))
    };
    match (algorithm, value, not_empty(&given.checksum)) {
        (Some(algorithm), Some(value), _) => source(Some(algorithm), value),
        (_, _, Some(checksum)) => source(None, checksum),
        (_, None, None) if name.is_none() => Ok(None),
        _ => Err(Failure::new(
            Class::InvalidCommandParamsError,
            format!(
                "checksum: expected a known algorithm (md5, sha1, sha2, sha3) with a value, found {}",
                name.as_deref().unwrap_or("none")
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fixtures::http_client;

    #[test]
    fn md5_only_where_it_is_allowed() {
        let client = http_client();
        let image = ["http://host/image".to_owned()];
        for given in [
            GivenChecksum {
                checksum: Some("0".repeat(32)),
                ..GivenChecksum::default()
            },
            GivenChecksum {
                os_hash_algo: Some("MD5".to_owned()),
                os_hash_value: Some("A".repeat(32)),
                checksum: None,
            },
        ] {
            let allowed = resolve(&given, &image, &None, &client, true, true).unwrap();
            assert_eq!(allowed.unwrap().algorithm(), Algorithm::Md5);
            let failure = resolve(&given, &image, &None, &client, false, true).unwrap_err();
            assert_eq!(failure.class, Class::InvalidCommandParamsError);
            assert!(failure.details.contains("MD5"), "{failure}");
        }
    }

    #[test]
    fn a_checksum_file_of_an_unproven_server_is_told() {
        for (text, verified, proves) in [
            ("0000", false, true),
            ("https://h/sums", true, true),
            ("file:///sums", false, true),
            ("https://h/sums", false, false),
            ("http://h/sums", true, false),
            ("HTTP://h/sums", true, false),
        ] {
            let warning = proves_nothing(text, verified);
            assert_eq!(warning.is_none(), proves, "{text} {verified} {warning:?}");
        }
    }

    #[test]
    fn one_of_the_forms_is_chosen() {
        let given = |algo: Option<&str>, value: Option<&str>, checksum: Option<&str>| {
            chosen(&GivenChecksum {
                os_hash_algo: algo.map(Into::into),
                os_hash_value: value.map(Into::into),
                checksum: checksum.map(Into::into),
            })
        };
        let source = |algorithm, text: &str| {
            Ok(Some(ChecksumSource {
                algorithm,
                text_or_url: text.to_owned(),
            }))
        };
        assert_eq!(given(None, None, None), Ok(None));
        assert_eq!(given(None, None, Some("")), Ok(None));
        assert_eq!(
            given(Some("sha256"), Some("a"), Some("b")),
            source(Some(Algorithm::Sha256), "a"),
            "os_hash wins"
        );
        assert_eq!(
            given(Some("crc32"), Some("a"), Some("b")),
            source(None, "b"),
            "an unknown algorithm falls back to checksum"
        );
        assert!(given(Some("sha256"), None, None).is_err());
        assert!(given(Some("crc32"), Some("a"), None).is_err());
        assert!(given(None, Some("a"), None).is_err());
    }
}
