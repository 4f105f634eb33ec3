//! An image and its checksum, as the kernel command line or Ironic gives them.

use crate::agent_args::BootParams;
use crate::digest::{Algorithm, Digest, DigestError};
use crate::shown::without_secrets;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenImage {
    /// Every URL leads to the same image.
    pub urls: Vec<String>,
    pub checksum: Option<Checksum>,
}

/// The checksum that the downloaded image must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksum {
    Digest(Digest),
    /// A file in the format of sha256sum, with a line for the image.
    File {
        url: String,
        /// `None`: the length of the digest in the file selects the algorithm.
        algorithm: Option<Algorithm>,
    },
}

/// Why the command line names no image that can be verified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenImageError {
    #[error("landfall.coreos.image_checksum: {0}")]
    Checksum(DigestError),
    #[error(
        "landfall.coreos.image: expected one checksum, found ?sha256={sha256} and landfall.coreos.image_checksum={other}"
    )]
    TwoChecksums {
        /// In hexadecimal digits.
        sha256: String,
        /// As it was given, without secrets.
        other: String,
    },
}

impl Checksum {
    /// `text` is the digest in hexadecimal, or the URL of a checksum file. See
    /// [`Digest::new`].
    pub fn new(algorithm: Option<Algorithm>, text: &str) -> Result<Self, DigestError> {
        if text.contains("://") {
            let url = text.to_owned();
            return Ok(Self::File { url, algorithm });
        }
        Digest::new(algorithm, text).map(Self::Digest)
    }

    /// Parses `ALGORITHM:HEX`, `HEX`, the URL of a checksum file, or `ALGORITHM:URL`.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let parts = text.split_once(':');
        match parts.and_then(|(name, rest)| Some((Algorithm::by_name(name)?, rest))) {
            Some((algorithm, rest)) => Self::new(Some(algorithm), rest),
            None => Self::new(None, text),
        }
    }
}

impl BootParams {
    /// The image of `landfall.coreos.image`, with the checksum of its `?sha256=` or of
    /// `landfall.coreos.image_checksum`. `None` if no image is given.
    ///
    /// # Errors
    /// - The checksum is malformed. Without an error, the image would be written
    ///   unverified.
    /// - Both checksums are given and differ. It is unknown which one is right.
    pub fn given_image(&self) -> Result<Option<GivenImage>, GivenImageError> {
        let Some(image) = &*self.coreos_image else {
            return Ok(None);
        };
        let given = self.coreos_image_checksum.as_deref();
        let parsed = given.map(Checksum::parse);
        let checksum = match (image.sha256.clone(), parsed) {
            (None, parsed) => parsed.transpose().map_err(GivenImageError::Checksum)?,
            (Some(sha256), None) => Some(Checksum::Digest(sha256)),
            (Some(sha256), Some(parsed)) => {
                let expected = Checksum::Digest(sha256.clone());
                if parsed.as_ref() != Ok(&expected) {
                    return Err(GivenImageError::TwoChecksums {
                        sha256: sha256.hex(),
                        other: without_secrets(given.unwrap_or_default()).to_string(),
                    });
                }
                Some(expected)
            }
        };
        Ok(Some(GivenImage {
            urls: image.urls.clone(),
            checksum,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    const SUM: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn two_checksums_must_be_the_same() {
        let digest = |text: String| Ok(Some(Checksum::Digest(text.parse().unwrap())));
        let sha256 = || digest(format!("sha256:{SUM}"));
        let file = |algorithm, url: &str| {
            let url = url.to_owned();
            Ok(Some(Checksum::File { url, algorithm }))
        };
        let (other, sha512) = ("0".repeat(64), format!("sha512:{SUM}{SUM}"));
        let sum = format!("?sha256={SUM}");
        for (query, checksum, expected) in [
            ("", "", Ok(None)),
            ("", SUM, sha256()),
            ("", &format!("SHA256:{}", SUM.to_uppercase()), sha256()),
            ("", &sha512, digest(sha512.clone())),
            (
                "",
                &"0".repeat(32),
                digest(format!("md5:{}", "0".repeat(32))),
            ),
            ("", "http://h/sums", file(None, "http://h/sums")),
            (
                "",
                "sha256:http://h/sums",
                file(Some(Algorithm::Sha256), "http://h/sums"),
            ),
            (
                "",
                "sha256:0",
                Err("image_checksum: sha256 checksum: expected 64"),
            ),
            ("", "crc32:0", Err("image_checksum: checksum: expected 64")),
            (&sum, "", sha256()),
            (&sum, SUM, sha256()),
            (&sum, &format!("SHA256:{}", SUM.to_uppercase()), sha256()),
            (&sum, &other, Err(&*other)),
            (&sum, &sha512, Err(&*sha512)),
            (&sum, "http://h/sums", Err("=http://h/sums")),
            (&sum, "sha256:0", Err("expected one checksum")),
        ] {
            let line = format!(
                "landfall.coreos.image=http://h/i{query} landfall.coreos.image_checksum={checksum}"
            );
            let params = BootParams::from_command_line(&CommandLine::parse(&line));
            match (params.given_image(), expected) {
                (Ok(image), expected) => {
                    let image = image.unwrap();
                    assert_eq!(image.urls, ["http://h/i"], "{line}");
                    assert_eq!(Ok(image.checksum), expected, "{line}");
                }
                (Err(fault), Err(part)) => {
                    assert!(fault.to_string().contains(part), "{line}: {fault}");
                }
                (Err(fault), Ok(_)) => panic!("{line}: {fault}"),
            }
        }
        assert_eq!(BootParams::default().given_image(), Ok(None));
    }
}
