//! Reads every kernel argument that the documentation shows: the rows of its tables, and
//! the examples on all pages.

mod template;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// Prefixes of the names that are Landfall's arguments wherever they appear.
const OURS: [&str; 3] = ["coreos.inst.", "landfall.", "ipa-"];
const SETTINGS: &str = "| argument | option in files | default | meaning |";
const TABLE: &str = "| argument | meaning |";
/// This page is left out because it is made from the texts of the programs, which quote
/// parts of arguments.
const LEFT_OUT: &str = "messages.md";

/// A kernel command line, and where it is documented.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Documented {
    pub line: String,
    pub place: String,
}

/// Every documented argument: its name, and command lines that give it a value.
#[derive(Debug, Default)]
pub struct Arguments {
    pub names: BTreeSet<String>,
    pub lines: BTreeSet<Documented>,
}

impl Arguments {
    /// # Errors
    /// If a page cannot be read or has a placeholder without a known value, or if no page
    /// has a table of arguments.
    pub fn read() -> Result<Self> {
        let mut pages = vec![root().join("README.md")];
        pages_below(&root().join("docs"), &mut pages)?;
        let mut texts = Vec::new();
        for path in pages {
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| path.display().to_string())?;
            let path = path.strip_prefix(root())?.display().to_string();
            texts.push((path, text));
        }
        let mut found = Self::default();
        for (path, text) in &texts {
            found.names_of_tables(text);
            found.settings(path, text)?;
        }
        ensure!(!found.names.is_empty(), "found no table of arguments");
        let methods: Vec<String> = texts.iter().flat_map(|(_, text)| methods(text)).collect();
        for (path, text) in &texts {
            for (number, code) in code(text) {
                found.words(&format!("{path}:{number}"), &code, &methods)?;
            }
        }
        Ok(found)
    }

    /// The argument names that appear in no documented command line.
    #[must_use]
    pub fn without_a_line(&self) -> Vec<&str> {
        let shown: BTreeSet<&str> = { self.lines.iter() }
            .flat_map(|documented| documented.line.split(' '))
            .map(name)
            .collect();
        let names = self.names.iter().map(String::as_str);
        names.filter(|name| !shown.contains(name)).collect()
    }

    fn names_of_tables(&mut self, text: &str) {
        for head in [SETTINGS, TABLE] {
            for cells in rows(text, head) {
                let spans = cells.first().map(|cell| spans(cell)).unwrap_or_default();
                self.names
                    .extend(spans.iter().map(|span| name(span).to_owned()));
            }
        }
    }

    /// Adds a command line for each setting with its default, or with 1 if it has none,
    /// and one for each value in a code span of the column `meaning`.
    fn settings(&mut self, path: &str, text: &str) -> Result<()> {
        for cells in rows(text, SETTINGS) {
            let [argument, _option, default, meaning] = cells.as_slice() else {
                continue;
            };
            let Some(argument) = spans(argument).pop() else {
                continue;
            };
            let default = spans(default).pop().unwrap_or_else(|| "1".to_owned());
            let named = spans(meaning).into_iter();
            let named = named.filter(|value| !value.contains(' ') && !value.starts_with("ipa-"));
            for value in named.chain([default]) {
                let place = format!("{path}, {argument}");
                for line in template::expand(&format!("{argument}={value}"), &Vec::new())
                    .with_context(|| place.clone())?
                {
                    let place = place.clone();
                    self.lines.insert(Documented { line, place });
                }
            }
        }
        Ok(())
    }

    /// Adds the arguments in a code span or in a line of an example. Adds one command
    /// line for each combination of the ways to write the arguments (see
    /// [`template::expand`]).
    fn words(&mut self, place: &str, code: &str, methods: &[String]) -> Result<()> {
        let words = code.split_whitespace();
        let words = words.map(|word| word.trim_matches(['"', '\'', ',', ';', '\\']));
        let words: Vec<&str> = words.filter(|word| self.is_argument(word)).collect();
        let mut lines = vec![Vec::new()];
        for word in words {
            let written = template::expand(word, methods).with_context(|| place.to_owned())?;
            lines = { lines.iter() }
                .flat_map(|line: &Vec<String>| {
                    written
                        .iter()
                        .map(|word| [&line[..], std::slice::from_ref(word)].concat())
                })
                .collect();
        }
        for line in lines.into_iter().filter(|line| !line.is_empty()) {
            self.lines.insert(Documented {
                line: line.join(" "),
                place: place.to_owned(),
            });
        }
        Ok(())
    }

    /// Whether a word is an argument with its value, or one of the flags of the tables.
    /// Words such as `ip=` only name an argument. A word with `$` has a variable of a
    /// script. A word that ends with a dot, a colon or a bracket is incomplete, unless
    /// it ends as a list does.
    fn is_argument(&self, word: &str) -> bool {
        let is_known = self.names.contains(name(word));
        let is_list = word.ends_with("]...") || word.ends_with(",...");
        let is_cut = word.ends_with(['=', ')', ':', '.']) && !is_list;
        match word.contains('=') {
            // A flag without a dot can also be an ordinary word on another page.
            false => is_known && word.contains('.'),
            true => {
                (is_known || OURS.iter().any(|ours| word.starts_with(ours)))
                    && !is_cut
                    && !word.contains('$')
            }
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages_below(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages_below(&path, pages)?;
        } else if path.extension().is_some_and(|ending| ending == "md")
            && path.file_name().is_some_and(|name| name != LEFT_OUT)
        {
            pages.push(path);
        }
    }
    Ok(())
}

fn name(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(name, _)| name)
}

/// The code spans in a line of Markdown.
fn spans(line: &str) -> Vec<String> {
    let parts = line.split('`').skip(1).step_by(2);
    parts.map(|span| span.replace("\\|", "|")).collect()
}

/// The cells of each row of the tables that have `head` as their first line.
fn rows(text: &str, head: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut is_below = false;
    for line in text.lines() {
        is_below = line == head || (is_below && line.starts_with('|'));
        if is_below && line != head && !line.starts_with("|---") {
            // A bar within code has a backslash.
            let line = line.replace("\\|", "\0");
            let cells = line.trim_matches('|').split('|');
            rows.push(cells.map(|cell| cell.trim().replace('\0', "\\|")).collect());
        }
    }
    rows
}

/// The values for METHOD of `ip=`, from the table in the documentation.
fn methods(text: &str) -> Vec<String> {
    let rows = rows(text, "| METHOD | IPv4 | IPv6 |");
    rows.iter().flat_map(|cells| spans(&cells[0])).collect()
}

/// The code spans and the lines of code blocks, each with its line number. Lines that
/// end with a backslash are joined, with the number of the last one.
pub(crate) fn code(text: &str) -> Vec<(usize, String)> {
    let mut code = Vec::new();
    let mut is_block = false;
    let mut joined = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            joined += line;
            // The shell joins a line that ends with a backslash and the next line.
            if joined.ends_with('\\') {
                joined.push(' ');
            } else {
                code.push((number, std::mem::take(&mut joined)));
            }
        } else {
            code.extend(spans(line).into_iter().map(|span| (number, span)));
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_argument_has_a_line() {
        let found = Arguments::read().unwrap();
        assert_eq!(found.without_a_line(), [""; 0]);
        assert!(found.lines.len() > 200, "{}", found.lines.len());
        for line in [
            "ipa-api-url=mdns",
            "landfall.console=quiet",
            "coreos.inst.stream=stable",
            "coreos.inst.insecure",
            "rd.net.dhcp.dscp=CS6",
            "ip=dhcp,dhcp6",
            // networks.md
            "bond=bond0:eno1,eno2:mode=active-backup,miimon=100 ip=bond0:dhcp",
        ] {
            let is_there = found.lines.iter().any(|documented| documented.line == line);
            assert!(is_there, "{line}");
        }
    }

    #[test]
    fn words_that_count_as_arguments() {
        let mut found = Arguments::default();
        found
            .names
            .extend(["ip", "coreos.inst.insecure"].map(str::to_owned));
        for (code, expected) in [
            (
                "a --karg ip=dhcp \\  --karg ipa-debug=1",
                "ip=dhcp ipa-debug=1",
            ),
            ("coreos.inst.insecure", "coreos.inst.insecure"),
            ("\"ip=[2001:db8::1]::\"", ""),
            ("ip=", ""),
            ("ip=$address ip=192.0.2.1::...", ""),
            ("landfall.iso", ""),
            ("ip", ""),
        ] {
            found.lines.clear();
            found.words("page:1", code, &Vec::new()).unwrap();
            let lines = found.lines.iter().map(|found| found.line.as_str());
            assert_eq!(lines.collect::<String>(), expected, "{code}");
        }
        let unknown = found.words("page:1", "ip=FOO", &Vec::new());
        assert!(format!("{:#}", unknown.unwrap_err()).contains("page:1: FOO in ip=FOO"));
    }
}
