//! Hashes a download, to compare it with the digest of the intended image. No I/O.

use std::fmt;

use landfall_boot_params::digest::{Algorithm, Digest};
use landfall_sys::sha2_avx2::Avx2;
use sha2::digest::DynDigest;

use implementation::{Implementation, Processor};
use sha2_stream::Sha2;

pub mod implementation;
mod sha2_stream;

/// Which digests to compute for a file.
#[derive(Debug, Clone)]
pub struct Hashing {
    pub algorithm: Algorithm,
    /// The bytes that a signature adds after the file. A second digest covers the file
    /// and these bytes.
    pub suffix: Vec<u8>,
}

impl Hashing {
    /// Computes the digest of the file without a suffix.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            suffix: Vec::new(),
        }
    }
}

/// The digests of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computed {
    pub digest: Digest,
    /// The digest of the file followed by [`Hashing::suffix`].
    pub with_suffix: Box<[u8]>,
    /// The length of the file.
    pub bytes: u64,
}

/// The state of a hash function while the bytes arrive.
pub struct Hasher {
    algorithm: Algorithm,
    state: State,
}

#[derive(Clone)]
enum State {
    RustCrypto(Box<dyn DynDigest>),
    Ring(ring::digest::Context),
    Avx2(Sha2),
}

impl Hasher {
    /// Uses the fastest implementation for this processor.
    pub fn new(algorithm: Algorithm) -> Self {
        let fastest = Implementation::fastest(algorithm, Processor::this());
        Self::by(fastest, algorithm).unwrap_or_else(|| Self {
            algorithm,
            state: State::RustCrypto(of_rust_crypto(algorithm)),
        })
    }

    /// Creates a hasher that uses this implementation, for tests and benchmarks.
    /// Returns `None` if the implementation lacks the algorithm or cannot run on this
    /// processor.
    pub fn by(implementation: Implementation, algorithm: Algorithm) -> Option<Self> {
        let state = match implementation {
            Implementation::RustCrypto => State::RustCrypto(of_rust_crypto(algorithm)),
            Implementation::Ring => State::Ring(of_ring(algorithm)?),
            Implementation::Avx2 => State::Avx2(Sha2::new(Avx2::detect()?, algorithm)?),
        };
        Some(Self { algorithm, state })
    }

    /// The digest of these bytes.
    pub fn digest(algorithm: Algorithm, bytes: &[u8]) -> Digest {
        let mut hasher = Self::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    /// The digest of all bytes so far followed by `suffix`. Does not change the
    /// state.
    pub fn with_suffix(&self, suffix: &[u8]) -> Box<[u8]> {
        let mut state = self.state.clone();
        state.update(suffix);
        state.finish()
    }

    pub fn finish(self) -> Digest {
        Digest::from_bytes(self.algorithm, self.state.finish())
    }
}

/// The SHA-256 of bytes that the agent compares only with its own results.
pub fn sha256(bytes: &[u8]) -> Box<[u8]> {
    Hasher::new(Algorithm::Sha256).with_suffix(bytes)
}

impl State {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::RustCrypto(hash) => hash.update(bytes),
            Self::Ring(context) => context.update(bytes),
            Self::Avx2(sha2) => sha2.update(bytes),
        }
    }

    fn finish(self) -> Box<[u8]> {
        match self {
            Self::RustCrypto(hash) => hash.finalize(),
            Self::Ring(context) => context.finish().as_ref().into(),
            Self::Avx2(sha2) => sha2.finish(),
        }
    }
}

fn of_rust_crypto(algorithm: Algorithm) -> Box<dyn DynDigest> {
    match algorithm {
        Algorithm::Md5 => Box::new(md5::Md5::default()),
        Algorithm::Sha1 => Box::new(sha1::Sha1::default()),
        Algorithm::Sha224 => Box::new(sha2::Sha224::default()),
        Algorithm::Sha256 => Box::new(sha2::Sha256::default()),
        Algorithm::Sha384 => Box::new(sha2::Sha384::default()),
        Algorithm::Sha512 => Box::new(sha2::Sha512::default()),
        Algorithm::Sha3_224 => Box::new(sha3::Sha3_224::default()),
        Algorithm::Sha3_256 => Box::new(sha3::Sha3_256::default()),
        Algorithm::Sha3_384 => Box::new(sha3::Sha3_384::default()),
        Algorithm::Sha3_512 => Box::new(sha3::Sha3_512::default()),
    }
}

/// `None` if ring lacks the algorithm, and for SHA-1: ring supports SHA-1, but is not
/// faster than RustCrypto.
fn of_ring(algorithm: Algorithm) -> Option<ring::digest::Context> {
    let algorithm = match algorithm {
        Algorithm::Sha256 => &ring::digest::SHA256,
        Algorithm::Sha384 => &ring::digest::SHA384,
        Algorithm::Sha512 => &ring::digest::SHA512,
        _ => return None,
    };
    Some(ring::digest::Context::new(algorithm))
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHA2: [Algorithm; 4] = [
        Algorithm::Sha224,
        Algorithm::Sha256,
        Algorithm::Sha384,
        Algorithm::Sha512,
    ];

    /// The first digits of what `openssl dgst` prints for "abc".
    #[test]
    fn known_answers() {
        for (algorithm, start) in [
            (Algorithm::Md5, "900150983cd24fb0"),
            (Algorithm::Sha1, "a9993e364706816a"),
            (Algorithm::Sha224, "23097d223405d822"),
            (Algorithm::Sha256, "ba7816bf8f01cfea"),
            (Algorithm::Sha384, "cb00753f45a35e8b"),
            (Algorithm::Sha512, "ddaf35a193617aba"),
            (Algorithm::Sha3_224, "e642824c3f8cf24a"),
            (Algorithm::Sha3_256, "3a985da74fe225b2"),
            (Algorithm::Sha3_384, "ec01498288516fc9"),
            (Algorithm::Sha3_512, "b751850b1a57168a"),
        ] {
            let each = Implementation::ALL.map(|code| Hasher::by(code, algorithm));
            for mut hasher in each.into_iter().flatten().chain([Hasher::new(algorithm)]) {
                for byte in b"abc" {
                    hasher.update(&[*byte]);
                }
                let hex = hasher.finish().hex();
                assert!(hex.starts_with(start), "{algorithm}: {hex}");
                assert_eq!(hex.len(), algorithm.hex_length(), "{algorithm}");
            }
        }
    }

    /// The digests of a message in pieces, and of the message with a suffix.
    fn digests(mut hasher: Hasher, pieces: &[Vec<u8>], suffix: &[u8]) -> (String, Box<[u8]>) {
        for piece in pieces {
            hasher.update(piece);
        }
        let with_suffix = hasher.with_suffix(suffix);
        (hasher.finish().hex(), with_suffix)
    }

    proptest! {
        #[test]
        fn every_implementation_has_the_digest_of_rust_crypto(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..6),
            suffix in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            for algorithm in SHA2 {
                let expected = Hasher::by(Implementation::RustCrypto, algorithm).unwrap();
                let expected = digests(expected, &pieces, &suffix);
                for code in Implementation::ALL {
                    if let Some(hasher) = Hasher::by(code, algorithm) {
                        let found = digests(hasher, &pieces, &suffix);
                        prop_assert_eq!(&found, &expected, "{} by {}", algorithm, code);
                    }
                }
            }
        }
    }
}
