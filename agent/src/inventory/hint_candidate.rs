//! What root device hints are compared with: a disk of this machine, or the
//! description of one.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::hint_expression::{ErrorClass, Expression, HintError};
use super::python_text::{python_text, python_type};
use super::report_types::Disk;

/// Hints state sizes in this unit.
pub const GIB: f64 = (1u64 << 30) as f64;

/// Something that hints can choose.
pub trait Candidate {
    /// What it has for a hint of text: one of the inventory's field names.
    fn texts(&self, hint: &str) -> Texts<'_>;

    /// Its size.
    ///
    /// # Errors
    /// If it has none.
    fn size_gib(&self) -> Result<f64, HintError>;

    /// Whether it rotates; `None` if that is not known.
    fn rotational(&self) -> Option<bool>;
}

/// Texts of one property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Texts<'a> {
    /// One text, or none.
    Single(Option<Cow<'a, str>>),
    /// Several numbers of one disk; each may be meant.
    AnyOf(Vec<Cow<'a, str>>),
    /// Several names of one thing: to exclude one excludes them all.
    Aliases(Vec<Cow<'a, str>>),
}

impl Texts<'_> {
    /// Whether an expression matches.
    ///
    /// # Errors
    /// If it cannot be compared with what is here.
    pub fn matches(&self, expression: &Expression) -> Result<bool, HintError> {
        match self {
            Self::Single(value) => expression.matches_text(value.as_deref().unwrap_or("None")),
            // What is no number is passed over here, since another may be.
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
            // One name of several paths to it is as good as the other.
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

/// A device as somebody wrote it down, with the inventory's field names and
/// values of any type.
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
                format!("expected a size in bytes, found a {}", python_type(size)),
            )
        })
    }

    fn rotational(&self) -> Option<bool> {
        boolean(&python_text(self.get("rotational")?))
    }
}

/// The words of oslo.utils' strict `bool_from_string`.
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "n" | "no" => Some(false),
        _ => None,
    }
}
