//! Converts a checksum from Ironic into a digest that the agent can compute.

use landfall_boot_params::Checksum;
use landfall_boot_params::digest::{Algorithm, DigestError};
use landfall_download::checksum_file;
use landfall_download::fetch::Request;
use landfall_download::proof::Proof;
use landfall_report::failure::{Failure, Result};

use crate::commands::image_info::{GivenChecksum, MD5_ADVICE};

/// The proof that the image of the request `image` is authentic: its digest, or
/// [`Proof::Nothing`] if no checksum was given. Fetches a checksum file if the checksum
/// is a URL. `md5_enabled` is the setting of that name. `verified` is false if servers
/// need no valid certificate (`ipa-insecure`).
///
/// # Errors
/// If a checksum was given but cannot be used. The agent then does not write the image.
pub(super) fn proof(
    checksum: Option<&Checksum>,
    image: &Request,
    client: &reqwest::Client,
    md5_enabled: bool,
    verified: bool,
) -> Result<Proof> {
    let Some(checksum) = checksum else {
        return Ok(Proof::Nothing);
    };
    if let Some(warning) = proves_nothing(checksum, verified) {
        tracing::warn!("{warning}");
    }
    let expected = checksum_file::resolve(checksum, image, client)?;
    if expected.algorithm() == Algorithm::Md5 && !md5_enabled {
        return Err(Failure::invalid_params(
            "checksum: expected sha256 or sha512, found MD5, which is disabled",
        )
        .hint(MD5_ADVICE));
    }
    Ok(Proof::Digest(expected))
}

/// The warning for a checksum file that anyone on the network path could have sent. The
/// agent accepts such a file, as Ironic's agent does, because some sites have no other
/// proof.
fn proves_nothing(checksum: &Checksum, verified: bool) -> Option<String> {
    let Checksum::File { url, .. } = checksum else {
        return None;
    };
    let scheme = url.split_once("://")?.0.to_ascii_lowercase();
    let reason = match scheme.as_str() {
        "http" => "it comes over http",
        "https" if !verified => "ipa-insecure verifies no certificate",
        _ => return None,
    };
    Some(format!(
        "checksum {url}: {reason}, so it detects damage but does not prove who made the image -- give the checksum itself, or an https URL whose certificate is verified"
    ))
}

/// Parses a checksum. `os_hash_*` takes precedence over `checksum` if it has a value and
/// a known algorithm (ironic-python-agent, `extensions/standby.py`). Returns `None` if no
/// checksum was given.
pub(super) fn parse(given: &GivenChecksum) -> Result<Option<Checksum>> {
    let not_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let name = not_empty(&given.os_hash_algo);
    let value = not_empty(&given.os_hash_value);
    let algorithm = name.as_deref().and_then(Algorithm::by_name);
    let found = match (algorithm, &value) {
        (Some(_), None) => "no value",
        _ => name.as_deref().unwrap_or("none"),
    };
    let parsed = match (algorithm, value, not_empty(&given.checksum)) {
        (Some(algorithm), Some(value), _) => Checksum::new(Some(algorithm), &value),
        (_, _, Some(checksum)) => Checksum::new(None, &checksum),
        (_, None, None) if name.is_none() => return Ok(None),
        _ => {
            return Err(Failure::invalid_params(format!(
                "image checksum: expected os_hash_algo (sha256, sha512, sha3_256, ...) with os_hash_value, found {found}"
            ))
            .hint("set both in the node's instance_info or in the image"));
        }
    };
    let invalid = |fault: DigestError| Failure::invalid_params(fault.to_string());
    parsed.map(Some).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use landfall_http_client::fixtures::http_client;
    use landfall_report::failure::Class;

    use super::*;

    #[test]
    fn md5_only_where_it_is_allowed() {
        let client = http_client();
        let image = Request::new(["http://host/image"]);
        let md5 = Checksum::parse(&"0".repeat(32)).unwrap();
        let proof = |md5_enabled| proof(Some(&md5), &image, &client, md5_enabled, true);
        assert!(matches!(proof(true), Ok(Proof::Digest(_))));
        let failure = proof(false).unwrap_err();
        assert_eq!(failure.class, Class::InvalidCommandParamsError);
        assert!(failure.details.contains("MD5"), "{failure}");
    }

    #[test]
    fn a_checksum_file_from_an_unverified_server_is_reported() {
        for (url, verified, proves) in [
            ("https://h/sums", true, true),
            ("file:///sums", false, true),
            ("https://h/sums", false, false),
            ("http://h/sums", true, false),
            ("HTTP://h/sums", true, false),
        ] {
            let warning = proves_nothing(&Checksum::parse(url).unwrap(), verified);
            assert_eq!(warning.is_none(), proves, "{url} {verified} {warning:?}");
        }
    }

    #[test]
    fn one_of_the_forms_is_chosen() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        let digest = |hex: &str| Some(Some(Checksum::parse(hex).unwrap()));
        for (algorithm, value, checksum, expected) in [
            ("", "", "", Some(None)),
            ("sha256", &*a, &*b, digest(&a)),
            // If the algorithm is unknown, `checksum` is used instead.
            ("crc32", &a, &b, digest(&b)),
            ("SHA256", &a, "", digest(&a)),
            ("sha512", &a, "", None),
            ("sha256", "", "", None),
            ("crc32", &a, "", None),
            ("", &a, "", None),
        ] {
            let text = |text: &str| Some(text.to_owned());
            let parsed = parse(&GivenChecksum {
                os_hash_algo: text(algorithm),
                os_hash_value: text(value),
                checksum: text(checksum),
            });
            assert_eq!(parsed.ok(), expected, "{algorithm} {value} {checksum}");
        }
        assert_eq!(parse(&GivenChecksum::default()), Ok(None));
    }
}
