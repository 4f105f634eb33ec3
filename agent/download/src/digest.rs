//! Hashes a download, to compare it with the digest of the intended image. No I/O.

use std::fmt;

use landfall_boot_params::digest::{Algorithm, Digest};
use sha2::digest::DynDigest;

/// Which digests to compute for a file.
#[derive(Debug, Clone)]
pub struct Hashing {
    pub algorithm: Algorithm,
    /// Bytes that a signature appends to the file. A second digest covers the file
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
    state: Box<dyn DynDigest>,
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        let state: Box<dyn DynDigest> = match algorithm {
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
        };
        Self { algorithm, state }
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
        let mut hash = self.state.box_clone();
        hash.update(suffix);
        hash.finalize()
    }

    pub fn finish(self) -> Digest {
        Digest::from_bytes(self.algorithm, self.state.finalize())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut hasher = Hasher::new(algorithm);
            for byte in b"abc" {
                hasher.update(&[*byte]);
            }
            let hex = hasher.finish().hex();
            assert!(hex.starts_with(start), "{algorithm}: {hex}");
            assert_eq!(hex.len(), algorithm.hex_length(), "{algorithm}");
        }
    }
}
