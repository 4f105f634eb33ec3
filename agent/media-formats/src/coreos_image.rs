//! The description of the CoreOS image that Landfall's ISO can contain, for sites without
//! an image server. The builder writes the image and this description; the agent reads
//! both.

use landfall_boot_params::digest::{Algorithm, Digest};
use serde::{Deserialize, Serialize};

/// Path of the image on the medium.
pub const FILE: &str = "landfall/coreos-image";
/// Path of the description of the image ([`CoreosImage`] as JSON) on the medium.
pub const DESCRIPTION: &str = "landfall/coreos-image.json";
/// The size limit of the description in bytes. A description has a few lines.
pub const DESCRIPTION_LIMIT: u32 = 4096;

/// Describes the image, so that the agent can check it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Description", into = "Description")]
pub struct CoreosImage {
    /// The name of the original image file, which the builder copied. It is shown to the
    /// operator.
    pub name: String,
    /// In bytes.
    pub size: u64,
    pub sha256: Digest,
}

/// What is wrong with the JSON. Holds the parser's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DescriptionError(String);

/// Why a field of the JSON cannot be used.
#[derive(Debug, thiserror::Error)]
enum InvalidField {
    #[error("sha256: expected 64 lower-case hexadecimal digits, found {0:?}")]
    Sha256(String),
    #[error("name: expected a file name without control characters, found {0:?}")]
    Name(String),
}

/// The fields of the JSON.
#[derive(Serialize, Deserialize)]
struct Description {
    name: String,
    size: u64,
    /// The first column of sha256sum's output.
    sha256: String,
}

impl CoreosImage {
    /// Parses and checks the JSON.
    pub fn from_json(json: &[u8]) -> Result<Self, DescriptionError> {
        serde_json::from_slice(json).map_err(|error| DescriptionError(error.to_string()))
    }

    pub fn to_json(&self) -> String {
        let sha256 = self.sha256.hex();
        serde_json::json!({"name": self.name, "size": self.size, "sha256": sha256}).to_string()
            + "\n"
    }
}

impl TryFrom<Description> for CoreosImage {
    type Error = InvalidField;

    fn try_from(Description { name, size, sha256 }: Description) -> Result<Self, InvalidField> {
        let digest = Digest::new(Algorithm::Sha256, &sha256);
        let sha256 = digest
            .ok()
            .filter(|digest| digest.hex() == sha256)
            .ok_or(InvalidField::Sha256(sha256))?;
        if name.chars().any(char::is_control) {
            return Err(InvalidField::Name(name));
        }
        Ok(Self { name, size, sha256 })
    }
}

impl From<CoreosImage> for Description {
    fn from(image: CoreosImage) -> Self {
        Self {
            sha256: image.sha256.hex(),
            name: image.name,
            size: image.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_description_is_read_back() {
        let image = CoreosImage {
            name: "rhcos \"x\".raw.gz".into(),
            size: 5 << 32,
            sha256: Digest::new(Algorithm::Sha256, &"0a".repeat(32)).unwrap(),
        };
        assert_eq!(
            CoreosImage::from_json(image.to_json().as_bytes()),
            Ok(image)
        );
    }

    #[test]
    fn an_invalid_description_is_reported() {
        let upper = format!(
            r#"{{"name": "a", "size": 1, "sha256": "{}"}}"#,
            "0A".repeat(32)
        );
        let control = format!(
            r#"{{"name": "a\n", "size": 1, "sha256": "{}"}}"#,
            "0a".repeat(32)
        );
        for (json, part) in [
            ("", "EOF"),
            ("{}", "missing field"),
            (r#"{"name": "a", "size": -1, "sha256": ""}"#, "expected u64"),
            (
                r#"{"name": "a", "size": 1, "sha256": "ab"}"#,
                "sha256: expected 64",
            ),
            (&upper, "sha256: expected 64"),
            (&control, "name: expected"),
        ] {
            let error = CoreosImage::from_json(json.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(part), "{json}: {error}");
        }
    }
}
