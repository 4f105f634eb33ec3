//! Reads the members of a config one by one: if one member has an unexpected type, the
//! other members can still be used.

use serde_json::{Map, Value};

use crate::InvalidConfig;

/// The member of the config has an unexpected type. Correct the config. The error leaves
/// out the value, which may be a secret: the lines about a config are sent to the console
/// and to Ironic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub(crate) struct WrongType {
    /// The place of the member in the config, such as `storage.files[0].path`.
    pub(crate) path: String,
    expected: &'static str,
    found: &'static str,
}

/// A value and its place in the config.
pub(crate) struct Member {
    pub(crate) path: String,
    value: Value,
}

/// An upper bound of the number of values in a JSON text: every value except the first
/// one follows a `[`, `,` or `:`. A value can take much more memory than text (an object
/// with one member takes 600 bytes), so the number must be checked before the text is
/// parsed.
pub(crate) fn most_values(json: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b',' | b':' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// The members of an object that have not been read yet.
#[derive(Default)]
pub(crate) struct Members {
    path: String,
    left: Map<String, Value>,
}

impl Member {
    /// Parses a config.
    pub(crate) fn of_config(bytes: &[u8]) -> Result<Self, InvalidConfig> {
        // Do not use serde_json's error texts, because they may contain values of the
        // config.
        let value = serde_json::from_slice(bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            match error.is_eof() {
                true => InvalidConfig::CutOff(line, column),
                false => InvalidConfig::Json(line, column),
            }
        })?;
        let path = String::new();
        Ok(Self { path, value })
    }

    pub(crate) fn object(self) -> Result<Members, WrongType> {
        match self.value {
            Value::Object(left) => Ok(Members {
                path: self.path,
                left,
            }),
            _ => Err(self.wrong_type("an object")),
        }
    }

    fn text(self) -> Result<String, WrongType> {
        match self.value {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong_type("a string")),
        }
    }

    fn flag(self) -> Result<bool, WrongType> {
        match self.value {
            Value::Bool(flag) => Ok(flag),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    fn list(self) -> Result<Vec<Self>, WrongType> {
        let Value::Array(values) = self.value else {
            return Err(self.wrong_type("an array"));
        };
        let entries = values.into_iter().enumerate().map(|(index, value)| Self {
            path: format!("{}[{index}]", self.path),
            value,
        });
        Ok(entries.collect())
    }

    fn wrong_type(self, expected: &'static str) -> WrongType {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        WrongType {
            path: self.path,
            expected,
            found,
        }
    }
}

impl Members {
    /// Takes a member out of the object. `null` counts as a missing member.
    fn take(&mut self, name: &str) -> Option<Member> {
        let value = self.left.remove(name).filter(|value| !value.is_null())?;
        let path = self.path_of(name);
        Some(Member { path, value })
    }

    fn path_of(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Members>, WrongType> {
        self.take(name).map(Member::object).transpose()
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, WrongType> {
        self.take(name).map(Member::text).transpose()
    }

    /// Like [`Self::text`]; a missing member is an error.
    pub(crate) fn required_text(&mut self, name: &str) -> Result<String, WrongType> {
        self.text(name)?.ok_or_else(|| WrongType {
            path: self.path_of(name),
            expected: "a string",
            found: "nothing",
        })
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, WrongType> {
        self.take(name).map(Member::flag).transpose()
    }

    /// The entries of a list, which may have different types.
    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<Member>, WrongType> {
        let list = self.take(name).map(Member::list).transpose()?;
        Ok(list.unwrap_or_default())
    }

    /// The paths of the members that are not empty and have not been read.
    pub(crate) fn others(&self) -> impl Iterator<Item = String> {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.values().all(Value::is_null),
            _ => false,
        };
        let full = self.left.iter().filter(move |(_, value)| !is_empty(value));
        full.map(|(name, _)| self.path_of(name))
    }
}
