//! Parses and edits GRUB's environment block, the file `grubenv`. It holds
//! variables that GRUB loads and can save; its size never changes (GRUB manual,
//! 16.2 "Environment block"; `lib/envblk.c`).

/// The first line of a block.
const SIGNATURE: &str = "# GRUB Environment Block\n";
/// The byte that fills the unused rest of a block.
const FILL: u8 = b'#';

/// The variables and comments of a block, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    lines: Vec<Line>,
    /// The size of the whole file in bytes.
    size: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    /// A comment line, including its `#`.
    Comment(String),
    Variable {
        name: String,
        value: String,
    },
}

/// Why a block cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    #[error("expected {:?} at the beginning", SIGNATURE.trim_end())]
    Signature,
    #[error("expected a line break after {0:?}")]
    OpenLine(String),
    #[error("expected name=value, found {0:?}")]
    NoVariable(String),
    #[error("expected a name, found {0:?}")]
    Name(String),
    /// In bytes.
    #[error("expected variables of at most {expected} bytes, found {found}")]
    Full { expected: usize, found: usize },
}

impl Environment {
    /// Parses a block.
    ///
    /// # Errors
    /// If the first line is wrong, if a line is neither a comment nor `name=value`, if a
    /// name contains a backslash, or if the last line has no line break.
    pub fn parse(block: &str) -> Result<Self, EnvironmentError> {
        let mut rest = block
            .strip_prefix(SIGNATURE)
            .ok_or(EnvironmentError::Signature)?;
        let mut lines = Vec::new();
        while !rest.is_empty() {
            let Some((line, after)) = first_line(rest) else {
                if rest.starts_with(char::from(FILL)) {
                    break;
                }
                return Err(EnvironmentError::OpenLine(rest.to_owned()));
            };
            rest = after;
            if line.starts_with('#') {
                lines.push(Line::Comment(line.to_owned()));
            } else {
                let (name, value) = line
                    .split_once('=')
                    .ok_or_else(|| EnvironmentError::NoVariable(line.to_owned()))?;
                if name.contains(['\\', '\n']) {
                    return Err(EnvironmentError::Name(name.to_owned()));
                }
                lines.push(Line::Variable {
                    name: name.to_owned(),
                    value: unescaped(value),
                });
            }
        }
        Ok(Self {
            lines,
            size: block.len(),
        })
    }

    /// The value of a variable. If the variable is set several times, the last value
    /// takes effect, as in GRUB.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines.iter().rev().find_map(|line| match line {
            Line::Variable { name: own, value } if own == name => Some(value.as_str()),
            _ => None,
        })
    }

    /// Changes the value of an existing variable; ignores a variable that does not
    /// exist.
    pub fn set(&mut self, name: &str, new: &str) {
        for line in &mut self.lines {
            if let Line::Variable { name: own, value } = line
                && own == name
            {
                new.clone_into(value);
            }
        }
    }

    /// The block, with its original size.
    ///
    /// # Errors
    /// If the variables no longer fit into the block.
    pub fn to_bytes(&self) -> Result<Vec<u8>, EnvironmentError> {
        let mut block = SIGNATURE.to_owned();
        for line in &self.lines {
            match line {
                Line::Comment(comment) => block.push_str(comment),
                Line::Variable { name, value } => {
                    block.push_str(name);
                    block.push('=');
                    block.push_str(&escaped(value));
                }
            }
            block.push('\n');
        }
        let mut block = block.into_bytes();
        if block.len() > self.size {
            return Err(EnvironmentError::Full {
                expected: self.size,
                found: block.len(),
            });
        }
        block.resize(self.size, FILL);
        Ok(block)
    }
}

/// The text before the first unescaped line break, and the rest. `None` if there is no
/// such line break. A comment has no escapes.
fn first_line(text: &str) -> Option<(&str, &str)> {
    if text.starts_with('#') {
        return text.split_once('\n');
    }
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'\n' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\\n")
}

fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        text.extend(match character {
            '\\' => characters.next(),
            other => Some(other),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(lines: &str) -> String {
        let mut block = format!("{SIGNATURE}{lines}");
        block.extend(std::iter::repeat_n('#', 1024 - block.len()));
        block
    }

    #[test]
    fn a_value_is_changed_and_nothing_else() {
        let old = block("# WARNING: by hand\nsaved_entry=a\nkernelopts=root=x ro\na=b\\\\c\n");
        let mut environment = Environment::parse(&old).unwrap();
        assert_eq!(environment.to_bytes().unwrap(), old.as_bytes());
        assert_eq!(environment.get("kernelopts"), Some("root=x ro"));
        assert_eq!(environment.get("a"), Some("b\\c"));
        assert_eq!(environment.get("none"), None);
        environment.set("kernelopts", "ro");
        environment.set("none", "x");
        let new = block("# WARNING: by hand\nsaved_entry=a\nkernelopts=ro\na=b\\\\c\n");
        assert_eq!(environment.to_bytes().unwrap(), new.as_bytes());
    }

    #[test]
    fn an_invalid_environment_block_is_rejected() {
        for bad in [
            "",
            "a=b\n",
            &format!("{SIGNATURE}a"),
            &format!("{SIGNATURE}a=b"),
            &format!("{SIGNATURE}a\nb=c\n"),
            &format!("{SIGNATURE}a=b\\\n"),
            &SIGNATURE[1..],
        ] {
            assert!(Environment::parse(bad).is_err(), "{bad:?}");
        }
        let mut full = Environment::parse(&format!("{SIGNATURE}a=b\n")).unwrap();
        full.set("a", "bc");
        let reason = full.to_bytes().unwrap_err().to_string();
        assert!(reason.contains("at most 29 bytes, found 30"), "{reason}");
    }

    proptest! {
        #[test]
        fn a_set_value_is_read_back(value in r"[a #=\\\n\u{e4}]{0,40}") {
            let mut environment = Environment::parse(&block("x=1\ny=2\n")).unwrap();
            environment.set("x", &value);
            let bytes = environment.to_bytes().unwrap();
            let again = Environment::parse(std::str::from_utf8(&bytes).unwrap()).unwrap();
            prop_assert_eq!(again.get("x"), Some(&value[..]));
            prop_assert_eq!(again.get("y"), Some("2"));
            prop_assert_eq!(again, environment);
        }
    }
}
