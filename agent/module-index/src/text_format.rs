//! The index as text, with one fact per line.
//!
//! ```text
//! landfall-module-index 1
//! kernel 6.1.0-56-cloud-amd64
//! builtin crc32c_generic
//! alias crypto_crc32c
//! module virtio_net kernel/drivers/net/virtio_net.ko
//! needs net_failover virtio virtio_ring
//! alias virtio:d00000001v*
//! end
//! ```
//!
//! `needs`, `before`, `after` and `alias` belong to the last `module` line. `alias`
//! may also belong to a `builtin` line. `end` shows that nothing is cut off: the
//! ramdisk that holds the file may not have fitted into memory.
//!
//! The format is text because it compresses as well as a binary format would (most
//! of it is alias patterns), and because a person can read it in a ramdisk with
//! nothing but `cat`.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::content::{BuiltIn, IndexContent, Module};
use crate::module_name;

/// The number in the first line.
pub const FORMAT_VERSION: u32 = 1;
/// A whole Debian kernel (4023 modules, 26 222 aliases) needs 1.4 MB.
pub const MAX_INDEX_BYTES: usize = 16 << 20;
/// The longest line of a whole Debian kernel is a `needs` line of about 300 bytes.
pub const MAX_LINE_BYTES: usize = 4096;
/// Four times as many as a distribution kernel has.
pub const MAX_MODULES: usize = 16_384;

const MAGIC: &str = "landfall-module-index";

/// Why a text is not an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("module index is {found} bytes, expected at most {MAX_INDEX_BYTES}")]
    TooLarge {
        /// In bytes.
        found: usize,
    },
    #[error("module index line {line}: {fault}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What was expected and what was found.
        fault: String,
    },
}

/// Why content cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The reader would take this word for something else.
    #[error(
        "module index: {what} `{text}` is empty or contains white space or a control character"
    )]
    BadWord {
        /// Which kind of word.
        what: &'static str,
        text: String,
    },
    /// More than the reader accepts.
    #[error("module index: {what} is over the limit of {limit}")]
    OverLimit {
        /// Which limit.
        what: &'static str,
        limit: usize,
    },
    /// The reader rejects the text.
    #[error("module index: the written text cannot be read back: {0}")]
    Unreadable(#[from] ParseError),
}

impl IndexContent {
    /// Parses an index text. For any text it returns the content or an error with
    /// the line number of the first fault.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > MAX_INDEX_BYTES {
            return Err(ParseError::TooLarge { found: text.len() });
        }
        let mut reader = Reader::default();
        let mut last = 0;
        for (number, line) in (1..).zip(text.split_terminator('\n')) {
            last = number;
            reader
                .line(number, line)
                .map_err(|fault| ParseError::Line {
                    line: number,
                    fault,
                })?;
        }
        reader
            .finish(last + 1)
            .map_err(|(line, fault)| ParseError::Line { line, fault })
    }

    /// Writes a text that [`IndexContent::parse`] reads back as the same content.
    /// The text is read back before it is returned, so init accepts every text that
    /// a builder ships. Fails if this format cannot hold the content.
    pub fn to_text(&self) -> Result<String, WriteError> {
        if self.modules.len() > MAX_MODULES {
            return Err(WriteError::OverLimit {
                what: "number of modules",
                limit: MAX_MODULES,
            });
        }
        let mut out = format!(
            "{MAGIC} {FORMAT_VERSION}\nkernel {}\n",
            word("kernel release", &self.kernel_release)?
        );
        for built_in in &self.built_in {
            let _ = writeln!(out, "builtin {}", word("built-in module", &built_in.name)?);
            write_aliases(&mut out, &built_in.aliases)?;
        }
        for module in &self.modules {
            let (name, path) = (
                word("module name", &module.name)?,
                word("module path", &module.path)?,
            );
            let _ = writeln!(out, "module {name} {path}");
            for (key, names) in [
                ("needs", &module.needs),
                ("before", &module.softdeps_before),
                ("after", &module.softdeps_after),
            ] {
                if names.is_empty() {
                    continue;
                }
                out.push_str(key);
                for name in names {
                    let _ = write!(out, " {}", word("module name", name)?);
                }
                out.push('\n');
            }
            write_aliases(&mut out, &module.aliases)?;
        }
        out.push_str("end\n");
        Self::parse(&out)?;
        Ok(out)
    }
}

fn write_aliases(out: &mut String, aliases: &[String]) -> Result<(), WriteError> {
    for alias in aliases {
        if !is_alias(alias) {
            return Err(WriteError::BadWord {
                what: "alias",
                text: alias.clone(),
            });
        }
        let _ = writeln!(out, "alias {alias}");
    }
    Ok(())
}

fn word<'a>(what: &'static str, text: &'a str) -> Result<&'a str, WriteError> {
    if is_word(text) {
        Ok(text)
    } else {
        Err(WriteError::BadWord {
            what,
            text: text.to_owned(),
        })
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())
}

/// An alias may contain spaces: a few hand-written `dmi:` aliases do.
fn is_alias(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// What the parser knows after the lines so far.
#[derive(Default)]
struct Reader {
    state: State,
    content: IndexContent,
    names: HashSet<String>,
    /// Line and name of every hard dependency. They are checked when all modules
    /// are known.
    needed: Vec<(usize, String)>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Version,
    Kernel,
    Entries,
    InBuiltIn,
    InModule,
    Ended,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.len() > MAX_LINE_BYTES {
            return Err(format!(
                "expected at most {MAX_LINE_BYTES} bytes, found {}",
                line.len()
            ));
        }
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match (self.state, key) {
            (State::Version, MAGIC) => self.version(value),
            (State::Version, _) => Err(format!(
                "expected `{MAGIC} {FORMAT_VERSION}`, found `{}`",
                shorten(line)
            )),
            (State::Kernel, "kernel") => {
                self.content.kernel_release = checked_word("kernel release", value)?;
                self.state = State::Entries;
                Ok(())
            }
            (State::Kernel, _) => Err(format!(
                "expected `kernel RELEASE`, found `{}`",
                shorten(line)
            )),
            (State::Ended, _) => Err(format!(
                "expected nothing after `end`, found `{}`",
                shorten(line)
            )),
            (_, "end") if value.is_empty() => {
                self.state = State::Ended;
                Ok(())
            }
            (_, "builtin") => self.built_in(value),
            (_, "module") => self.module(value),
            (State::InModule | State::InBuiltIn, "alias") => self.alias(value),
            (State::InModule, "needs" | "before" | "after") => self.names(number, key, value),
            (_, "needs" | "before" | "after" | "alias") => {
                Err(format!("expected a `module` line before `{key}`"))
            }
            _ => Err(format!("unknown line `{}`", shorten(line))),
        }
    }

    /// `line` is the number of the line after the last one.
    fn finish(self, line: usize) -> Result<IndexContent, (usize, String)> {
        if self.state != State::Ended {
            return Err((
                line,
                "expected `end`, found the end of the text: it is cut off".to_owned(),
            ));
        }
        for (line, name) in self.needed {
            if !self.names.contains(module_name::normalise(&name).as_ref()) {
                return Err((
                    line,
                    format!(
                        "needed module `{}` is neither listed nor built in",
                        shorten(&name)
                    ),
                ));
            }
        }
        Ok(self.content)
    }

    fn version(&mut self, value: &str) -> Result<(), String> {
        if value != FORMAT_VERSION.to_string() {
            return Err(format!(
                "expected format version {FORMAT_VERSION}, found `{}`",
                shorten(value)
            ));
        }
        self.state = State::Kernel;
        Ok(())
    }

    fn built_in(&mut self, value: &str) -> Result<(), String> {
        let name = self.new_name("built-in module", value)?;
        self.content.built_in.push(BuiltIn {
            name,
            aliases: Vec::new(),
        });
        self.state = State::InBuiltIn;
        Ok(())
    }

    fn module(&mut self, value: &str) -> Result<(), String> {
        let (name, path) = value
            .split_once(' ')
            .ok_or("expected `module NAME PATH`, found no path")?;
        if self.content.modules.len() == MAX_MODULES {
            return Err(format!(
                "expected at most {MAX_MODULES} modules, found one more"
            ));
        }
        let name = self.new_name("module name", name)?;
        let path = checked_word("module path", path)?;
        // Root opens this path below /lib/modules, so it must not lead out of
        // there.
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(format!(
                "expected a path below the module directory, found `{}`",
                shorten(&path)
            ));
        }
        self.content.modules.push(Module {
            name,
            path,
            ..Module::default()
        });
        self.state = State::InModule;
        Ok(())
    }

    fn alias(&mut self, value: &str) -> Result<(), String> {
        if !is_alias(value) {
            return Err(format!(
                "expected an alias without control characters, found `{}`",
                shorten(value)
            ));
        }
        let aliases = match self.state {
            State::InModule => self.content.modules.last_mut().map(|m| &mut m.aliases),
            _ => self.content.built_in.last_mut().map(|b| &mut b.aliases),
        };
        aliases
            .ok_or("expected a `module` line before `alias`")?
            .push(value.to_owned());
        Ok(())
    }

    fn names(&mut self, number: usize, key: &str, value: &str) -> Result<(), String> {
        let names: Vec<String> = value
            .split(' ')
            .map(|name| checked_word("module name", name))
            .collect::<Result<_, _>>()?;
        if key == "needs" {
            self.needed
                .extend(names.iter().map(|name| (number, name.clone())));
        }
        let module = self
            .content
            .modules
            .last_mut()
            .ok_or("expected a `module` line before the names")?;
        let list = match key {
            "needs" => &mut module.needs,
            "before" => &mut module.softdeps_before,
            _ => &mut module.softdeps_after,
        };
        if !list.is_empty() {
            return Err(format!(
                "expected one `{key}` line for module `{}`, found a second",
                module.name
            ));
        }
        *list = names;
        Ok(())
    }

    fn new_name(&mut self, what: &str, name: &str) -> Result<String, String> {
        let name = checked_word(what, name)?;
        if module_name::normalise(&name) != name {
            return Err(format!(
                "expected {what} with `_` for `-`, found `{}`",
                shorten(&name)
            ));
        }
        if !self.names.insert(name.clone()) {
            return Err(format!("{what} `{}` is listed twice", shorten(&name)));
        }
        Ok(name)
    }
}

fn checked_word(what: &str, text: &str) -> Result<String, String> {
    if is_word(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "expected {what} without blanks, found `{}`",
            shorten(text)
        ))
    }
}

/// Enough of a wrong text to find it, but not enough to flood a console.
fn shorten(text: &str) -> String {
    text.chars()
        .take(60)
        .flat_map(char::escape_default)
        .collect()
}

#[cfg(test)]
mod tests;
