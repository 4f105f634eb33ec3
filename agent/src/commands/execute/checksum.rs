//! Ironic's words for a checksum, brought to one that can be computed.

use crate::commands::image_info::GivenChecksum;
use crate::disk::checksum_file::ChecksumSource;
use crate::disk::digest::{Algorithm, ExpectedDigest};
use crate::failure::{Class, Failure, Result};

/// Finds out what to expect of the image at this URL; fetches a checksum file
/// if the checksum is a URL.
///
/// # Errors
/// If a checksum was given but cannot be used: never silently without one.
pub(super) fn resolve(
    given: &GivenChecksum,
    image_url: &str,
    client: &reqwest::Client,
) -> Result<Option<ExpectedDigest>> {
    chosen(given)?
        .map(|source| source.resolve(image_url, client))
        .transpose()
}

/// `os_hash_*` wins if its algorithm is known, then `checksum`
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
                "checksum: expected sha256 or sha512 with a value, found algorithm {}",
                name.as_deref().unwrap_or("none")
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            given(Some("sha3_256"), Some("a"), Some("b")),
            source(None, "b"),
            "an unknown algorithm falls back to checksum"
        );
        assert!(given(Some("sha256"), None, None).is_err());
        assert!(given(Some("sha3_256"), Some("a"), None).is_err());
        assert!(given(None, Some("a"), None).is_err());
    }
}
