//! Digests of files, in the forms in which arguments give them. Nothing here
//! computes a digest.

use std::fmt;
use std::str::FromStr;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Each algorithm with its name in Python's hashlib, which Ironic's users write, and the
/// length of its digest in bytes. The rows have the order of the variants of
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
        let row = ALGORITHMS.iter().find(|known| known.1 == name)?;
        Some(row.0)
    }

    /// Finds an algorithm by the number of hexadecimal digits. Knows only the algorithms
    /// that Ironic recognises by this number.
    fn by_length(length: usize) -> Option<Self> {
        let mut recognised = [Md5, Sha256, Sha512].into_iter();
        recognised.find(|algorithm| algorithm.hex_length() == length)
    }

    /// The number of hexadecimal digits of its digests.
    pub fn hex_length(self) -> usize {
        2 * self.known().2
    }

    fn known(self) -> &'static (Self, &'static str, usize) {
        // The table has one row per variant, in the same order; a test checks this.
        &ALGORITHMS[self as usize]
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.known().1)
    }
}

/// Why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The text names no algorithm, and does not have the length of a SHA-256, SHA-512 or
    /// MD5 digest.
    #[error(
        "checksum: expected 64 (sha256), 128 (sha512) or 32 (md5) hexadecimal digits, found {0} characters"
    )]
    Length(usize),
    #[error("{algorithm} checksum: expected {} hexadecimal digits, found {found:?}", .algorithm.hex_length())]
    Digits {
        algorithm: Algorithm,
        /// The start of the text.
        found: String,
    },
    /// The digest does not have the form of a verification hash in Ignition.
    #[error("expected sha256-HEX or sha512-HEX, found {0:?}")]
    NotOfIgnition(String),
    #[error("expected ALGORITHM:HEX, e.g. sha256:0123..., found {0:?}")]
    NoAlgorithm(String),
}

/// The digest of a file. As text it is `ALGORITHM:HEX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    algorithm: Algorithm,
    bytes: Box<[u8]>,
}

impl Digest {
    /// Parses hexadecimal digits in either case. Ignores white space around them. Without
    /// an algorithm, the number of digits selects it.
    ///
    /// # Errors
    /// If the text has characters other than hexadecimal digits, or if the number of
    /// digits does not match the algorithm. If `algorithm` is `None`, the number must be
    /// that of MD5, SHA-256 or SHA-512.
    pub fn new(algorithm: impl Into<Option<Algorithm>>, hex: &str) -> Result<Self, DigestError> {
        let hex = hex.trim().to_ascii_lowercase();
        let by_length = || Algorithm::by_length(hex.len());
        let Some(algorithm) = algorithm.into().or_else(by_length) else {
            return Err(DigestError::Length(hex.len()));
        };
        match bytes(&hex) {
            Some(bytes) if hex.len() == algorithm.hex_length() => Ok(Self { algorithm, bytes }),
            _ => Err(DigestError::Digits {
                algorithm,
                found: hex.chars().take(140).collect(),
            }),
        }
    }

    /// A digest that was computed with this algorithm.
    pub fn from_bytes(algorithm: Algorithm, bytes: Box<[u8]>) -> Self {
        Self { algorithm, bytes }
    }

    /// Parses `sha256-0123...` or `sha512-0123...`, the form of a verification hash
    /// in Ignition.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn from_ignition(text: &str) -> Result<Self, DigestError> {
        let (algorithm, hex) = match text.split_once('-') {
            Some(("sha256", hex)) => (Sha256, hex),
            Some(("sha512", hex)) => (Sha512, hex),
            _ => return Err(DigestError::NotOfIgnition(text.to_owned())),
        };
        Self::new(algorithm, hex)
    }

    /// The form that [`Self::from_ignition`] parses.
    pub fn to_ignition(&self) -> String {
        format!("{}-{}", self.algorithm, self.hex())
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Lower-case hexadecimal text.
    pub fn hex(&self) -> String {
        self.bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Parses `ALGORITHM:HEX`.
impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let parts = text.split_once(':');
        let named = parts.and_then(|(name, hex)| Some((Algorithm::by_name(name)?, hex)));
        let Some((algorithm, hex)) = named else {
            return Err(DigestError::NoAlgorithm(text.to_owned()));
        };
        Self::new(algorithm, hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

/// True if the word consists of hexadecimal digits only, and their number is the length
/// of a digest of one of [`ALGORITHMS`].
pub fn is_digest(word: &str) -> bool {
    let has_length = |known: &(Algorithm, &str, usize)| 2 * known.2 == word.len();
    ALGORITHMS.iter().any(has_length) && bytes(word).is_some()
}

/// The bytes of a hexadecimal text. `None` if the text has other characters, or an odd
/// number of digits.
fn bytes(hex: &str) -> Option<Box<[u8]>> {
    let digits: Vec<u32> = hex.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[high, low]: &[u32; 2]| u8::try_from(high * 16 + low).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn each_algorithm_has_its_row_and_its_names() {
        for (algorithm, name, _) in ALGORITHMS {
            assert_eq!(algorithm.to_string(), name);
            assert_eq!(Algorithm::by_name(name), Some(algorithm));
        }
        assert_eq!(Algorithm::by_name("SHA3-256"), Some(Sha3_256));
        assert_eq!(Algorithm::by_name("crc32"), None);
    }

    #[test]
    fn case_and_blanks_do_not_matter_but_digits_do() {
        let upper = format!(" {}\n", ABC.to_uppercase());
        assert_eq!(Digest::new(None, &upper).unwrap().hex(), ABC);
        for (digits, algorithm) in [
            (32, Some(Md5)),
            (64, Some(Sha256)),
            (128, Some(Sha512)),
            (0, None),
            (40, None),
            (63, None),
        ] {
            let found = Digest::new(None, &"0".repeat(digits));
            assert_eq!(found.ok().map(|digest| digest.algorithm()), algorithm);
        }
        for bad in [&"g".repeat(64), &ABC[1..], "", "\u{e9}"] {
            assert!(Digest::new(Sha256, bad).is_err(), "{bad}");
            assert!(!is_digest(bad), "{bad}");
        }
        assert!(is_digest(ABC));
    }

    #[test]
    fn a_fault_says_what_was_expected() {
        let long = "x".repeat(300);
        for (fault, expected) in [
            (
                Digest::new(None, "0a"),
                "checksum: expected 64 (sha256), 128 (sha512) or 32 (md5) hexadecimal digits, found 2 characters",
            ),
            (
                Digest::new(Sha1, "0A"),
                "sha1 checksum: expected 40 hexadecimal digits, found \"0a\"",
            ),
            (
                Digest::from_ignition("md5-0"),
                "expected sha256-HEX or sha512-HEX, found \"md5-0\"",
            ),
            (
                "crc32:0".parse(),
                "expected ALGORITHM:HEX, e.g. sha256:0123..., found \"crc32:0\"",
            ),
        ] {
            assert_eq!(fault.unwrap_err().to_string(), expected);
        }
        let fault = Digest::new(Sha256, &long).unwrap_err().to_string();
        assert!(
            fault.ends_with(&format!("found {:?}", &long[..140])),
            "{fault}"
        );
    }

    #[test]
    fn each_place_has_its_form() {
        for (text, named, of_ignition) in [
            (format!("sha256:{ABC}"), true, false),
            (format!("sha256-{ABC}"), false, true),
            (format!("sha512:{ZEROS}{ZEROS}"), true, false),
            (format!("sha512-{ZEROS}{ZEROS}"), false, true),
            (format!("sha3_256:{ZEROS}"), true, false),
            (format!("md5-{}", &ZEROS[..32]), false, false),
            (format!("sha256:{}", &ZEROS[1..]), false, false),
            (format!("sha512-{ZEROS}"), false, false),
            (ZEROS.to_owned(), false, false),
            (String::new(), false, false),
        ] {
            let digest = text.parse::<Digest>().ok();
            let expected = named.then(|| text.clone());
            assert_eq!(digest.map(|digest| digest.to_string()), expected);
            let hash = Digest::from_ignition(&text).ok();
            let expected = of_ignition.then_some(text);
            assert_eq!(hash.map(|hash| hash.to_ignition()), expected);
        }
    }
}
