//! Reads one mapping of the document key by key.
//!
//! A fault is recorded with the path of its key, and the reading continues, so that
//! an operator can fix all faults at once.

use std::fmt;
use std::ops::RangeInclusive;

use super::refused;
use super::yaml::Yaml;
pub(super) use crate::findings::Findings;

/// The number of characters of an unknown key that are compared with the known keys. No
/// known key is longer.
const LONGEST_KEY: usize = 64;

/// A mapping and its path, such as `interfaces[2].ipv4`.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    pub(super) path: String,
    map: &'a [(String, Yaml)],
    pub(super) findings: &'a Findings,
}

impl<'a> Fields<'a> {
    /// Reads a value as a mapping with only these keys. `null` counts as an empty
    /// mapping.
    pub(super) fn of(
        value: &'a Yaml,
        path: String,
        keys: &[&str],
        findings: &'a Findings,
    ) -> Option<Fields<'a>> {
        let fields = Fields::unchecked(value, path, findings)?;
        fields.expect_keys(&[keys]);
        Some(fields)
    }

    /// Like [`of`](Self::of), but accepts any keys.
    pub(super) fn unchecked(
        value: &'a Yaml,
        path: String,
        findings: &'a Findings,
    ) -> Option<Fields<'a>> {
        let map = match value {
            Yaml::Null => &[],
            Yaml::Map(map) => map.as_slice(),
            other => {
                findings.fault(&path, format!("expected a mapping, found {}", other.kind()));
                return None;
            }
        };
        Some(Fields {
            path,
            map,
            findings,
        })
    }

    /// Reports each key that is not in these lists, with the most similar known
    /// key.
    pub(super) fn expect_keys(&self, known: &[&[&str]]) {
        let known = || known.iter().flat_map(|keys| keys.iter().copied());
        for (key, _) in self.map {
            if known().any(|known| known == key) {
                continue;
            }
            let path = self.at(key);
            if let Some(instead) = refused::key(key) {
                self.findings.fault(&path, instead);
                continue;
            }
            // Prefer a known key that begins with the unknown key: `dns` most likely
            // means `dns-resolver`, although other keys are closer in spelling.
            let starts_alike = |known: &str| known.starts_with(key.as_str());
            let start: String = key.chars().take(LONGEST_KEY).collect();
            let distance = |known: &str| strsim::osa_distance(&start, known);
            let nearest = known().min_by_key(|known| (!starts_alike(known), distance(known)));
            let nearest = nearest.map_or(String::new(), |key| format!("; the nearest is `{key}`"));
            self.findings.fault(&path, format!("no such key{nearest}"));
        }
    }

    /// The path of a key, for messages.
    pub(super) fn at(&self, key: &str) -> String {
        let key = key.escape_debug();
        match self.path.as_str() {
            "" => key.to_string(),
            path => format!("{path}.{key}"),
        }
    }

    pub(super) fn fault(&self, key: &str, words: impl fmt::Display) {
        self.findings.fault(&self.at(key), words);
    }

    /// Reports a value that is not as expected.
    pub(super) fn expected(&self, key: &str, expected: impl fmt::Display, found: impl fmt::Debug) {
        self.fault(key, format!("expected {expected}, found {found:?}"));
    }

    pub(super) fn warn(&self, key: &str, words: impl fmt::Display) {
        self.findings.warn(&self.at(key), words);
    }

    /// True if the key is present, even without a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.iter().any(|(name, _)| name == key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Yaml> {
        let (_, value) = self.map.iter().find(|(name, _)| name == key)?;
        Some(value).filter(|value| **value != Yaml::Null)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &'a (String, Yaml)> {
        self.map.iter()
    }

    /// The mapping under a key, with only these keys.
    pub(super) fn child(&self, key: &str, keys: &[&str]) -> Option<Fields<'a>> {
        Fields::of(self.get(key)?, self.at(key), keys, self.findings)
    }

    /// A list. Each item comes with its path.
    pub(super) fn list(&self, key: &str) -> Option<Vec<(String, &'a Yaml)>> {
        match self.get(key)? {
            Yaml::List(list) => {
                let path = self.at(key);
                let items = list.iter().enumerate();
                let items = items.map(|(i, item)| (format!("{path}[{i}]"), item));
                Some(items.collect())
            }
            other => {
                self.fault(key, format!("expected a list, found {}", other.kind()));
                None
            }
        }
    }

    /// The mappings of a list, each with only these keys.
    pub(super) fn items(&self, key: &str, keys: &[&str]) -> impl Iterator<Item = Fields<'a>> {
        self.items_up_to(usize::MAX, key, keys)
    }

    /// Like [`items`](Self::items), but if the list has more than `most` items,
    /// reports a fault and returns none of them.
    pub(super) fn items_up_to(
        &self,
        most: usize,
        key: &str,
        keys: &[&str],
    ) -> impl Iterator<Item = Fields<'a>> {
        let mut list = self.list(key).unwrap_or_default();
        if list.len() > most {
            let found = list.len();
            self.expected(key, format!("at most {most}"), found);
            list.clear();
        }
        let read = move |(path, item)| Fields::of(item, path, keys, self.findings);
        list.into_iter().filter_map(read)
    }

    /// Reports each of these keys that the mapping does not have.
    pub(super) fn require(&self, keys: &[&str]) {
        for key in keys.iter().filter(|key| !self.has(key)) {
            self.fault(key, "expected a value, found nothing");
        }
    }

    /// A list of texts; each comes with its path.
    pub(super) fn texts(&self, key: &str) -> Option<Vec<(String, &'a str)>> {
        let text = |(path, item): (String, &'a Yaml)| {
            let text = self.line(|| path.clone(), item)?;
            Some((path, text))
        };
        let list = self.list(key)?;
        Some(list.into_iter().filter_map(text).collect())
    }

    /// A text of one line. As in nmstate, a number is not a text.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.line(|| self.at(key), self.get(key)?)
    }

    /// Returns a text of one line. Calls `path` only for a fault, because building every
    /// path takes a tenth of the time for 10,000 documents.
    fn line(&self, path: impl FnOnce() -> String, value: &'a Yaml) -> Option<&'a str> {
        match value {
            Yaml::Text(text) if !text.contains(char::is_control) => Some(text),
            Yaml::Text(_) => {
                self.findings.fault(&path(), "expected one line of text");
                None
            }
            other => {
                let found = other.kind();
                let hint = match other {
                    Yaml::Integer(_) | Yaml::Bool(_) | Yaml::Float(_) => "; put it in quotes",
                    _ => "",
                };
                self.findings
                    .fault(&path(), format!("expected text, found {found}{hint}"));
                None
            }
        }
    }

    /// A boolean, or a word or number that means one.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.present(key)?;
        let found = match value {
            Yaml::Bool(value) => Some(*value),
            Yaml::Integer(0) => Some(false),
            Yaml::Integer(1) => Some(true),
            Yaml::Text(text) => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" | "y" => Some(true),
                "0" | "false" | "no" | "off" | "n" => Some(false),
                _ => None,
            },
            _ => None,
        };
        if found.is_none() {
            self.fault_of_flag(key, value);
        }
        found
    }

    fn fault_of_flag(&self, key: &str, value: &Yaml) {
        let found = value.kind();
        self.fault(key, format!("expected true or false, found {found}"));
    }

    /// A boolean, but no other spelling of it.
    pub(super) fn strict_flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Yaml::Bool(value) => Some(*value),
            other => {
                self.fault_of_flag(key, other);
                None
            }
        }
    }

    /// A whole number within the bounds, also if it is written as text. Anything else is
    /// a fault.
    pub(super) fn number(&self, key: &str, bounds: RangeInclusive<i64>) -> Option<i64> {
        let value = self.present(key)?;
        let found = match value {
            Yaml::Integer(value) => i64::try_from(*value).ok(),
            // Accept hexadecimal digits only if the number cannot be negative.
            Yaml::Text(text) => match text.strip_prefix("0x").filter(|_| *bounds.start() >= 0) {
                Some(digits) => i64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
            _ => None,
        };
        let found = found.filter(|value| bounds.contains(value));
        if found.is_none() {
            let (start, end, found) = (bounds.start(), bounds.end(), value.kind());
            self.fault(key, format!("expected {start} to {end}, found {found}"));
        }
        found
    }

    /// Like [`number`](Self::number), from 0 to `most`.
    pub(super) fn unsigned(&self, key: &str, most: u32) -> Option<u32> {
        let number = self.number(key, 0..=most.into())?;
        u32::try_from(number).ok()
    }

    /// Finds the text under `key` in `words` and returns its value. If `numbers` is set,
    /// also accepts a number and looks up its digits.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)], numbers: bool) -> Option<T> {
        let value = if numbers {
            self.present(key)?
        } else {
            self.get(key)?
        };
        let text = match value {
            Yaml::Text(text) => text.clone(),
            Yaml::Integer(value) if numbers => value.to_string(),
            _ => String::new(),
        };
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            // Do not list digits in the message: they are only another spelling of the
            // words.
            let is_name = |word: &&str| word.parse::<u8>().is_err();
            let known: Vec<_> = words
                .iter()
                .map(|(word, _)| *word)
                .filter(is_name)
                .collect();
            let (known, found) = (known.join(", "), value.kind());
            self.fault(key, format!("expected one of {known}, found {found}"));
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn parsed<T: std::str::FromStr>(&self, key: &str, expected: &str) -> Option<T> {
        let text = self.text(key)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.expected(key, expected, text);
        }
        value
    }

    /// The value under a key. Reports a `null`, for keys where nmstate does not
    /// accept one.
    fn present(&self, key: &str) -> Option<&'a Yaml> {
        if self.has(key) && self.get(key).is_none() {
            self.fault(key, "expected a value, found nothing");
        }
        self.get(key)
    }
}
