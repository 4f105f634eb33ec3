//! Reads the digest of an image from the command line.

use anyhow::{Result, bail};
use landfall_boot_params::digest::{Algorithm, Digest};

/// Parses `ALGORITHM:HEX`; only SHA-256 and SHA-512 are accepted.
pub(crate) fn image_digest(text: &str) -> Result<Digest> {
    let digest: Digest = text.parse()?;
    match digest.algorithm() {
        Algorithm::Sha256 | Algorithm::Sha512 => Ok(digest),
        other => bail!("expected sha256 or sha512, found {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_digests_are_rejected() {
        for text in ["sha256:ab", "md5:00112233445566778899aabbccddeeff"] {
            assert!(image_digest(text).is_err(), "{text}");
        }
    }
}
