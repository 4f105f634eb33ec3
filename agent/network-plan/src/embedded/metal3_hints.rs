//! Root device hints in the spelling of metal3 (`rootDeviceHints` of a
//! BareMetalHost), and their translation into Ironic's hints.
//!
//! Names, types and translation are those of metal3's operator (baremetal-operator,
//! pkg/provisioner/ironic/devicehints, and the webhook for `deviceName`). For most hints
//! the disk's text must equal the hint; for model and vendor it only has to contain the
//! hint.

use std::fmt;

use landfall_boot_params::nearest;
use serde::Serialize;
use serde_json::{Map, Value};

/// The longest accepted text of a hint, in bytes. The longest useful text is the path of
/// a link in /dev/disk/by-path, whose name has at most 255 bytes.
const LONGEST: usize = 1024;

/// The directory of the links that name a disk by its controller and port.
const BY_PATH: &str = "/dev/disk/by-path/";

/// How the value of a hint is written, and compared with a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A device node, or a link below [`BY_PATH`].
    Device,
    /// The disk's text must equal the hint.
    Whole,
    /// The disk's text must contain the hint.
    Part,
    /// The disk must have at least this many GiB.
    Size,
    Switch,
}

/// Metal3's name of each hint, Ironic's name, and the kind of its value.
const HINTS: [(&str, &str, Kind); 10] = [
    ("deviceName", "name", Kind::Device),
    ("hctl", "hctl", Kind::Whole),
    ("model", "model", Kind::Part),
    ("vendor", "vendor", Kind::Part),
    ("serialNumber", "serial", Kind::Whole),
    ("minSizeGigabytes", "size", Kind::Size),
    ("wwn", "wwn", Kind::Whole),
    ("wwnWithExtension", "wwn_with_extension", Kind::Whole),
    ("wwnVendorExtension", "wwn_vendor_extension", Kind::Whole),
    ("rotational", "rotational", Kind::Switch),
];

/// The beginnings of all operators with which an expression of Ironic's hints can start
/// (`specs_matcher` of oslo.utils). `<` is also the beginning of `<in>`.
const OPERATORS: [&str; 8] = ["=", "!=", "<", ">", "s==", "s!=", "s<", "s>"];

/// Root device hints of a host, at least one. A disk must match all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metal3Hints(Map<String, Value>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Metal3HintError {
    #[error("expected hints as keys and values, found {found}")]
    NoObject { found: String },
    #[error("{name}: no such hint{}", nearest.map(|name| format!("; the nearest is `{name}`")).unwrap_or_default())]
    Unknown {
        name: String,
        nearest: Option<&'static str>,
    },
    #[error("{name}: expected {expected}, found {found}")]
    Value {
        name: &'static str,
        expected: &'static str,
        found: String,
    },
}

impl Metal3HintError {
    /// Formats the fault in one line. `path` is the path of the hints in a document.
    pub fn at(&self, path: &str) -> String {
        match self {
            Self::NoObject { .. } => format!("{path}: {self}"),
            Self::Unknown { .. } | Self::Value { .. } => format!("{path}.{self}"),
        }
    }
}

impl Metal3Hints {
    /// Reads `rootDeviceHints`. `None` if no hint is set. As in metal3, an empty
    /// text and a size of 0 are not set.
    ///
    /// # Errors
    /// All faults at once. A hint that cannot be used must not be ignored, because
    /// without it another disk matches.
    pub fn from_json(hints: &Value) -> Result<Option<Self>, Vec<Metal3HintError>> {
        let fields = match hints {
            Value::Null => return Ok(None),
            Value::Object(fields) => fields,
            other => {
                let found = shown(other);
                return Err(vec![Metal3HintError::NoObject { found }]);
            }
        };
        let mut set = Map::new();
        let mut faults = Vec::new();
        for (name, value) in fields {
            let Some(&(name, _, kind)) = HINTS.iter().find(|(known, _, _)| known == name) else {
                faults.push(unknown(name));
                continue;
            };
            match kind.check(value) {
                Ok(true) => drop(set.insert(name.to_owned(), value.clone())),
                Ok(false) => {}
                Err(expected) => faults.push(Metal3HintError::Value {
                    name,
                    expected,
                    found: shown(value),
                }),
            }
        }
        match faults.is_empty() {
            true => Ok((!set.is_empty()).then_some(Self(set))),
            false => Err(faults),
        }
    }

    /// The hints as metal3's operator writes them into `root_device` of the node:
    /// Ironic's name and the expression of each.
    pub fn for_ironic(&self) -> Vec<(String, Value)> {
        let given = HINTS
            .iter()
            .filter_map(|hint| Some((hint, self.0.get(hint.0)?)));
        let hint = |(&(_, ironic, kind), value): (&(&str, &str, Kind), &Value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let (ironic, expression) = match kind {
                Kind::Device if text.starts_with(BY_PATH) => ("by_path", format!("s== {text}")),
                Kind::Device | Kind::Whole => (ironic, format!("s== {text}")),
                Kind::Part => (ironic, format!("<in> {text}")),
                Kind::Size => (ironic, format!(">= {text}")),
                Kind::Switch => (ironic, text),
            };
            (ironic.to_owned(), Value::String(expression))
        };
        given.map(hint).collect()
    }

    /// The hints in metal3's spelling.
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }

    /// Whether metal3 has a hint of this name and Ironic has none.
    pub fn is_name_of_metal3_only(name: &str) -> bool {
        let is_of_ironic = HINTS.iter().any(|(_, ironic, _)| *ironic == name);
        !is_of_ironic && HINTS.iter().any(|(metal3, _, _)| *metal3 == name)
    }
}

/// Formats as `serialNumber: "S1", minSizeGigabytes: 100`.
impl fmt::Display for Metal3Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = HINTS.iter().map(|(name, _, _)| *name);
        let given = names.filter_map(|name| Some((name, self.0.get(name)?)));
        for (index, (name, value)) in given.enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name}: {value}")?;
        }
        Ok(())
    }
}

impl Kind {
    /// Returns whether the hint is set: not if the value is null, an empty text or a size
    /// of 0. The error says which value is expected.
    fn check(self, value: &Value) -> Result<bool, &'static str> {
        match (self, value) {
            (_, Value::Null) => Ok(false),
            (Kind::Size, Value::Number(number)) => {
                let gigabytes = number.as_i64().filter(|number| *number >= 0);
                gigabytes
                    .map(|number| number > 0)
                    .ok_or("a whole number of GiB, 0 or more")
            }
            (Kind::Size, _) => Err("a whole number of GiB, 0 or more"),
            (Kind::Switch, Value::Bool(_)) => Ok(true),
            (Kind::Switch, _) => Err("true or false"),
            (_, Value::String(text)) if text.is_empty() => Ok(false),
            (_, Value::String(text)) if text.len() > LONGEST => Err("at most 1024 bytes"),
            (Kind::Device, Value::String(text)) if !is_device(text) => {
                Err("/dev/NAME or /dev/disk/by-path/NAME")
            }
            (_, Value::String(text)) if !is_operand(text) => {
                Err("a plain text without an operator of Ironic's hints")
            }
            (_, Value::String(_)) => Ok(true),
            // YAML reads an unquoted serial number or WWN as a number, without its
            // leading zeros or its 0x.
            (_, _) => Err("a text in quotes"),
        }
    }
}

/// Accepts the same device names as metal3's webhook.
fn is_device(text: &str) -> bool {
    let name = text.strip_prefix("/dev/");
    let name = name.map(|name| name.strip_prefix("disk/by-path/").unwrap_or(name));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// True if the text can follow an operator in an expression of Ironic's hints. In the
/// ramdisk the agent's own parser decides this; a test in `agent/inventory` checks that
/// this function and the parser accept the same texts.
fn is_operand(text: &str) -> bool {
    let is_space = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
    let text = text.to_lowercase();
    let text = text.trim_end_matches(is_space);
    let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
    text.starts_with(|c| !is_space(c)) && !OPERATORS.iter().any(|it| text.starts_with(it))
}

fn unknown(name: &str) -> Metal3HintError {
    // A user who knows Ironic may have written Ironic's name of a hint.
    let of_ironic = HINTS.iter().find(|(_, ironic, _)| *ironic == name);
    let meant = match (of_ironic, name) {
        (Some((metal3, _, _)), _) => Some(*metal3),
        (None, "by_path") => Some("deviceName"),
        (None, _) => nearest(name, HINTS.iter().map(|(metal3, _, _)| *metal3)),
    };
    Metal3HintError::Unknown {
        name: start(name).escape_debug().to_string(),
        nearest: meant,
    }
}

/// The value as a message shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => format!("{:?}", start(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "keys and values".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn start(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ironic(hints: Value) -> Value {
        let hints = Metal3Hints::from_json(&hints).unwrap().unwrap();
        Value::Object(hints.for_ironic().into_iter().collect())
    }

    fn faults(hints: Value) -> Vec<String> {
        let faults = Metal3Hints::from_json(&hints).unwrap_err();
        faults.iter().map(|fault| fault.at("hints")).collect()
    }

    /// The expected hints are those of GenerateRootDeviceHints and its own tests.
    #[test]
    fn the_translation_is_that_of_metal3s_operator() {
        for (metal3, expected) in [
            (
                json!({"deviceName": "/dev/sda"}),
                json!({"name": "s== /dev/sda"}),
            ),
            (
                json!({"deviceName": "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}),
                json!({"by_path": "s== /dev/disk/by-path/pci-0000:00:1f.2-ata-1"}),
            ),
            (json!({"hctl": "1:2:3:4"}), json!({"hctl": "s== 1:2:3:4"})),
            (
                json!({"model": "SSD 860"}),
                json!({"model": "<in> SSD 860"}),
            ),
            (json!({"vendor": "ATA"}), json!({"vendor": "<in> ATA"})),
            (json!({"serialNumber": "S1"}), json!({"serial": "s== S1"})),
            (json!({"minSizeGigabytes": 100}), json!({"size": ">= 100"})),
            (json!({"wwn": "0x5"}), json!({"wwn": "s== 0x5"})),
            (
                json!({"wwnWithExtension": "0x5e"}),
                json!({"wwn_with_extension": "s== 0x5e"}),
            ),
            (
                json!({"wwnVendorExtension": "0xe"}),
                json!({"wwn_vendor_extension": "s== 0xe"}),
            ),
            (json!({"rotational": false}), json!({"rotational": "false"})),
            (json!({"rotational": true}), json!({"rotational": "true"})),
            (
                json!({"serialNumber": "", "minSizeGigabytes": 0, "wwn": null, "vendor": "A"}),
                json!({"vendor": "<in> A"}),
            ),
        ] {
            assert_eq!(ironic(metal3.clone()), expected, "{metal3}");
        }
    }

    #[test]
    fn hints_that_are_not_set_are_none() {
        for none in [
            json!(null),
            json!({}),
            json!({"deviceName": "", "hctl": null, "minSizeGigabytes": 0}),
        ] {
            assert_eq!(Metal3Hints::from_json(&none), Ok(None), "{none}");
        }
    }

    #[test]
    fn every_fault_is_reported() {
        for (hints, expected) in [
            (
                json!([]),
                "hints: expected hints as keys and values, found a list",
            ),
            (
                json!({"serialNumbr": "x"}),
                "hints.serialNumbr: no such hint; the nearest is `serialNumber`",
            ),
            (
                json!({"by_path": "x"}),
                "hints.by_path: no such hint; the nearest is `deviceName`",
            ),
            (
                json!({"size": 10}),
                "hints.size: no such hint; the nearest is `minSizeGigabytes`",
            ),
            (json!({"a/b\n": 1}), "hints.a/b\\n: no such hint"),
            (
                json!({"serialNumber": 123}),
                "hints.serialNumber: expected a text in quotes, found 123",
            ),
            (
                json!({"model": {"a": 1}}),
                "hints.model: expected a text in quotes, found keys and values",
            ),
            (
                json!({"minSizeGigabytes": "10"}),
                "hints.minSizeGigabytes: expected a whole number of GiB, 0 or more, found \"10\"",
            ),
            (
                json!({"minSizeGigabytes": -1}),
                "hints.minSizeGigabytes: expected a whole number of GiB, 0 or more, found -1",
            ),
            (
                json!({"minSizeGigabytes": 1.5}),
                "hints.minSizeGigabytes: expected a whole number of GiB, 0 or more, found 1.5",
            ),
            (
                json!({"rotational": "true"}),
                "hints.rotational: expected true or false, found \"true\"",
            ),
            (
                json!({"deviceName": "sda"}),
                "hints.deviceName: expected /dev/NAME or /dev/disk/by-path/NAME, found \"sda\"",
            ),
            (
                json!({"deviceName": "/dev/disk/by-id/x"}),
                "hints.deviceName: expected /dev/NAME or /dev/disk/by-path/NAME, \
                 found \"/dev/disk/by-id/x\"",
            ),
            (
                json!({"wwn": " "}),
                "hints.wwn: expected a plain text without an operator of Ironic's hints, found \" \"",
            ),
            (
                json!({"vendor": "<in> A"}),
                "hints.vendor: expected a plain text without an operator of Ironic's hints, \
                 found \"<in> A\"",
            ),
        ] {
            assert_eq!(faults(hints.clone()), [expected], "{hints}");
        }
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(faults(json!({"wwn": long, "hctl": 0})).len(), 2);
    }

    #[test]
    fn names_that_only_metal3_has() {
        for (name, only) in [("serialNumber", true), ("model", false), ("size", false)] {
            assert_eq!(Metal3Hints::is_name_of_metal3_only(name), only, "{name}");
        }
    }
}
