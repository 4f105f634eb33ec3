//! The devices that root device hints are compared with: a disk of this machine, or the
//! JSON description of a disk.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::hint_expression::{ErrorClass, Expression, HintError};
use super::python_text::{python_text, python_type};
use super::report_types::Disk;

/// Bytes of a GiB, the unit of sizes in hints.
pub const GIB: f64 = (1u64 << 30) as f64;

/// A device that root device hints can choose.
pub trait Candidate {
    /// The values that are compared with a text hint; `hint` is a field name of the
    /// inventory.
    fn texts(&self, hint: &str) -> Texts<'_>;

    /// Fails if the size is missing or is not a number.
    fn size_gib(&self) -> Result<f64, HintError>;

    /// Whether the disk rotates; `None` if this is unknown.
    fn rotational(&self) -> Option<bool>;
}

/// The texts of one property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Texts<'a> {
    /// One text, or none.
    Single(Option<Cow<'a, str>>),
    /// Several serial numbers or WWNs of one disk; a hint may name any of them.
    AnyOf(Vec<Cow<'a, str>>),
    /// Several names of one disk. A hint that excludes one of the names excludes the
    /// disk.
    Aliases(Vec<Cow<'a, str>>),
}

impl Texts<'_> {
    /// Whether an expression matches.
    ///
    /// # Errors
    /// If the expression cannot be compared with these texts.
    pub fn matches(&self, expression: &Expression) -> Result<bool, HintError> {
        match self {
            Self::Single(value) => expression.matches_text(value.as_deref().unwrap_or("None")),
            // Skip a text that is not a number, because another text may be one.
            Self::AnyOf(values) => {
                for value in values {
                    match expression.matches_text(value) {
                        Ok(true) => return Ok(true),
                        Ok(false) => {}
                        Err(error) if error.class == ErrorClass::ValueError => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(false)
            }
            Self::Aliases(names) => {
                for name in names {
                    let matches = expression.matches_text(name)?;
                    if matches != expression.is_exclusion() {
                        return Ok(matches);
                    }
                }
                Ok(expression.is_exclusion())
            }
        }
    }
}

impl std::fmt::Display for Texts<'_> {
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

impl Candidate for Disk {
    fn texts(&self, hint: &str) -> Texts<'_> {
        fn all(texts: &[String]) -> Vec<Cow<'_, str>> {
            texts.iter().map(Cow::from).collect()
        }
        let single = match hint {
            "serial" => return Texts::AnyOf(all(&self.traits.serials)),
            "wwn" => return Texts::AnyOf(all(&self.traits.wwns)),
            "by_path" if !self.traits.by_paths.is_empty() => {
                return Texts::Aliases(all(&self.traits.by_paths));
            }
            "by_path" => &self.by_path,
            // If a disk has several paths, a hint can name any of them.
            "name" if !self.traits.other_paths.is_empty() => {
                let others = self.traits.other_paths.iter().map(|path| &path.name);
                let names = [&self.name].into_iter().chain(others);
                return Texts::Aliases(names.map(Cow::from).collect());
            }
            "hctl" if !self.traits.other_paths.is_empty() => {
                let others = self
                    .traits
                    .other_paths
                    .iter()
                    .filter_map(|path| path.hctl.as_ref());
                let numbers = self.hctl.iter().chain(others);
                return Texts::Aliases(numbers.map(Cow::from).collect());
            }
            "name" => return Texts::Single(Some(Cow::from(&self.name))),
            "model" => &self.model,
            "vendor" => &self.vendor,
            "wwn_with_extension" => &self.wwn_with_extension,
            "wwn_vendor_extension" => &self.wwn_vendor_extension,
            "hctl" => &self.hctl,
            _ => &self.tran,
        };
        Texts::Single(single.as_deref().map(Cow::from))
    }

    fn size_gib(&self) -> Result<f64, HintError> {
        Ok(self.size as f64 / GIB)
    }

    fn rotational(&self) -> Option<bool> {
        Some(self.rotational)
    }
}

/// A device described in JSON, with the inventory's field names and values of any type.
impl Candidate for Map<String, Value> {
    fn texts(&self, hint: &str) -> Texts<'_> {
        match self.get(hint) {
            None | Some(Value::Null) => Texts::Single(None),
            Some(Value::Array(items)) => {
                let known = items.iter().filter(|item| !item.is_null());
                Texts::AnyOf(known.map(|item| python_text(item).into()).collect())
            }
            Some(other) => Texts::Single(Some(python_text(other).into())),
        }
    }

    fn size_gib(&self) -> Result<f64, HintError> {
        let size = self.get("size").unwrap_or(&Value::Null);
        let bytes = match size {
            Value::Number(number) => number.as_f64(),
            // In Python a bool is a number.
            Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
            _ => None,
        };
        bytes.map(|bytes| bytes / GIB).ok_or_else(|| {
            HintError::new(
                ErrorClass::TypeError,
                format!("expected the size of the device as a number of bytes, found a value of Python's type {}", python_type(size)),
            )
        })
    }

    fn rotational(&self) -> Option<bool> {
        boolean(&python_text(self.get("rotational")?))
    }
}

/// Parses the words that oslo.utils' strict `bool_from_string` accepts.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}
