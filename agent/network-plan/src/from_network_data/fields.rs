//! Reads one object of the document key by key.
//!
//! People write this format by hand in YAML and let a tool convert it to JSON. So a
//! number may arrive as text and a text as a number. `null` means no value.

use serde_json::{Map, Value};

/// Most warnings that are kept: a document can be full of faults, and an operator
/// reads only the first few.
const MOST_WARNINGS: usize = 64;

/// The warnings about a document, one line each.
#[derive(Debug, Default)]
pub(super) struct Warnings(pub(super) Vec<String>);

impl Warnings {
    pub(super) fn add(&mut self, text: String) {
        if self.0.len() < MOST_WARNINGS {
            self.0.push(text);
        } else if self.0.len() == MOST_WARNINGS {
            self.0.push("more faults, not shown".to_owned());
        }
    }
}

/// An object, and its name in warnings, such as `network net-1`.
pub(super) struct Fields<'a> {
    pub(super) title: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The objects of a list, at most `limit` of them, so that no document costs
    /// more than a machine can use.
    pub(super) fn list(
        value: Option<&'a Value>,
        what: &str,
        limit: usize,
        warnings: &mut Warnings,
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
            let Value::Object(map) = entry else {
                let found = kind(entry);
                warnings.add(format!(
                    "{what} {index}: expected an object, found {found}; ignored"
                ));
                continue;
            };
            let mut fields = Fields {
                title: format!("{what} {index}"),
                map,
            };
            if let Some(id) = fields.quiet_text("id") {
                fields.title = format!("{what} {}", shortened(&id));
            }
            list.push(fields);
        }
        list
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.map.keys().map(String::as_str)
    }

    /// A text, or a whole number as text. Anything else causes a warning.
    pub(super) fn text(&self, key: &str, warnings: &mut Warnings) -> Option<String> {
        let value = self.get(key)?;
        let text = as_text(value);
        if text.is_none() {
            let (title, found) = (&self.title, kind(value));
            warnings.add(format!(
                "{title}: {key}: expected text, found {found}; ignored"
            ));
        }
        text
    }

    pub(super) fn quiet_text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(as_text)
    }

    /// A whole number within the bounds, or its digits as text.
    pub(super) fn number(
        &self,
        key: &str,
        bounds: std::ops::RangeInclusive<u32>,
        warnings: &mut Warnings,
    ) -> Option<u32> {
        let value = self.get(key)?;
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| {
                // 1500.0: some YAML tools write whole numbers like this.
                let whole = number.as_f64().filter(|n| n.fract() == 0.0);
                whole.filter(|n| (0.0..=4e9).contains(n)).map(|n| n as u64)
            }),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let found = number.and_then(|n| u32::try_from(n).ok());
        let found = found.filter(|n| bounds.contains(n));
        if found.is_none() {
            let (title, start, end) = (&self.title, bounds.start(), bounds.end());
            let value = shortened(&value.to_string());
            warnings.add(format!(
                "{title}: {key}: expected {start} to {end}, found {value}; ignored"
            ));
        }
        found
    }

    /// A value that parses. Anything else causes a warning that says what was
    /// expected.
    pub(super) fn parsed<T: std::str::FromStr>(
        &self,
        key: &str,
        expected: &str,
        warnings: &mut Warnings,
    ) -> Option<T> {
        let text = self.text(key, warnings)?;
        let value = text.parse().ok();
        if value.is_none() {
            let (title, text) = (&self.title, shortened(&text));
            warnings.add(format!(
                "{title}: {key}: expected {expected}, found {text:?}; ignored"
            ));
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
