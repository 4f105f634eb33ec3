//! Root device hints of a node, and its list of disks to be left alone.

use serde_json::{Map, Value};

use super::hint_expression::{Expression, HintError};
use super::report_types::Disk;
use crate::failure::{Class, Failure, Result};

/// Hints state sizes in this unit.
pub const GIB: f64 = (1u64 << 30) as f64;

/// What an operator's hints ask of a disk. All of them must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootDeviceHints(Vec<Hint>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hint {
    name: String,
    /// As it was written, for messages.
    written: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Text(Expression),
    Size(Expression),
    Rotational(bool),
}

/// A disk's property as hints see it.
enum Property<'a> {
    /// One text, or none.
    Single(Option<&'a str>),
    /// Several numbers of one disk; each may be meant.
    AnyOf(&'a [String]),
    /// Several names of one thing.
    Aliases(&'a [String]),
}

impl RootDeviceHints {
    /// Reads `root_device` of a node. `None` if there are no hints.
    ///
    /// # Errors
    /// If a hint is unknown, or its expression cannot be used.
    pub fn parse(hints: &Value) -> Result<Option<Self>> {
        match hints {
            Value::Null => Ok(None),
            Value::Object(hints) if hints.is_empty() => Ok(None),
            Value::Object(hints) => Self::parse_object(hints).map(Some),
            other => Err(invalid(format!("expected an object, found {other}"))),
        }
    }

    fn parse_object(hints: &Map<String, Value>) -> Result<Self> {
        let unknown: Vec<&str> = hints
            .keys()
            .map(String::as_str)
            .filter(|name| !NAMES.contains(name))
            .collect();
        if !unknown.is_empty() {
            return Err(invalid(format!(
                "unknown hint {}, expected some of {}",
                unknown.join(", "),
                NAMES.join(", ")
            )));
        }
        hints
            .iter()
            .map(|(name, value)| parse_hint(name, value))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// The first property of the disk that does not match, in words.
    ///
    /// # Errors
    /// If a comparison cannot be made with what this disk has.
    pub fn mismatch(&self, disk: &Disk) -> Result<Option<String>> {
        for hint in &self.0 {
            if let Some(found) = hint.mismatch(disk)? {
                return Ok(Some(format!(
                    "{} is {found}, wanted {}",
                    hint.name, hint.written
                )));
            }
        }
        Ok(None)
    }
}

impl std::fmt::Display for RootDeviceHints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, hint) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}: {}", hint.name, hint.written)?;
        }
        Ok(())
    }
}

/// The hints that exist.
const NAMES: [&str; 12] = [
    "size",
    "model",
    "wwn",
    "serial",
    "vendor",
    "wwn_with_extension",
    "wwn_vendor_extension",
    "name",
    "rotational",
    "hctl",
    "by_path",
    "tran",
];

fn parse_hint(name: &str, value: &Value) -> Result<Hint> {
    // A size is mostly given as a number.
    let written = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let test = match name {
        "size" => Expression::for_size(&written)
            .map(Test::Size)
            .map_err(|error| unusable(name, error))?,
        "rotational" => Test::Rotational(boolean(&written).ok_or_else(|| {
            invalid(format!("rotational: expected true or false, found {value}"))
        })?),
        _ if !value.is_string() => {
            return Err(invalid(format!("{name}: expected a text, found {value}")));
        }
        _ => Expression::for_text(&written)
            .map(Test::Text)
            .map_err(|error| unusable(name, error))?,
    };
    Ok(Hint {
        name: name.to_owned(),
        written: value.to_string(),
        test,
    })
}

/// The words of oslo.utils' strict `bool_from_string`.
fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}

fn invalid(reason: String) -> Failure {
    Failure::new(
        Class::DeviceNotFound,
        format!("root device hints are not valid: {reason}"),
    )
    .hint("correct root_device in the node's properties or instance_info")
}

fn unusable(name: &str, error: HintError) -> Failure {
    match error {
        HintError::Invalid(reason) => invalid(format!("{name}: {reason}")),
        HintError::Broken(reason) => Failure::new(
            Class::CommandExecutionError,
            format!("root device hint {name} cannot be used: {reason}"),
        )
        .hint("correct root_device in the node's properties or instance_info"),
    }
}

impl Hint {
    /// What the disk has instead, if it does not match.
    fn mismatch(&self, disk: &Disk) -> Result<Option<String>> {
        let (matches, found) = match &self.test {
            Test::Rotational(wanted) => {
                (Ok(disk.rotational == *wanted), disk.rotational.to_string())
            }
            Test::Size(expression) => {
                let gib = disk.size as f64 / GIB;
                (expression.matches_size(gib), format!("{gib:.2} GiB"))
            }
            Test::Text(expression) => {
                let property = property(disk, &self.name);
                (property.matches(expression), property.to_string())
            }
        };
        match matches {
            Ok(matches) => Ok((!matches).then_some(found)),
            Err(error) => Err(unusable(&self.name, error)),
        }
    }
}

fn property<'a>(disk: &'a Disk, name: &str) -> Property<'a> {
    Property::Single(match name {
        "serial" => return Property::AnyOf(&disk.traits.serials),
        "wwn" => return Property::AnyOf(&disk.traits.wwns),
        "by_path" if !disk.traits.by_paths.is_empty() => {
            return Property::Aliases(&disk.traits.by_paths);
        }
        "by_path" => disk.by_path.as_deref(),
        "name" => Some(&disk.name),
        "model" => disk.model.as_deref(),
        "vendor" => disk.vendor.as_deref(),
        "wwn_with_extension" => disk.wwn_with_extension.as_deref(),
        "wwn_vendor_extension" => disk.wwn_vendor_extension.as_deref(),
        "hctl" => disk.hctl.as_deref(),
        _ => disk.tran.as_deref(),
    })
}

impl Property<'_> {
    fn matches(&self, expression: &Expression) -> std::result::Result<bool, HintError> {
        match self {
            Self::Single(value) => expression.matches_text(*value),
            // What is no number is passed over here, since one form may be.
            Self::AnyOf(values) => {
                for value in *values {
                    match expression.matches_text(Some(value)) {
                        Ok(true) => return Ok(true),
                        Ok(false) | Err(HintError::Invalid(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(false)
            }
            Self::Aliases(names) => {
                for name in *names {
                    let matches = expression.matches_text(Some(name))?;
                    if matches != expression.is_exclusion() {
                        return Ok(matches);
                    }
                }
                Ok(expression.is_exclusion())
            }
        }
    }
}

impl std::fmt::Display for Property<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Single(Some(value)) => write!(f, "\"{value}\""),
            Self::AnyOf(values) | Self::Aliases(values) if !values.is_empty() => {
                write!(f, "\"{}\"", values.join("\" or \""))
            }
            _ => f.write_str("not known"),
        }
    }
}

/// Disks that an operator wants left alone (`skip_block_devices`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkipList(Vec<RootDeviceHints>);

impl SkipList {
    /// Reads `skip_block_devices` of a node. Entries with `volume_name` name
    /// software RAID volumes and mean nothing here.
    ///
    /// # Errors
    /// If an entry has no hints or hints that cannot be used: passing over it
    /// would give a disk away that was to be kept.
    pub fn parse(entries: &Value) -> Result<Self> {
        let entries = match entries {
            Value::Null => return Ok(Self::default()),
            Value::Array(entries) => entries,
            other => {
                return Err(unusable_skip_list(&format!(
                    "expected a list, found {other}"
                )));
            }
        };
        entries
            .iter()
            .filter(|entry| entry.get("volume_name").is_none())
            .map(|entry| {
                RootDeviceHints::parse(entry)?
                    .ok_or_else(|| unusable_skip_list("an entry has no hints"))
            })
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Whether this disk is to be left alone.
    ///
    /// # Errors
    /// If a comparison cannot be made with what this disk has.
    pub fn contains(&self, disk: &Disk) -> Result<bool> {
        for hints in &self.0 {
            if hints.mismatch(disk)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn unusable_skip_list(reason: &str) -> Failure {
    Failure::new(
        Class::CommandExecutionError,
        format!("skip_block_devices cannot be used: {reason}"),
    )
    .hint("correct skip_block_devices in the node's properties")
}
