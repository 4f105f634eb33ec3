//! How the agent verifies that the download is the intended image. No I/O.

use landfall_boot_params::digest::{Algorithm, Digest};
use landfall_report::failure::{Class, Failure, Result};

use crate::digest::{Computed, Hashing};
use crate::signature::ImageSignature;

/// The proof that an image is the intended one. It covers the bytes as downloaded, before
/// they are unpacked.
#[derive(Debug, Clone, Default)]
pub enum Proof {
    /// The digest that the image must have.
    Digest(Digest),
    /// The signature of the image, by a trusted key.
    Signature(Box<ImageSignature>),
    /// There is no proof: the agent writes the image unverified and logs a warning.
    #[default]
    Nothing,
}

impl From<Option<Digest>> for Proof {
    fn from(digest: Option<Digest>) -> Self {
        digest.map_or(Self::Nothing, Self::Digest)
    }
}

impl Proof {
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The digests to compute for this proof. Without a proof, the agent computes the
    /// SHA-256 to print it on the console.
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

    /// Fails if the file at this URL is not the intended one.
    ///
    /// # Errors
    /// If the proof does not match. The message has both digests, or the key of the
    /// signature.
    pub fn judge(&self, url: &str, got: &Computed) -> Result<()> {
        match self {
            Self::Digest(expected) if *expected != got.digest => Err(Failure::new(
                Class::ImageChecksumError,
                format!(
                    "{url}: checksum mismatch: {} expected {}, got {} over {} bytes",
                    got.digest.algorithm(),
                    expected.hex(),
                    got.digest.hex(),
                    got.bytes
                ),
            )
            .hint("correct the checksum, or put the expected file on the server")),
            Self::Signature(signature) if !signature.is_over(&got.with_suffix) => {
                Err(Failure::new(
                    Class::ImageChecksumError,
                    format!(
                        "{url}: bad signature: expected {} bytes signed by key {}, found others ({} {})",
                        got.bytes,
                        signature.key(),
                        got.digest.algorithm(),
                        got.digest.hex(),
                    ),
                )
                .hint("correct the signature, or put the signed file on the server"))
            }
            Self::Signature(signature) => {
                tracing::info!("{url}: good signature by key {}", signature.key());
                Ok(())
            }
            Self::Digest(_) | Self::Nothing => Ok(()),
        }
    }
}
