//! The checksum of an image: what is expected, and hashing what comes. Pure.

use std::fmt;

use sha2::{Digest as _, Sha256, Sha512};

use crate::failure::{Class, Failure, Result};

/// A hash function that we can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256
    Sha256,
    /// SHA-512
    Sha512,
}

impl Algorithm {
    /// By Ironic's name, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "sha256" => Some(Self::Sha256),
            "sha512" => Some(Self::Sha512),
            _ => None,
        }
    }

    /// By the length of its hexadecimal text.
    fn by_length(length: usize) -> Option<Self> {
        match length {
            64 => Some(Self::Sha256),
            128 => Some(Self::Sha512),
            _ => None,
        }
    }

    fn hex_length(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        })
    }
}

/// A checksum to compare with: algorithm and lower-case hexadecimal text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDigest {
    algorithm: Algorithm,
    hex: String,
}

impl ExpectedDigest {
    /// A checksum of this algorithm; the case of the digits does not matter.
    ///
    /// # Errors
    /// If the text is not as many hexadecimal digits as the algorithm has.
    pub fn new(algorithm: Algorithm, hex: &str) -> Result<Self> {
        let hex = hex.trim().to_ascii_lowercase();
        if hex.len() != algorithm.hex_length() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(invalid(format!(
                "{algorithm} checksum: expected {} hexadecimal digits, found {:?}",
                algorithm.hex_length(),
                hex.chars().take(140).collect::<String>()
            )));
        }
        Ok(Self { algorithm, hex })
    }

    /// A checksum whose algorithm shows in its length.
    ///
    /// # Errors
    /// If it has no length that we know; MD5 is named, since old settings have it.
    pub fn from_text(text: &str) -> Result<Self> {
        let text = text.trim();
        match Algorithm::by_length(text.len()) {
            Some(algorithm) => Self::new(algorithm, text),
            None if text.len() == 32 => {
                Err(invalid("checksum is MD5, which does not protect an image")
                    .hint("give a sha256 or sha512 checksum"))
            }
            None => Err(invalid(format!(
                "checksum: expected 64 (sha256) or 128 (sha512) hexadecimal digits, found {} characters",
                text.len()
            ))),
        }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Lower-case hexadecimal text.
    pub fn hex(&self) -> &str {
        &self.hex
    }
}

fn invalid(details: impl Into<String>) -> Failure {
    Failure::new(Class::InvalidCommandParamsError, details)
}

/// A hash being computed.
#[derive(Debug)]
pub enum Hasher {
    /// SHA-256
    Sha256(Sha256),
    /// SHA-512
    Sha512(Sha512),
}

impl Hasher {
    /// The hash of nothing yet.
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    /// Takes more bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The hash as lower-case hexadecimal text.
    pub fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => hex(&hasher.finalize()),
            Self::Sha512(hasher) => hex(&hasher.finalize()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC_256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn known_answers() {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), ABC_256);
        let mut hasher = Hasher::new(Algorithm::Sha512);
        hasher.update(b"abc");
        assert!(hasher.finish().starts_with("ddaf35a193617aba"));
    }

    #[test]
    fn case_and_blanks_do_not_matter_but_digits_do() {
        let upper = format!(" {}\n", ABC_256.to_uppercase());
        assert_eq!(ExpectedDigest::from_text(&upper).unwrap().hex(), ABC_256);
        for bad in ["", "abc", &"g".repeat(64), &"a".repeat(63), &"0".repeat(32)] {
            assert!(ExpectedDigest::from_text(bad).is_err(), "{bad}");
        }
        let md5 = ExpectedDigest::from_text(&"0".repeat(32)).unwrap_err();
        assert!(md5.hint.unwrap().contains("sha256"));
    }
}
