//! The keys of one file, read one by one.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::LARGEST;
use super::section_text::{self, Values, unescaped};
use crate::findings::Findings;
use crate::keyfile::Keyfile;

/// At most this many characters of a value are repeated in a fault.
const SHOWN: usize = 60;

/// The keys of one file. A value that cannot be used becomes a fault, and the reading
/// continues.
pub(super) struct Keys<'a> {
    pub(super) file: &'a str,
    values: Values,
    pub(super) findings: &'a Findings,
}

impl<'a> Keys<'a> {
    pub(super) fn read(file: &'a Keyfile, findings: &'a Findings) -> Keys<'a> {
        let mut values = Values::new();
        if file.text.len() > LARGEST {
            let found = file.text.len();
            let words = format!("expected at most {LARGEST} bytes, found {found}");
            findings.fault_of(&file.name, &file.name, words);
        } else {
            values = section_text::parse(&file.name, &file.text, findings);
        }
        Keys {
            file: &file.name,
            values,
            findings,
        }
    }

    /// True if the file was too long, or has no section.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All sections, keys and values.
    pub(super) fn all(&self) -> &Values {
        &self.values
    }

    /// The value as written; `None` if it is empty.
    pub(super) fn text(&self, section: &str, key: &str) -> Option<&str> {
        let value = self.values.get(section)?.get(key)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// The value with its escapes replaced, without spaces around it. Control characters
    /// are a fault, because the writer cannot write escapes.
    pub(super) fn string(&self, section: &str, key: &str) -> Option<String> {
        let text = self.text(section, key)?;
        let value = unescaped(text).trim_matches(' ').to_owned();
        if value.contains(char::is_control) {
            self.expected(section, key, "a text without control characters", text);
            return None;
        }
        Some(value).filter(|value| !value.is_empty())
    }

    /// The first of these keys that has a value. Most callers pass the new and the old
    /// name of a key that NetworkManager has renamed.
    pub(super) fn first_of(&self, section: &str, keys: &[&'static str]) -> Option<&'static str> {
        let mut keys = keys.iter().copied();
        keys.find(|key| self.text(section, key).is_some())
    }

    pub(super) fn parsed<T: FromStr>(&self, section: &str, key: &str, expected: &str) -> Option<T> {
        let text = self.text(section, key)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.expected(section, key, expected, text);
        }
        value
    }

    /// A decimal number, which may have a sign, or hexadecimal digits after `0x`. Any
    /// other text, or a number outside of the bounds, is a fault.
    pub(super) fn number(
        &self,
        section: &str,
        key: &str,
        bounds: RangeInclusive<i64>,
    ) -> Option<i64> {
        let text = self.text(section, key)?;
        let value = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let value = value.filter(|value| bounds.contains(value));
        if value.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            self.expected(
                section,
                key,
                format!("a number from {least} to {most}"),
                text,
            );
        }
        value
    }

    /// A number without a sign.
    pub(super) fn unsigned(&self, section: &str, key: &str, most: u32) -> Option<u32> {
        let number = self.number(section, key, 0..=most.into())?;
        u32::try_from(number).ok()
    }

    pub(super) fn flag(&self, section: &str, key: &str) -> Option<bool> {
        let text = self.text(section, key)?;
        let flag = as_flag(text);
        if flag.is_none() {
            self.expected(section, key, "true or false", text);
        }
        flag
    }

    /// The items of a list: NetworkManager separates them by `;`, people often by `,`.
    pub(super) fn list(&self, section: &str, key: &str) -> Vec<String> {
        let text = self.string(section, key).unwrap_or_default();
        let items = text.split([';', ',']).map(str::trim);
        let items = items.filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    }

    /// The keys that consist of one of these names and a number, such as `address1`, in
    /// the order of the numbers. A name without a number comes first. Skips empty values.
    pub(super) fn numbered(&self, section: &str, names: &[&str]) -> Vec<&str> {
        let Some(keys) = self.values.get(section) else {
            return Vec::new();
        };
        let number = |key: &str| -> Option<i64> {
            names.iter().find_map(|name| {
                let digits = key.strip_prefix(name)?;
                let is_number = digits.len() <= 9 && digits.bytes().all(|c| c.is_ascii_digit());
                match (digits.is_empty(), is_number) {
                    (true, _) => Some(-1),
                    (false, true) => digits.parse().ok(),
                    (false, false) => None,
                }
            })
        };
        let found = keys.iter().filter(|(_, value)| !value.is_empty());
        let found = found.filter_map(|(key, _)| Some((number(key)?, key.as_str())));
        let mut found: Vec<(i64, &str)> = found.collect();
        found.sort_unstable();
        found.into_iter().map(|(_, key)| key).collect()
    }

    pub(super) fn fault(&self, section: &str, key: &str, words: impl fmt::Display) {
        let path = self.path(section, key);
        self.findings.fault_of(self.file, &path, words);
    }

    pub(super) fn warn(&self, section: &str, key: &str, words: impl fmt::Display) {
        self.findings.warn(&self.path(section, key), words);
    }

    pub(super) fn expected(
        &self,
        section: &str,
        key: &str,
        expected: impl fmt::Display,
        found: &str,
    ) {
        let start: String = found.chars().take(SHOWN).collect();
        self.fault(
            section,
            key,
            format!("expected {expected}, found {start:?}"),
        );
    }

    fn path(&self, section: &str, key: &str) -> String {
        let key = shown(key);
        format!("{}: [{}] {key}", self.file, shown(section))
    }
}

/// A name, shortened for a message.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(SHOWN).collect()
}

/// Reads a boolean as NetworkManager does.
pub(super) fn as_flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}
