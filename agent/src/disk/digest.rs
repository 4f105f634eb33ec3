//! The digest of an image: the expected value, and hashing the download. No I/O.

use std::fmt;

use sha2::digest::DynDigest;

use crate::failure::{Failure, Result};

/// A hash function that the agent can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Protects only against accidental changes, not against an attacker.
    Md5,
    /// As MD5: protects only against accidental changes.
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
}

use Algorithm::{
    Md5, Sha1, Sha3_224, Sha3_256, Sha3_384, Sha3_512, Sha224, Sha256, Sha384, Sha512,
};

/// Each algorithm with its name in Python's hashlib, which Ironic's users write,
/// and the length of its digest in bytes. In the order of the variants of
/// [`Algorithm`].
const ALGORITHMS: [(Algorithm, &str, usize); 10] = [
    (Md5, "md5", 16),
    (Sha1, "sha1", 20),
    (Sha224, "sha224", 28),
    (Sha256, "sha256", 32),
    (Sha384, "sha384", 48),
    (Sha512, "sha512", 64),
    (Sha3_224, "sha3_224", 28),
    (Sha3_256, "sha3_256", 32),
    (Sha3_384, "sha3_384", 48),
    (Sha3_512, "sha3_512", 64),
];

impl Algorithm {
    /// Finds an algorithm by Ironic's name for it, ignoring case.
    pub fn by_name(name: &str) -> Option<Self> {
        // hashlib also accepts OpenSSL's names, which have hyphens.
        let name = name.trim().to_ascii_lowercase().replace('-', "_");
        let found = ALGORITHMS.iter().find(|known| known.1 == name)?;
        Some(found.0)
    }

    /// Finds an algorithm by the number of hexadecimal digits. Only for those that
    /// Ironic recognises by length.
    fn by_length(length: usize) -> Option<Self> {
        match length {
            32 => Some(Md5),
            64 => Some(Sha256),
            128 => Some(Sha512),
            _ => None,
        }
    }

    fn hex_length(self) -> usize {
        2 * self.known().2
    }

    fn known(self) -> &'static (Self, &'static str, usize) {
        // The table has one row per variant, in the same order; a test checks this.
        &ALGORITHMS[self as usize]
    }

    fn hasher(self) -> Box<dyn DynDigest> {
        match self {
            Md5 => Box::new(md5::Md5::default()),
            Sha1 => Box::new(sha1::Sha1::default()),
            Sha224 => Box::new(sha2::Sha224::default()),
            Sha256 => Box::new(sha2::Sha256::default()),
            Sha384 => Box::new(sha2::Sha384::default()),
            Sha512 => Box::new(sha2::Sha512::default()),
            Sha3_224 => Box::new(sha3::Sha3_224::default()),
            Sha3_256 => Box::new(sha3::Sha3_256::default()),
            Sha3_384 => Box::new(sha3::Sha3_384::default()),
            Sha3_512 => Box::new(sha3::Sha3_512::default()),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.known().1)
    }
}

/// The digest that an image must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDigest {
    algorithm: Algorithm,
    hex: String,
}

impl ExpectedDigest {
    /// Ignores the case of the digits, and white space around them.
    ///
    /// # Errors
    /// If the text does not consist of as many hexadecimal digits as the algorithm
    /// has.
    pub fn new(algorithm: Algorithm, hex: &str) -> Result<Self> {
        let hex = hex.trim().to_ascii_lowercase();
        if hex.len() != algorithm.hex_length() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(Failure::invalid_params(format!(
                "{algorithm} checksum: expected {} hexadecimal digits, found {:?}",
                algorithm.hex_length(),
                hex.chars().take(140).collect::<String>()
            )));
        }
        Ok(Self { algorithm, hex })
    }

    /// Chooses the algorithm by the length of the text.
    ///
    /// # Errors
    /// If no algorithm has this length, or the text is not hexadecimal.
    pub fn from_text(text: &str) -> Result<Self> {
        let text = text.trim();
        match Algorithm::by_length(text.len()) {
            Some(algorithm) => Self::new(algorithm, text),
            None => Err(Failure::invalid_params(format!(
                "checksum: expected 64 (sha256), 128 (sha512) or 32 (md5) hexadecimal digits, found {} characters",
                text.len()
            ))),
        }
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Lower-case hexadecimal text.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

/// Which digests to compute of a file.
#[derive(Debug, Clone)]
pub struct Hashing {
    pub algorithm: Algorithm,
    /// Bytes that a signature appends to the file. A second digest covers the file
    /// and them.
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
    pub algorithm: Algorithm,
    /// Lower-case hexadecimal text.
    pub hex: String,
    /// The digest of the file followed by [`Hashing::suffix`].
    pub with_suffix: Box<[u8]>,
    /// The length of the file.
    pub bytes: u64,
}

/// The state of a hash function while the bytes arrive.
pub struct Hasher(Box<dyn DynDigest>);

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        Self(algorithm.hasher())
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far followed by `suffix`. Does not change the
    /// state.
    pub fn with_suffix(&self, suffix: &[u8]) -> Box<[u8]> {
        let mut hash = self.0.box_clone();
        hash.update(suffix);
        hash.finalize()
    }

    /// The digest as lower-case hexadecimal text.
    pub fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC_256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn of(algorithm: Algorithm, bytes: &[u8]) -> String {
        let mut hasher = Hasher::new(algorithm);
        for byte in bytes {
            hasher.update(&[*byte]);
        }
        hasher.finish()
    }

    /// The first digits of what `openssl dgst` prints for "abc".
    #[test]
    fn known_answers() {
        for (algorithm, start) in [
            (Md5, "900150983cd24fb0"),
            (Sha1, "a9993e364706816a"),
            (Sha224, "23097d223405d822"),
            (Sha256, &ABC_256[..16]),
            (Sha384, "cb00753f45a35e8b"),
            (Sha512, "ddaf35a193617aba"),
            (Sha3_224, "e642824c3f8cf24a"),
            (Sha3_256, "3a985da74fe225b2"),
            (Sha3_384, "ec01498288516fc9"),
            (Sha3_512, "b751850b1a57168a"),
        ] {
            let hex = of(algorithm, b"abc");
            assert!(hex.starts_with(start), "{algorithm}: {hex}");
            assert_eq!(hex.len(), algorithm.hex_length(), "{algorithm}");
            assert_eq!(Algorithm::by_name(&algorithm.to_string()), Some(algorithm));
        }
        assert_eq!(Algorithm::by_name("SHA3-256"), Some(Sha3_256));
        assert_eq!(Algorithm::by_name("crc32"), None);
    }

    #[test]
    fn case_and_blanks_do_not_matter_but_digits_do() {
        let upper = format!(" {}\n", ABC_256.to_uppercase());
        assert_eq!(ExpectedDigest::from_text(&upper).unwrap().hex(), ABC_256);
        for bad in ["", "abc", &"g".repeat(64), &"a".repeat(63), &"0".repeat(40)] {
            assert!(ExpectedDigest::from_text(bad).is_err(), "{bad}");
        }
        for (digits, algorithm) in [(32, Md5), (64, Sha256), (128, Sha512)] {
            let digest = ExpectedDigest::from_text(&"0".repeat(digits)).unwrap();
            assert_eq!(digest.algorithm(), algorithm);
        }
    }
}
