//! Parses the digests in arguments.

use landfall_download::digest::{Algorithm, ExpectedDigest};
use landfall_report::failure::{Failure, Result};

/// Parses the digest of an image as downloaded, `sha256:0123...`. Every algorithm
/// that the agent knows is accepted.
pub fn image_digest(text: &str) -> Result<ExpectedDigest> {
    let invalid = || {
        Failure::invalid_params(format!(
            "expected ALGORITHM:HEX, e.g. sha256:0123..., found {text:?}"
        ))
    };
    let (name, hex) = text.split_once(':').ok_or_else(invalid)?;
    let algorithm = Algorithm::by_name(name).ok_or_else(invalid)?;
    ExpectedDigest::new(algorithm, hex).map_err(|failure| Failure::invalid_params(failure.details))
}

/// Parses `sha256-0123...` or `sha512-0123...`, the form of a verification hash in
/// Ignition.
pub fn ignition_hash(text: &str) -> Result<ExpectedDigest> {
    let algorithm = |name: &str| match name {
        "sha256" => Some(Algorithm::Sha256),
        "sha512" => Some(Algorithm::Sha512),
        _ => None,
    };
    let parts = text.split_once('-');
    let Some((algorithm, hex)) = parts.and_then(|(name, hex)| Some((algorithm(name)?, hex))) else {
        return Err(Failure::invalid_params(format!(
            "expected sha256-HEX or sha512-HEX, found {text:?}"
        )));
    };
    ExpectedDigest::new(algorithm, hex).map_err(|failure| Failure::invalid_params(failure.details))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn each_place_has_its_form() {
        for (text, image, ignition) in [
            (format!("sha256:{ZEROS}"), true, false),
            (format!("sha256-{ZEROS}"), false, true),
            (format!("sha512:{ZEROS}{ZEROS}"), true, false),
            (format!("sha512-{ZEROS}{ZEROS}"), false, true),
            (format!("sha3-256:{ZEROS}"), true, false),
            (format!("md5-{}", &ZEROS[..32]), false, false),
            (format!("sha256:{}", &ZEROS[1..]), false, false),
            (format!("sha512-{ZEROS}"), false, false),
            (ZEROS.to_owned(), false, false),
            (String::new(), false, false),
        ] {
            assert_eq!(image_digest(&text).is_ok(), image, "{text}");
            assert_eq!(ignition_hash(&text).is_ok(), ignition, "{text}");
        }
        let digest = ignition_hash(&format!("sha512-{ZEROS}{ZEROS}")).unwrap();
        assert_eq!(digest.algorithm(), Algorithm::Sha512);
    }
}
