//! Writes values as kernel argument text, which the image builder puts into boot
//! menus.

use std::fmt;

use crate::cmdline::CommandLine;

/// Longest line that can be written, in bytes. x86 and arm64 kernels keep 2048
/// bytes (COMMAND_LINE_SIZE), the last of them a NUL, and silently drop the rest.
pub const MAX_WRITTEN: usize = 2047;

/// The error for a text that a kernel command line cannot carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentError {
    /// A name that is empty, is `--`, or contains `=`, a quote or a character other
    /// than printable ASCII.
    Name(String),
    /// A value that contains a quote or a character other than printable ASCII: the
    /// kernel has no escapes, and boot menus have no other encoding.
    Value {
        /// The argument's name.
        key: String,
        /// The first character that is not allowed.
        found: char,
    },
    /// A text of several arguments with a quote that is not closed.
    OpenQuote(String),
    /// The line is longer than [`MAX_WRITTEN`].
    TooLong {
        /// Length of the whole line in bytes.
        length: usize,
    },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentError::Name(name) => write!(
                f,
                "kernel argument name {name:?}: expected printable ASCII without spaces, quotes and '='"
            ),
            ArgumentError::Value { key, found } => write!(
                f,
                "kernel argument {key}: expected printable ASCII without '\"', found {found:?}"
            ),
            ArgumentError::OpenQuote(text) => {
                write!(f, "kernel arguments {text:?}: a quote is not closed")
            }
            ArgumentError::TooLong { length } => write!(
                f,
                "kernel command line: expected at most {MAX_WRITTEN} bytes, found {length}"
            ),
        }
    }
}

impl std::error::Error for ArgumentError {}

/// A kernel command line under construction. It is valid after every call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentLine {
    text: String,
}

impl ArgumentLine {
    pub fn new() -> ArgumentLine {
        ArgumentLine::default()
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Adds `key=value`, with quotes if the value contains a space, or `key` alone.
    pub fn push(&mut self, key: &str, value: Option<&str>) -> Result<(), ArgumentError> {
        let plain = |c: u8| c.is_ascii_graphic() && c != b'=' && c != b'"';
        // A bare `--` would end the kernel's own arguments.
        if key.is_empty() || key == "--" || !key.bytes().all(plain) {
            return Err(ArgumentError::Name(key.to_owned()));
        }
        let Some(value) = value else {
            return self.append(key);
        };
        if let Some(found) = value.chars().find(|c| *c == '"' || !is_printable(*c)) {
            let key = key.to_owned();
            return Err(ArgumentError::Value { key, found });
        }
        if value.contains(' ') {
            self.append(&format!("{key}=\"{value}\""))
        } else {
            self.append(&format!("{key}={value}"))
        }
    }

    /// Adds one or more complete arguments. Changes only the white space between
    /// them. On an error the line stays as it was.
    pub fn push_text(&mut self, text: &str) -> Result<(), ArgumentError> {
        if let Some(found) = text.chars().find(|c| !is_printable(*c)) {
            let key = text.to_owned();
            return Err(ArgumentError::Value { key, found });
        }
        if !text.matches('"').count().is_multiple_of(2) {
            return Err(ArgumentError::OpenQuote(text.to_owned()));
        }
        let before = self.text.len();
        for token in CommandLine::parse(text).tokens() {
            if let Err(error) = self.append(&token.text) {
                self.text.truncate(before);
                return Err(error);
            }
        }
        Ok(())
    }

    fn append(&mut self, argument: &str) -> Result<(), ArgumentError> {
        let gap = usize::from(!self.text.is_empty());
        let length = self.text.len() + gap + argument.len();
        if length > MAX_WRITTEN {
            return Err(ArgumentError::TooLong { length });
        }
        if gap == 1 {
            self.text.push(' ');
        }
        self.text.push_str(argument);
        Ok(())
    }
}

impl fmt::Display for ArgumentLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_printable(c: char) -> bool {
    c == ' ' || c.is_ascii_graphic()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_only_values_with_spaces() {
        let mut line = ArgumentLine::new();
        line.push("ip", Some("192.0.2.10::192.0.2.1:24::eth0:none"))
            .unwrap();
        line.push("note", Some("a b")).unwrap();
        line.push("quiet", None).unwrap();
        line.push("empty", Some("")).unwrap();
        line.push_text("  console=ttyS0   x=\"1 2\" ").unwrap();
        assert_eq!(
            line.as_str(),
            "ip=192.0.2.10::192.0.2.1:24::eth0:none note=\"a b\" quiet empty= console=ttyS0 x=\"1 2\""
        );
    }

    #[test]
    fn refuses_what_the_kernel_would_read_differently() {
        let mut line = ArgumentLine::new();
        for key in ["", "a b", "a=b", "a\"b", "--", "\u{e4}"] {
            assert_eq!(line.push(key, None), Err(ArgumentError::Name(key.into())));
        }
        for (value, found) in [
            ("a\"b", '"'),
            ("a\nb", '\n'),
            ("\u{e4}", '\u{e4}'),
            ("\t", '\t'),
        ] {
            let key = "k".to_owned();
            assert_eq!(
                line.push("k", Some(value)),
                Err(ArgumentError::Value { key, found })
            );
        }
        assert!(matches!(
            line.push_text("a=\"b c"),
            Err(ArgumentError::OpenQuote(_))
        ));
        assert!(line.push_text("a\nb").is_err());
        assert_eq!(line.as_str(), "");
    }

    #[test]
    fn stays_within_what_x86_kernels_keep() {
        let mut line = ArgumentLine::new();
        line.push("a", Some(&"x".repeat(MAX_WRITTEN - 2))).unwrap();
        assert_eq!(line.as_str().len(), MAX_WRITTEN);
        let full = line.clone();
        assert_eq!(
            line.push("b", None),
            Err(ArgumentError::TooLong {
                length: MAX_WRITTEN + 2
            })
        );
        assert_eq!(line, full);

        let mut line = ArgumentLine::new();
        let two = format!("a {}", "y".repeat(MAX_WRITTEN));
        assert!(line.push_text(&two).is_err());
        assert_eq!(line.as_str(), "", "half of a refused text must not stay");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            arguments in proptest::collection::vec(("[!#-<>-~]{1,8}", proptest::option::of("[ !#-~]{0,20}")), 0..8)
        ) {
            let arguments: Vec<_> = arguments.into_iter().filter(|(key, _)| key != "--").collect();
            let mut line = ArgumentLine::new();
            for (key, value) in &arguments {
                line.push(key, value.as_deref()).unwrap();
            }
            let read: Vec<_> = CommandLine::parse(line.as_str())
                .tokens()
                .iter()
                .map(|token| (token.key.clone(), token.value.clone()))
                .collect();
            prop_assert_eq!(read, arguments);
        }
    }
}
