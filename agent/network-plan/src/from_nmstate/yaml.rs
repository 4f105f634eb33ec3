//! Parses YAML into a tree, within limits of depth and size. Only this module uses the
//! YAML library.
//!
//! Scalars have the same types as in the library of nmstate's own program (YAML
//! 1.2): `true` is a boolean and `yes` is a text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::options::AliasLimits;
use serde_saphyr::{Budget, MergeKeyPolicy, Options};

/// The deepest nesting that is accepted. NMState needs 8 levels.
const DEEPEST: usize = 32;
/// The maximum number of values; each use of an alias counts. Enough for a few hundred
/// interfaces with every possible setting.
const MOST_VALUES: usize = 100_000;
/// Limit for a file with many hosts: 8 MiB of YAML usually have this many values.
const MOST_VALUES_OF_HOSTS: usize = 1_000_000;
/// The maximum number of documents in one file.
const MOST_DOCUMENTS: usize = 10_000;
/// The maximum number of values that aliases repeat.
const MOST_REPEATED: usize = 20_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Yaml>),
    /// In the order of the document.
    Map(Vec<(String, Yaml)>),
}

/// The text is not valid YAML, or it exceeds a limit of size or depth. Correct it at the
/// given position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected YAML: {0}")]
pub struct InvalidYaml(String);

impl InvalidYaml {
    fn new(error: serde_saphyr::Error) -> Self {
        let words = error.to_string();
        let words: Vec<_> = words.split_whitespace().collect();
        Self(words.join(" "))
    }
}

impl Yaml {
    /// Parses a document, which may start with a byte order mark.
    pub(super) fn parse(text: &str) -> Result<Yaml, InvalidYaml> {
        let text = text.trim_start_matches('\u{feff}');
        // A document without any content is null.
        let is_blank = |line: &str| line.trim().is_empty() || line.starts_with('#');
        if text.lines().all(|line| is_blank(line) || line == "---") {
            return Ok(Yaml::Null);
        }
        serde_saphyr::from_str_with_options(text, options(MOST_VALUES, 1)).map_err(InvalidYaml::new)
    }

    /// Parses the documents of a file with many hosts. Skips documents without any
    /// content.
    pub(super) fn parse_all(text: &str) -> Result<Vec<Yaml>, InvalidYaml> {
        let text = text.trim_start_matches('\u{feff}');
        let options = options(MOST_VALUES_OF_HOSTS, MOST_DOCUMENTS);
        serde_saphyr::from_multiple_with_options(text, options).map_err(InvalidYaml::new)
    }

    /// Converts to JSON. An integer that does not fit in 64 bits becomes a text.
    pub(super) fn into_json(self) -> Value {
        match self {
            Yaml::Null => Value::Null,
            Yaml::Bool(value) => value.into(),
            Yaml::Integer(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => value.to_string().into(),
            },
            Yaml::Float(value) => value.into(),
            Yaml::Text(text) => text.into(),
            Yaml::List(list) => list.into_iter().map(Yaml::into_json).collect(),
            Yaml::Map(map) => map
                .into_iter()
                .map(|(key, value)| (key, value.into_json()))
                .collect(),
        }
    }

    /// Describes the value in a message: `true`, `a list`.
    pub(super) fn kind(&self) -> String {
        match self {
            Yaml::Null => "nothing".to_owned(),
            Yaml::Bool(value) => value.to_string(),
            Yaml::Integer(value) => value.to_string(),
            Yaml::Float(value) => value.to_string(),
            Yaml::Text(text) => {
                let short: String = text.chars().take(60).collect();
                let more = if short.len() < text.len() { "..." } else { "" };
                format!("{short:?}{more}")
            }
            Yaml::List(_) => "a list".to_owned(),
            Yaml::Map(_) => "a mapping".to_owned(),
        }
    }
}

fn options(most_values: usize, most_documents: usize) -> Options {
    let mut budget = Budget::default();
    budget.max_depth = DEEPEST;
    budget.max_nodes = most_values;
    budget.max_events = 2 * most_values;
    budget.max_recorded_anchor_events = MOST_REPEATED;
    budget.max_documents = most_documents;
    let mut aliases = AliasLimits::default();
    aliases.max_total_replayed_events = MOST_REPEATED;
    aliases.max_replay_stack_depth = 8;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.alias_limits = aliases;
    options.strict_booleans = true;
    options.merge_keys = MergeKeyPolicy::AsOrdinary;
    options.with_snippet = false;
    options
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Yaml, D::Error> {
        deserializer.deserialize_any(Tree)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Yaml, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Yaml, E> {
        Ok(Yaml::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Yaml, E> {
        Ok(Yaml::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Yaml, E> {
        Ok(Yaml::Integer(value.into()))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Yaml, E> {
        Ok(Yaml::Integer(value))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Yaml, E> {
        Ok(i128::try_from(value).map_or(Yaml::Float(f64::MAX), Yaml::Integer))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Yaml, E> {
        Ok(Yaml::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Yaml, E> {
        Ok(Yaml::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Yaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Yaml, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Yaml::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn scalars_are_those_of_yaml_1_2() {
        for (text, value) in [
            ("true", Yaml::Bool(true)),
            ("yes", Yaml::Text("yes".to_owned())),
            ("'5'", Yaml::Text("5".to_owned())),
            ("5", Yaml::Integer(5)),
            ("0x10", Yaml::Integer(16)),
            ("-1", Yaml::Integer(-1)),
            ("~", Yaml::Null),
            ("", Yaml::Null),
            ("---", Yaml::Null),
            ("# nothing\n", Yaml::Null),
            (
                "52:54:00:00:00:01",
                Yaml::Text("52:54:00:00:00:01".to_owned()),
            ),
            ("--- {}", Yaml::Map(Vec::new())),
        ] {
            assert_eq!(Yaml::parse(text), Ok(value), "{text:?}");
        }
    }

    #[test]
    fn invalid_or_too_large_yaml_is_rejected_at_once() {
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
             c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
             e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
             g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
        let deep = "[".repeat(10_000);
        let wide = "- x\n".repeat(MOST_VALUES + 1);
        for text in [
            bomb,
            &deep,
            &wide,
            "a: [",
            "a: 1\na: 2",
            "a: 1\n---\na: 2",
            "&a [*a]",
        ] {
            let start = Instant::now();
            let InvalidYaml(error) = Yaml::parse(text).expect_err(&text[..text.len().min(20)]);
            assert!(!error.contains('\n') && error.len() < 400, "{error}");
            // The time limit is long because a loaded machine may be slow; without the
            // limits of this module, the bomb would fill the memory.
            assert!(start.elapsed() < Duration::from_secs(30), "{error}");
        }
        let many = "--- {}\n".repeat(MOST_DOCUMENTS + 1);
        for text in [bomb, &deep, "--- {}\n--- [", "a: 1\na: 2", &many] {
            let start = Instant::now();
            let short = &text[..text.len().min(20)];
            let InvalidYaml(error) = Yaml::parse_all(text).expect_err(short);
            assert!(!error.contains('\n') && error.len() < 400, "{error}");
            assert!(start.elapsed() < Duration::from_secs(30), "{error}");
        }
    }

    #[test]
    fn documents_without_content_are_skipped() {
        let one = Yaml::Map(vec![("a".to_owned(), Yaml::Integer(1))]);
        let two = Yaml::Text("52:54:00:12:34:56".to_owned());
        for (text, expected) in [
            ("", vec![]),
            ("# nothing\n", vec![]),
            ("---\n---\n", vec![]),
            ("a: 1\n", vec![one.clone()]),
            (
                "\u{feff}---\n# of metal3\n---\na: 1\n---\n52:54:00:12:34:56\n---\n",
                vec![one, two],
            ),
        ] {
            assert_eq!(Yaml::parse_all(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn an_alias_stands_for_its_value() {
        let text = "a: &a {x: 1}\nb: *a";
        let x = Yaml::Map(vec![("x".to_owned(), Yaml::Integer(1))]);
        let map = vec![("a".to_owned(), x.clone()), ("b".to_owned(), x)];
        assert_eq!(Yaml::parse(text), Ok(Yaml::Map(map)));
    }

    #[test]
    fn json_says_the_same() {
        let text = "a: [1, -1, 18446744073709551615, 1.5, true, yes, ~]\nb: {c: 'd'}";
        let expected = serde_json::json!({
            "a": [1, -1, u64::MAX, 1.5, true, "yes", null], "b": {"c": "d"},
        });
        assert_eq!(Yaml::parse(text).unwrap().into_json(), expected);
    }
}
