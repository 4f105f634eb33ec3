//! What shows that what was downloaded is the image that was meant. Pure.

use crate::disk::digest::{Algorithm, Computed, ExpectedDigest, Hashing};
use crate::disk::signature::ImageSignature;
use crate::failure::{Class, Failure, Result};

/// The proof of an image, over its bytes as downloaded.
#[derive(Debug, Clone, Default)]
pub enum Proof {
    /// It has this digest.
    Digest(ExpectedDigest),
    /// Somebody who is trusted signed it.
    Signature(Box<ImageSignature>),
    /// None: the image is written unverified, with a warning.
    #[default]
    Nothing,
}

impl From<Option<ExpectedDigest>> for Proof {
    fn from(digest: Option<ExpectedDigest>) -> Self {
        digest.map_or(Self::Nothing, Self::Digest)
    }
}

impl Proof {
    /// Whether there is none.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// What has to be computed for it. Without a proof SHA-256, for the console.
    pub fn hashing(&self) -> Hashing {
        match self {
            Self::Digest(expected) => Hashing::new(expected.algorithm()),
            Self::Signature(signature) => Hashing {
                algorithm: signature.algorithm(),
                suffix: signature.suffix().to_vec(),
            },
            Self::Nothing => Hashing::new(Algorithm::Sha256),
        }
    }

    /// Fails if the file at this URL is not the one that was meant.
    ///
    /// # Errors
    /// With both digests, or the key whose signature it is not.
    pub fn judge(&self, url: &str, got: &Computed) -> Result<()> {
        match self {
            Self::Digest(expected) if expected.hex() != got.hex => Err(Failure::new(
                Class::ImageChecksumError,
                format!(
                    "{url}: checksum mismatch: {} expected {}, got {} over {} bytes",
                    got.algorithm,
                    expected.hex(),
                    got.hex,
                    got.bytes
                ),
            )
            .hint("the file on the server is not the one that the checksum was made of")),
            Self::Signature(signature) if !signature.is_over(&got.with_suffix) => {
                Err(Failure::new(
                    Class::ImageChecksumError,
                    format!(
                        "{url}: bad signature: expected {} bytes signed by key {}, found others ({} {})",
                        got.bytes,
                        signature.key(),
                        got.algorithm,
                        got.hex,
                    ),
                )
                .hint("the file on the server is not the one that was signed"))
            }
            Self::Signature(signature) => {
                tracing::info!("{url}: good signature by key {}", signature.key());
                Ok(())
            }
            Self::Digest(_) | Self::Nothing => Ok(()),
        }
    }
}
