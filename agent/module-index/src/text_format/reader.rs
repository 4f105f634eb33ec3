//! Parses an index text line by line.

use std::collections::HashSet;
use std::fmt;

use super::{
    FORMAT_VERSION, MAGIC, MAX_INDEX_BYTES, MAX_LINE_BYTES, MAX_MODULES, ParseError, is_alias,
    is_word,
};
use crate::content::{BuiltIn, IndexContent, Module};
use crate::module_name;

impl IndexContent {
    /// Parses an index text. For any input, returns the content or an error with the line
    /// number of the first fault.
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
}

/// The state of the parser after the lines that it has read.
#[derive(Default)]
struct Reader {
    state: State,
    content: IndexContent,
    names: HashSet<String>,
    /// Line and name of every hard dependency. The reader checks them at the end, when
    /// all modules are known.
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
            (State::Version, _) => expected(format!("`{MAGIC} {FORMAT_VERSION}`"), line),
            (State::Kernel, "kernel") => {
                self.content.kernel_release = checked_word("kernel release", value)?;
                self.state = State::Entries;
                Ok(())
            }
            (State::Kernel, _) => expected("`kernel RELEASE`", line),
            (State::Ended, _) => expected("nothing after `end`", line),
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

    /// Checks that the text is complete and lists every needed module. `line` is the
    /// number of the line after the last one.
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
            return expected(format!("format version {FORMAT_VERSION}"), value);
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
        // Init opens this path below /lib/modules as root, so the path must not lead out
        // of that directory.
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return expected("a path below the module directory", &path);
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
            return expected("an alias without control characters", value);
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
            return expected(format!("{what} with `_` for `-`"), &name);
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
        expected(format!("{what} without blanks"), text)
    }
}

fn expected<T>(what: impl fmt::Display, found: &str) -> Result<T, String> {
    Err(format!("expected {what}, found `{}`", shorten(found)))
}

/// Shortens an invalid text for the error message. The text stays long enough to find
/// its place, but does not flood a console.
fn shorten(text: &str) -> String {
    text.chars()
        .take(60)
        .flat_map(char::escape_default)
        .collect()
}
