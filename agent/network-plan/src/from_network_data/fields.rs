//! Reads one object of the document key by key.
//!
//! People write this format by hand in YAML and let a tool convert it to JSON. So a
//! number may arrive as text and a text as a number. `null` means no value.

use std::cell::RefCell;
use std::fmt;

use serde_json::{Map, Value};

/// The maximum number of warnings that are kept. A document can be full of faults, and an
/// operator reads only the first few.
const MOST_WARNINGS: usize = 64;

/// The warnings about a document, one line each.
#[derive(Debug, Default)]
pub(super) struct Warnings(RefCell<Vec<String>>);

impl Warnings {
    pub(super) fn add(&self, text: String) {
        let mut lines = self.0.borrow_mut();
        if lines.len() < MOST_WARNINGS {
            lines.push(text);
        } else if lines.len() == MOST_WARNINGS {
            lines.push("more faults, not shown".to_owned());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.0.into_inner()
    }
}

/// An object, and its name in warnings, such as `network net-1`.
pub(super) struct Fields<'a> {
    pub(super) title: String,
    map: &'a Map<String, Value>,
    pub(super) warnings: &'a Warnings,
}

impl<'a> Fields<'a> {
    /// The objects of a list, at most `limit` of them, so that a document cannot use
    /// unlimited time and memory.
    pub(super) fn list(
        value: Option<&'a Value>,
        what: &str,
        limit: usize,
        warnings: &'a Warnings,
    ) -> Vec<Fields<'a>> {
        let entries = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(entries)) => entries,
            Some(other) => {
                warnings.add(format!("{what}: expected a list, found {}", kind(other)));
                return Vec::new();
            }
        };
        if entries.len() > limit {
            let found = entries.len();
            warnings.add(format!(
                "{what}: expected at most {limit}, found {found}; the rest is ignored"
            ));
        }
        let mut list = Vec::new();
        for (index, entry) in entries.iter().take(limit).enumerate() {
            let title = format!("{what} {index}");
            let Value::Object(map) = entry else {
                let found = kind(entry);
                warnings.add(format!(
                    "{title}: expected an object, found {found}; ignored"
                ));
                continue;
            };
            let mut fields = Fields {
                title,
                map,
                warnings,
            };
            if let Some(id) = fields.quiet_text("id") {
                fields.title = format!("{what} {}", shortened(&id));
            }
            list.push(fields);
        }
        list
    }

    pub(super) fn warn(&self, words: impl fmt::Display) {
        self.warnings.add(format!("{}: {words}", self.title));
    }

    /// Warns of a value that is not as expected, and quotes it.
    pub(super) fn expected(&self, key: &str, expected: impl fmt::Display, found: &str) {
        let found = shortened(found);
        self.warn(format_args!(
            "{key}: expected {expected}, found {found:?}; ignored"
        ));
    }

    /// Warns that the object is ignored because something is missing.
    pub(super) fn has_no(&self, what: &str) {
        self.warnings
            .add(format!("{} has no {what}; ignored", self.title));
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str)
    }

    /// A text, or a whole number as text. Anything else causes a warning.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        let value = self.get(key)?;
        let text = as_text(value);
        if text.is_none() {
            let found = kind(value);
            self.warn(format_args!("{key}: expected text, found {found}; ignored"));
        }
        text
    }

    pub(super) fn quiet_text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(as_text)
    }

    /// A whole number within the bounds, also if it is written as text. Anything else
    /// causes a warning.
    pub(super) fn number(&self, key: &str, bounds: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let value = self.get(key)?;
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| {
                // Some YAML tools write a whole number such as 1500 as 1500.0.
                let whole = number.as_f64().filter(|n| n.fract() == 0.0);
                whole.filter(|n| (0.0..=4e9).contains(n)).map(|n| n as u64)
            }),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let found = number.and_then(|n| u32::try_from(n).ok());
        let found = found.filter(|n| bounds.contains(n));
        if found.is_none() {
            let (start, end) = (bounds.start(), bounds.end());
            let value = shortened(&value.to_string());
            self.warn(format_args!(
                "{key}: expected {start} to {end}, found {value}; ignored"
            ));
        }
        found
    }

    /// Parses a value. If this fails, adds a warning that says what was expected.
    pub(super) fn parsed<T: std::str::FromStr>(&self, key: &str, expected: &str) -> Option<T> {
        let text = self.text(key)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.expected(key, expected, &text);
        }
        value
    }
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Makes text from the document fit for a console line: at most 60 characters, and
/// no control characters, which could move the cursor.
pub(super) fn shortened(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().map(clean).take(60).collect();
    if text.chars().nth(60).is_some() {
        short.push_str("...");
    }
    short
}
