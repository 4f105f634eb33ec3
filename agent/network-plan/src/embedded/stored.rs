//! Writes and reads the file of an embedded host. [`super`] describes the format.

use std::collections::BTreeMap;

use landfall_boot_params::MacAddr;
use landfall_boot_params::dracut_net::{is_host_name, is_interface_name};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::host::{Document, EmbeddedHost};
use super::metal3_hints::{Metal3HintError, Metal3Hints};

/// The maximum length of a file in bytes. A description has at most 1 MiB, and JSON
/// escapes a byte with at most six bytes.
pub const LARGEST: usize = 8 << 20;

const FORMAT: u32 = 1;
/// The key of the hints. The agent also searches for it in files that it cannot parse.
pub const HINTS_KEY: &str = "root_device_hints";
/// A file with more MAC addresses or more NIC names than this is rejected. No chassis has
/// as many NICs.
const MOST_NICS: usize = 512;

/// The JSON object in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: u32,
    host_name: Option<String>,
    macs: Vec<String>,
    nics: BTreeMap<String, String>,
    /// The hints. If the agent cannot parse a file, it searches the text for this key, so
    /// that it does not choose a disk without the hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root_device_hints: Option<Value>,
    kind: String,
    text: String,
}

/// Only the version of the file, so that another version is reported before the other
/// keys are parsed.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Why a file is not a valid host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddedError {
    #[error("expected at most {LARGEST} bytes, found {found}")]
    TooLong { found: usize },
    /// The file is not an object with these keys. Holds the parser's message.
    #[error("expected an embedded host: {0}")]
    Shape(String),
    /// The file is of another version.
    #[error("expected format {FORMAT}, found {found}")]
    Format { found: u32 },
    /// A value is not valid. Holds the first 60 characters of it.
    #[error("{key}: expected {expected}, found {found:?}")]
    Value {
        key: &'static str,
        expected: &'static str,
        found: String,
    },
    #[error("{}", .0.iter().map(|fault| fault.at("root_device_hints")).collect::<Vec<_>>().join("; "))]
    Hints(Vec<Metal3HintError>),
}

impl EmbeddedHost {
    /// The text of the file. The same host always gives the same text.
    pub fn to_json(&self) -> String {
        let nics = self.nics.iter();
        let stored = Stored {
            format: FORMAT,
            host_name: self.host_name.clone(),
            macs: self.macs.iter().map(MacAddr::to_string).collect(),
            nics: nics
                .map(|(name, mac)| (name.clone(), mac.to_string()))
                .collect(),
            root_device_hints: self.root_device_hints.as_ref().map(Metal3Hints::to_json),
            kind: self.document.kind().to_owned(),
            text: self.document.text().to_owned(),
        };
        // Strings and numbers cannot fail to serialise.
        serde_json::to_string_pretty(&stored).unwrap_or_default() + "\n"
    }

    /// Reads the file. Does not check the description in `text`.
    ///
    /// # Errors
    /// If the file does not have the form that [`EmbeddedHost::to_json`] writes.
    pub fn from_json(text: &str) -> Result<EmbeddedHost, EmbeddedError> {
        if text.len() > LARGEST {
            let found = text.len();
            return Err(EmbeddedError::TooLong { found });
        }
        let shape = |error: serde_json::Error| EmbeddedError::Shape(error.to_string());
        let Version { format } = serde_json::from_str(text).map_err(shape)?;
        if format != FORMAT {
            return Err(EmbeddedError::Format { found: format });
        }
        let stored: Stored = serde_json::from_str(text).map_err(shape)?;
        if let Some(name) = stored.host_name.as_ref().filter(|name| !is_host_name(name)) {
            return Err(value("host_name", "a host name", name));
        }
        let counts = [("macs", stored.macs.len()), ("nics", stored.nics.len())];
        for (key, count) in counts {
            if count > MOST_NICS {
                return Err(value(key, "at most 512", &count.to_string()));
            }
        }
        let macs = stored.macs.iter().map(|text| mac("macs", text));
        let mut nics = BTreeMap::new();
        for (name, text) in &stored.nics {
            if !is_interface_name(name) {
                return Err(value("nics", "the name of an interface", name));
            }
            nics.insert(name.clone(), mac("nics", text)?);
        }
        Ok(EmbeddedHost {
            macs: macs.collect::<Result<_, _>>()?,
            nics,
            root_device_hints: match &stored.root_device_hints {
                Some(hints) => Metal3Hints::from_json(hints).map_err(EmbeddedError::Hints)?,
                None => None,
            },
            document: match stored.kind.as_str() {
                "nmstate" => Document::NmState(stored.text),
                "network_data" => Document::NetworkData(stored.text),
                "none" => Document::None,
                other => return Err(value("kind", "nmstate, network_data or none", other)),
            },
            host_name: stored.host_name,
        })
    }
}

fn mac(key: &'static str, text: &str) -> Result<MacAddr, EmbeddedError> {
    let no_mac = |_| value(key, "a hardware address such as 52:54:00:00:00:01", text);
    text.parse().map_err(no_mac)
}

fn value(key: &'static str, expected: &'static str, found: &str) -> EmbeddedError {
    EmbeddedError::Value {
        key,
        expected,
        found: found.chars().take(60).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: &str = "52:54:00:00:00:01";

    fn host() -> EmbeddedHost {
        EmbeddedHost {
            host_name: Some("node7".to_owned()),
            macs: vec![MAC.parse().unwrap()],
            nics: BTreeMap::from([("eth0".to_owned(), MAC.parse().unwrap())]),
            root_device_hints: None,
            document: Document::NmState("interfaces: []\n".to_owned()),
        }
    }

    #[test]
    fn the_documented_form() {
        let expected = "{\n  \"format\": 1,\n  \"host_name\": \"node7\",\n  \
            \"macs\": [\n    \"52:54:00:00:00:01\"\n  ],\n  \
            \"nics\": {\n    \"eth0\": \"52:54:00:00:00:01\"\n  },\n  \
            \"kind\": \"nmstate\",\n  \"text\": \"interfaces: []\\n\"\n}\n";
        assert_eq!(host().to_json(), expected);
        assert_eq!(EmbeddedHost::from_json(expected), Ok(host()));
        let hints = serde_json::json!({"serialNumber": "S1"});
        let hinted = EmbeddedHost {
            root_device_hints: Metal3Hints::from_json(&hints).unwrap(),
            ..host()
        };
        let expected = expected.replace(
            "\"kind\"",
            "\"root_device_hints\": {\n    \"serialNumber\": \"S1\"\n  },\n  \"kind\"",
        );
        assert_eq!(hinted.to_json(), expected);
        assert_eq!(EmbeddedHost::from_json(&expected), Ok(hinted));
    }

    #[test]
    fn invalid_hosts_are_rejected() {
        let good = host().to_json();
        for (from, to, expected) in [
            ("{", "[", "expected an embedded host: "),
            (
                "\"format\": 1",
                "\"format\": 2",
                "expected format 1, found 2",
            ),
            (
                "\"kind\"",
                "\"sort\"",
                "expected an embedded host: unknown field `sort`",
            ),
            (
                "\"nmstate\"",
                "\"netplan\"",
                "kind: expected nmstate, network_data or none, found \"netplan\"",
            ),
            (
                "node7",
                "node_7",
                "host_name: expected a host name, found \"node_7\"",
            ),
            (
                "\"eth0\": \"52",
                "\"eth0\": \"x",
                "nics: expected a hardware address such as 52:54:00:00:00:01, found \"x:54",
            ),
            (
                "eth0",
                "a/b",
                "nics: expected the name of an interface, found \"a/b\"",
            ),
            (
                "\"kind\"",
                "\"root_device_hints\": {\"serial\": \"S1\"}, \"kind\"",
                "root_device_hints.serial: no such hint; the nearest is `serialNumber`",
            ),
        ] {
            let text = good.replacen(from, to, 1);
            let error = EmbeddedHost::from_json(&text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let long = " ".repeat(LARGEST + 1);
        let found = LARGEST + 1;
        let error = EmbeddedHost::from_json(&long).unwrap_err();
        assert_eq!(error, EmbeddedError::TooLong { found });
    }

    proptest! {
        #[test]
        fn a_written_host_is_read_back(
            name in proptest::option::of("[a-z][a-z0-9-]{0,8}[a-z0-9]"),
            macs in proptest::collection::vec(any::<[u8; 6]>(), 0..4),
            nic in "[a-z]{3}[0-9]{1,3}",
            size in 0..3_i64,
            text in any::<String>(),
        ) {
            let hints = serde_json::json!({"minSizeGigabytes": size});
            let macs: Vec<MacAddr> = macs.into_iter().map(MacAddr).collect();
            let host = EmbeddedHost {
                host_name: name,
                nics: macs.iter().map(|mac| (nic.clone(), *mac)).collect(),
                macs,
                root_device_hints: Metal3Hints::from_json(&hints).unwrap(),
                document: Document::NetworkData(text),
            };
            prop_assert_eq!(EmbeddedHost::from_json(&host.to_json()), Ok(host));
        }
    }
}
