//! Parses the root device hints of a node, and compares them with disks.

mod skip_list;

pub use skip_list::SkipList;

use landfall_network_plan::Metal3Hints;
use landfall_report::failure::{Class, Failure};
use serde_json::Value;

use super::hint_candidate::{Candidate, boolean};
use super::hint_expression::{ErrorClass, Expression, HintError};
use super::python_text::{python_text, python_type};
use super::report_types::{Disk, DiskTraits, PartitionNode};

/// The root device hints of an operator. A disk must match all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootDeviceHints(Vec<Hint>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hint {
    name: String,
    /// The value as JSON, for messages.
    written: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Text(Expression),
    Size(Expression),
    Rotational(bool),
}

/// All valid hints.
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

/// The hints that can identify one disk.
const IDENTITIES: [&str; 6] = [
    "serial",
    "wwn",
    "wwn_with_extension",
    "by_path",
    "hctl",
    "name",
];

impl RootDeviceHints {
    /// Parses `root_device` of a node. `None` if there are no hints.
    ///
    /// # Errors
    /// If the value is not an object, if a hint is unknown, or if its expression is
    /// invalid.
    pub fn parse(hints: &Value) -> Result<Option<Self>, HintError> {
        match hints {
            Value::Object(hints) => Self::from_fields(hints),
            other if is_false(other) => Ok(None),
            other => Err(no_object(other)),
        }
    }

    /// Parses the fields of a `root_device` object, in their order.
    ///
    /// # Errors
    /// If a hint is unknown, or if its expression is invalid.
    pub fn from_fields<'a>(
        fields: impl IntoIterator<Item = (&'a String, &'a Value)>,
    ) -> Result<Option<Self>, HintError> {
        let fields: Vec<(&String, &Value)> = fields.into_iter().collect();
        if fields.is_empty() {
            return Ok(None);
        }
        let unknown: Vec<&str> = fields
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !NAMES.contains(name))
            .collect();
        if !unknown.is_empty() {
            return Err(unknown_hints(&unknown));
        }
        let hints = fields
            .into_iter()
            .map(|(name, value)| parse_hint(name, value));
        Ok(Some(Self(hints.collect::<Result<_, _>>()?)))
    }

    /// The hints that metal3's operator would give to Ironic.
    ///
    /// # Errors
    /// If an expression is invalid.
    pub fn from_metal3(hints: &Metal3Hints) -> Result<Self, HintError> {
        let hints = hints.for_ironic();
        let hints = hints.iter().map(|(name, value)| parse_hint(name, value));
        Ok(Self(hints.collect::<Result<_, _>>()?))
    }

    /// Whether one of the hints identifies a disk instead of describing it, for example
    /// by an exact serial number. `s!= A` does not identify a disk, because every other
    /// disk matches it. A part of a text (`<in> A`) does not identify a disk either,
    /// because it may match many disks.
    pub fn name_a_disk(&self) -> bool {
        self.0.iter().any(|hint| {
            IDENTITIES.contains(&hint.name.as_str())
                && matches!(&hint.test, Test::Text(expression) if expression.is_exact())
        })
    }

    /// Whether a hint is exactly the device node or the by-path link of one of the disk's
    /// partitions, and the other hints match that partition.
    ///
    /// # Errors
    /// As [`RootDeviceHints::mismatch`].
    fn name_a_partition(&self, disk: &Disk) -> Result<bool, HintError> {
        for partition in &disk.traits.partitions {
            let part = as_disk(partition, disk);
            let mut named = false;
            for hint in self.0.iter().filter(|hint| hint.names_a_node()) {
                named |= hint.mismatch(&part)?.is_none() && hint.mismatch(disk)?.is_some();
            }
            if named && self.mismatch(&part)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The properties of the device that do not match, as text; `None` if all match.
    /// The text contains all of them, so that an operator can correct all hints before
    /// the next boot.
    ///
    /// # Errors
    /// If a hint cannot be compared with the device's value and all hints before it
    /// match. After the first hint that does not match, Ironic's agent compares nothing.
    pub fn mismatch(&self, device: &impl Candidate) -> Result<Option<String>, HintError> {
        let mut differences = Vec::new();
        for hint in &self.0 {
            match hint.mismatch(device) {
                Ok(None) => {}
                Ok(Some(found)) => {
                    let unit = match &hint.test {
                        Test::Size(_) => " GiB",
                        Test::Text(_) | Test::Rotational(_) => "",
                    };
                    differences.push(format!(
                        "{} is {found}, wanted {}{unit}",
                        hint.name, hint.written
                    ));
                }
                Err(error) if differences.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        Ok((!differences.is_empty()).then(|| differences.join("; ")))
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

/// The partition as Ironic's agent lists it among the devices: with the values of its
/// disk, except for those set here.
fn as_disk(partition: &PartitionNode, disk: &Disk) -> Disk {
    let path_name = |path: &String| format!("{path}-part{}", partition.number);
    Disk {
        name: partition.name.clone(),
        size: partition.size,
        by_path: disk.by_path.as_ref().map(path_name),
        traits: DiskTraits {
            by_paths: disk.traits.by_paths.iter().map(path_name).collect(),
            other_paths: Vec::new(),
            ..disk.traits.clone()
        },
        ..disk.clone()
    }
}

/// Whether Python treats the value as false.
fn is_false(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The error if the value is not an object. Ironic's agent iterates over any value and
/// uses its items as names of hints. So the class of the error depends on the items.
fn no_object(hints: &Value) -> HintError {
    let class = match hints {
        Value::String(_) => ErrorClass::ValueError,
        Value::Array(items) => {
            let names: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            match names {
                None => ErrorClass::TypeError,
                Some(names) if names.iter().all(|name| NAMES.contains(name)) => {
                    ErrorClass::AttributeError
                }
                Some(_) => ErrorClass::ValueError,
            }
        }
        _ => ErrorClass::TypeError,
    };
    let found = python_type(hints);
    HintError::new(
        class,
        format!("expected a JSON object of hints, found a value of Python's type {found}"),
    )
}

fn unknown_hints(names: &[&str]) -> HintError {
    HintError::new(
        ErrorClass::ValueError,
        format!(
            "unknown hint {}, expected some of {}",
            names.join(", "),
            NAMES.join(", ")
        ),
    )
}

fn parse_hint(name: &str, value: &Value) -> Result<Hint, HintError> {
    let invalid = |expected: &str| {
        let message = format!("expected {expected}, found {value}");
        HintError::new(ErrorClass::ValueError, message)
    };
    let test = match (name, value) {
        // A size is usually a JSON number.
        ("size", _) => Expression::for_size(&python_text(value)).map(Test::Size),
        ("rotational", _) => boolean(&python_text(value))
            .map(Test::Rotational)
            .ok_or_else(|| invalid("true or false")),
        (_, Value::String(text)) => Expression::for_text(text).map(Test::Text),
        _ => Err(invalid("a text")),
    };
    Ok(Hint {
        name: name.to_owned(),
        written: value.to_string(),
        test: test.map_err(|error| of_hint(name, error))?,
    })
}

fn of_hint(name: &str, error: HintError) -> HintError {
    HintError::new(error.class, format!("{name}: {}", error.message))
}

impl Hint {
    /// Whether the hint is exactly a device node or a link below /dev/disk/by-path.
    fn names_a_node(&self) -> bool {
        matches!(&*self.name, "name" | "by_path")
            && matches!(&self.test, Test::Text(expression) if expression.is_exact())
    }

    /// The device's own value as text if it does not match; `None` if it matches.
    fn mismatch(&self, device: &impl Candidate) -> Result<Option<String>, HintError> {
        let compare = || match &self.test {
            Test::Rotational(wanted) => {
                let found = device.rotational();
                let text = found.map_or("not known".into(), |found| found.to_string());
                Ok((found == Some(*wanted), text))
            }
            Test::Size(expression) => {
                let gib = device.size_gib()?;
                Ok((expression.matches_size(gib)?, format!("{gib:.2} GiB")))
            }
            Test::Text(expression) => {
                let texts = device.texts(&self.name);
                Ok((texts.matches(expression)?, texts.to_string()))
            }
        };
        let (matches, found) = compare().map_err(|error| of_hint(&self.name, error))?;
        Ok((!matches).then_some(found))
    }
}

impl From<HintError> for Failure {
    /// The same error that Ironic's agent would report to Ironic: the hints are not
    /// valid, or the step failed.
    fn from(error: HintError) -> Self {
        let (class, text) = match error.class {
            ErrorClass::ValueError => (Class::DeviceNotFound, "are not valid"),
            _ => (Class::CommandExecutionError, "cannot be used"),
        };
        Self::new(
            class,
            format!("root device hints {text}: {}", error.message),
        )
        .hint("correct root_device in the node's properties or instance_info")
    }
}
