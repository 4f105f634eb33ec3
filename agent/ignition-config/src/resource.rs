//! Decodes the content of a resource: a data URL (RFC 2397), which may be compressed.

use std::io::Read as _;

use data_url::DataUrl;
use flate2::read::MultiGzDecoder;
use landfall_boot_params::digest::{Algorithm, Digest};
use sha2::{Digest as _, Sha256, Sha512};

use crate::spec::Resource;

/// The maximum size of one content in bytes, unpacked. It is four times the size of a
/// distribution's bundle of certificate authorities.
pub(crate) const LARGEST: usize = 1 << 20;
/// The maximum size of all contents together, unpacked.
const LARGEST_TOTAL: usize = 16 << 20;

/// Decodes resources up to a total size.
pub(crate) struct Decoder {
    left: usize,
}

/// Why a resource has no content for the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResourceError {
    /// Holds the scheme of the URL. The rest may contain a password.
    #[error("it is on a server ({0}:), and the agent reads only data: URLs here")]
    Remote(String),
    #[error("expected a data: URL, found {0}")]
    DataUrl(&'static str),
    #[error("expected gzip or no compression, found {0:?}")]
    Compression(String),
    #[error("expected gzip data, found {0}")]
    Gzip(String),
    #[error("expected at most {0} bytes, found more")]
    TooLong(usize),
    #[error(
        "expected the hash sha256-HEX with 64 hexadecimal digits or sha512-HEX with 128, found another text"
    )]
    HashForm,
    #[error("expected content with the hash {0}, found other content")]
    Hash(String),
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            left: LARGEST_TOTAL,
        }
    }
}

impl Decoder {
    /// The content; empty without a source, as in Ignition.
    pub(crate) fn decode(&mut self, resource: &Resource) -> Result<Vec<u8>, ResourceError> {
        let source = resource.source.as_deref().unwrap_or_default();
        if source.is_empty() {
            return Ok(Vec::new());
        }
        let packed = decoded(source)?;
        let limit = LARGEST.min(self.left);
        let content = match resource.compression.as_deref().unwrap_or_default() {
            "" => packed,
            "gzip" => unpacked(&packed, limit)?,
            other => {
                let start = other.chars().take(20).collect();
                return Err(ResourceError::Compression(start));
            }
        };
        if content.len() > limit {
            return Err(ResourceError::TooLong(limit));
        }
        self.left -= content.len();
        if let Some(hash) = &resource.hash {
            check(hash, &content)?;
        }
        Ok(content)
    }
}

fn decoded(source: &str) -> Result<Vec<u8>, ResourceError> {
    let scheme = source.split_once(':').map(|(scheme, _)| scheme);
    match scheme {
        Some(scheme) if scheme.eq_ignore_ascii_case("data") => {}
        Some(scheme) if is_scheme(scheme) => {
            return Err(ResourceError::Remote(scheme.to_ascii_lowercase()));
        }
        _ => return Err(ResourceError::DataUrl("no URL")),
    }
    let url =
        DataUrl::process(source).map_err(|_| ResourceError::DataUrl("one without a comma"))?;
    let decoded = url.decode_to_vec();
    let (content, _) = decoded.map_err(|_| ResourceError::DataUrl("invalid base64"))?;
    Ok(content)
}

fn is_scheme(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (1..=20).contains(&text.len()) && text.chars().all(is_part)
}

fn unpacked(packed: &[u8], limit: usize) -> Result<Vec<u8>, ResourceError> {
    let mut content = Vec::new();
    // Read one byte beyond the limit, so that a longer content is noticed.
    MultiGzDecoder::new(packed)
        .take(limit as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|error| ResourceError::Gzip(error.to_string()))?;
    match content.len() > limit {
        true => Err(ResourceError::TooLong(limit)),
        false => Ok(content),
    }
}

/// Compares the hash with that of the unpacked content.
fn check(hash: &str, content: &[u8]) -> Result<(), ResourceError> {
    let expected = Digest::from_ignition(hash).map_err(|_| ResourceError::HashForm)?;
    let algorithm = expected.algorithm();
    let found: Box<[u8]> = match algorithm {
        Algorithm::Sha256 => Sha256::digest(content).as_slice().into(),
        Algorithm::Sha512 => Sha512::digest(content).as_slice().into(),
        _ => return Err(ResourceError::HashForm),
    };
    match Digest::from_bytes(algorithm, found) == expected {
        true => Ok(()),
        false => Err(ResourceError::Hash(expected.to_ignition())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn decode(source: &str, compression: &str, hash: Option<&str>) -> Result<String, String> {
        let resource = Resource {
            source: Some(source.to_owned()),
            compression: Some(compression.to_owned()),
            hash: hash.map(str::to_owned),
        };
        let decoded = Decoder::default().decode(&resource);
        let text = decoded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.map_err(|error| error.to_string())
    }

    #[test]
    fn sources() {
        let hash_form = "expected the hash sha256-HEX with 64 hexadecimal digits or sha512-HEX with 128, found another text";
        let of_a = "sha256-ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
        for (source, compression, hash, expected) in [
            ("", "", None, Ok("")),
            ("data:,a%0Ab", "", None, Ok("a\nb")),
            ("data:text/plain,a%20b", "", None, Ok("a b")),
            ("DATA:;base64,YQ==", "", Some(of_a), Ok("a")),
            ("data:text/plain;charset=utf-8;base64,YQ", "", None, Ok("a")),
            (
                "data:,b",
                "",
                Some(of_a),
                Err(format!(
                    "expected content with the hash {of_a}, found other content"
                )),
            ),
            ("data:,b", "", Some("md5-00"), Err(hash_form.into())),
            ("data:,a", "", Some("sha256-00"), Err(hash_form.into())),
            (
                "data:,a",
                "",
                Some(&of_a.replacen("ca", "xy", 1)),
                Err(hash_form.into()),
            ),
            (
                "data:,a",
                "",
                Some(&of_a.to_uppercase().replace("SHA", "sha")),
                Ok("a"),
            ),
            (
                "data:,b",
                "xz",
                None,
                Err("expected gzip or no compression, found \"xz\"".into()),
            ),
            (
                "data:;base64,!!",
                "",
                None,
                Err("expected a data: URL, found invalid base64".into()),
            ),
            (
                "data:abc",
                "",
                None,
                Err("expected a data: URL, found one without a comma".into()),
            ),
            (
                "https://u:secret@h/x",
                "",
                None,
                Err("it is on a server (https:), and the agent reads only data: URLs here".into()),
            ),
            (
                "/etc/x",
                "",
                None,
                Err("expected a data: URL, found no URL".into()),
            ),
        ] {
            let found = decode(source, compression, hash);
            assert_eq!(found, expected.map(str::to_owned), "{source}");
        }
        assert!(
            decode("data:,b", "gzip", None)
                .unwrap_err()
                .contains("expected gzip data")
        );
    }

    #[test]
    fn a_small_file_that_unpacks_to_a_large_one() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&vec![0; LARGEST + 1]).unwrap();
        let packed = packed.finish().unwrap();
        let escaped: String = packed.iter().map(|byte| format!("%{byte:02x}")).collect();
        let found = decode(&format!("data:,{escaped}"), "gzip", None);
        assert_eq!(
            found,
            Err("expected at most 1048576 bytes, found more".to_owned())
        );
    }

    #[test]
    fn many_files_share_one_limit() {
        let resource = Resource {
            source: Some(format!("data:,{}", "a".repeat(LARGEST))),
            compression: None,
            hash: None,
        };
        let mut decoder = Decoder::default();
        let sizes = (0..20).map_while(|_| decoder.decode(&resource).ok());
        assert_eq!(sizes.count(), 16);
    }
}
