//! The checksum of an image: what is expected, and hashing what comes.

use std::fmt;

use sha2::{Digest as _, Sha256, Sha512};

use crate::disk::checksum_file;
use crate::disk::fetch::{self, Request};
use crate::failure::{Class, Failure, Result};

/// A SHA256SUMS of a distribution's whole mirror directory is some 100 KiB.
const CHECKSUM_FILE_LIMIT: usize = 1 << 20;

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

/// The checksum as Ironic gives it, in any of its forms.
#[derive(Debug, Clone, Default)]
pub struct GivenChecksum {
    /// `os_hash_algo`
    pub os_hash_algo: Option<String>,
    /// `os_hash_value`: hexadecimal text, or the URL of a checksum file.
    pub os_hash_value: Option<String>,
    /// `checksum`: hexadecimal text of any algorithm, or the URL of a checksum file.
    pub checksum: Option<String>,
}

impl GivenChecksum {
    /// Finds out what to expect; fetches a checksum file if the checksum is a URL.
    ///
    /// `os_hash_*` wins if its algorithm is known, then `checksum`
    /// (ironic-python-agent, `extensions/standby.py`).
    ///
    /// # Errors
    /// If a checksum was given but cannot be used: never silently without one.
    pub fn resolve(
        &self,
        image_url: &str,
        client: &reqwest::Client,
    ) -> Result<Option<ExpectedDigest>> {
        let not_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (name, value) = (
            not_empty(&self.os_hash_algo),
            not_empty(&self.os_hash_value),
        );
        let algorithm = name.as_deref().and_then(Algorithm::by_name);
        match (algorithm, value, not_empty(&self.checksum)) {
            (Some(algorithm), Some(value), _) => {
                let hex = self.text_or_file(&value, image_url, client)?;
                ExpectedDigest::new(algorithm, &hex).map(Some)
            }
            (_, _, Some(text)) => {
                let hex = self.text_or_file(&text, image_url, client)?;
                ExpectedDigest::from_text(&hex).map(Some)
            }
            (_, None, None) if name.is_none() => Ok(None),
            _ => Err(invalid(format!(
                "checksum: expected sha256 or sha512 with a value, found algorithm {}",
                name.as_deref().unwrap_or("none")
            ))),
        }
    }

    fn text_or_file(
        &self,
        text: &str,
        image_url: &str,
        client: &reqwest::Client,
    ) -> Result<String> {
        if !text.contains("://") {
            return Ok(text.to_owned());
        }
        let request = Request {
            urls: vec![text.to_owned()],
            authorization: None,
            patience: fetch::Patience::default(),
        };
        let body = fetch::small_file(request, client.clone(), CHECKSUM_FILE_LIMIT)?;
        let place = fetch::shown(text);
        let body = String::from_utf8(body).map_err(|_| {
            Failure::new(
                Class::ImageDownloadError,
                format!("{place}: expected a checksum file, found no text"),
            )
        })?;
        checksum_file::find(&body, image_url)
            .map(str::to_owned)
            .map_err(|reason| Failure::new(Class::ImageDownloadError, format!("{place}: {reason}")))
    }
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

    #[test]
    fn forms_without_a_url() {
        let client = reqwest_client();
        let given = |algo: Option<&str>, value: Option<&str>, checksum: Option<&str>| {
            GivenChecksum {
                os_hash_algo: algo.map(Into::into),
                os_hash_value: value.map(Into::into),
                checksum: checksum.map(Into::into),
            }
            .resolve("http://host/i.raw", &client)
        };
        let hex = |result: Result<Option<ExpectedDigest>>| {
            result.unwrap().map(|digest| digest.algorithm())
        };
        let sha512 = "0".repeat(128);
        assert_eq!(hex(given(None, None, None)), None);
        assert_eq!(hex(given(None, None, Some(""))), None);
        assert_eq!(
            hex(given(Some("sha256"), Some(ABC_256), Some(&sha512))),
            Some(Algorithm::Sha256),
            "os_hash wins"
        );
        assert_eq!(
            hex(given(Some("sha3_256"), Some("x"), Some(&sha512))),
            Some(Algorithm::Sha512),
            "an unknown algorithm falls back to checksum"
        );
        assert!(given(Some("sha256"), Some("short"), None).is_err());
        assert!(given(Some("sha256"), None, None).is_err());
        assert!(given(Some("sha3_256"), Some("x"), None).is_err());
    }

    fn reqwest_client() -> reqwest::Client {
        crate::disk::fixtures::http_client()
    }
}
