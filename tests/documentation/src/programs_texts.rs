//! The texts that our programs can print: the string literals of their source.
//!
//! A quoted line is compared with each literal; a placeholder (`{name}`) stands for any
//! text. So a quote fails when somebody changes the words in the source.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::page::repository;

/// Where the sources of the programs are.
const SOURCES: [&str; 6] = [
    "agent",
    "image-build",
    "initramfs",
    "tests/bench",
    "tests/ironic",
    "tests/src",
];

/// A literal with fewer letters than this outside its placeholders proves nothing about
/// a line.
const FEWEST_LETTERS: usize = 8;
/// A literal with fewer words than this proves nothing about a line, unless it is at
/// least half of the line.
const FEWEST_WORDS: usize = 2;

/// All `.rs` files below the directory that are no tests.
pub fn source_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries = fs::read_dir(directory)
        .with_context(|| directory.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "tests" && name != "test_data" && name != "benches" {
                found.extend(source_files(&path)?);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && !is_build_script(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Whether cargo runs the file at build time: a `build.rs` elsewhere is a module.
fn is_build_script(path: &Path) -> bool {
    path.ends_with("build.rs") && path.with_file_name("Cargo.toml").exists()
}

/// The fixed parts of a format string, in their order.
pub(crate) fn fixed_parts(format: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = format.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '{' if characters.peek() == Some(&'{') => {
                characters.next();
                push(&mut parts, '{');
            }
            '}' if characters.peek() == Some(&'}') => {
                characters.next();
                push(&mut parts, '}');
            }
            '{' => {
                characters.by_ref().find(|&c| c == '}');
                parts.push(String::new());
            }
            c => push(&mut parts, c),
        }
    }
    parts
}

fn push(parts: &mut [String], c: char) {
    if let Some(last) = parts.last_mut() {
        last.push(c);
    }
}

/// The literals of our programs, as the fixed parts of each.
pub struct ProgramsTexts(Vec<Vec<String>>);

impl ProgramsTexts {
    /// Reads the sources.
    pub fn read() -> Result<Self> {
        let mut literals = Vec::new();
        for directory in SOURCES {
            for file in source_files(&repository().join(directory))? {
                let text = fs::read_to_string(&file)?;
                let tokens: TokenStream = text
                    .parse()
                    .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
                collect(tokens, &mut literals);
            }
        }
        Ok(Self::of(&literals))
    }

    pub(crate) fn of(literals: &[String]) -> Self {
        // Compare each line of a text on its own, because pages quote single lines.
        // Compare the remedy on its own, because a program may print it elsewhere.
        let lines = literals.iter().flat_map(|literal| literal.lines());
        let pieces = lines.flat_map(|line| line.split(" -- "));
        Self(pieces.map(fixed_parts).collect())
    }

    /// Whether a program can print this text, as a line or as a part of one.
    pub fn contain(&self, text: &str) -> bool {
        self.0.iter().any(|parts| occur(parts, text))
    }

    /// Whether each part of a console line comes from a program: the description of the
    /// event, and the remedy after `--`.
    pub fn contain_line(&self, line: &str) -> bool {
        without_head(line)
            .split(" -- ")
            .all(|part| self.contain(part))
    }
}

/// The text after the time of a console line: `[ 12.345] ` of the agent, `[ 0.5s] ` of
/// the builder.
pub(crate) fn after_time(line: &str) -> Option<&str> {
    let (time, rest) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
    let time = time.trim();
    let seconds = time.strip_suffix('s').unwrap_or(time);
    seconds.parse::<f64>().is_ok().then_some(rest)
}

/// The text of a console line `[   12.345] disk: warning: TEXT`.
fn without_head(line: &str) -> &str {
    let line = after_time(line).unwrap_or(line);
    let is_stage = |stage: &str| !stage.is_empty() && stage.bytes().all(|c| c.is_ascii_lowercase());
    let parts = line.split_once(": ").filter(|(stage, _)| is_stage(stage));
    let line = parts.map_or(line, |(_, rest)| rest);
    let line = line.strip_prefix("warning: ").unwrap_or(line);
    line.strip_prefix("FAILED ").unwrap_or(line)
}

/// Whether the text contains the parts of a literal in this order. The text may also be
/// inside one part: then the literal is a longer message, and the page quotes a part of
/// it.
fn occur(parts: &[String], text: &str) -> bool {
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
    let of_text = letters(text);
    if of_text >= FEWEST_LETTERS && parts.iter().any(|part| part.contains(text.trim())) {
        return true;
    }
    // A single word of the source is in many lines by chance.
    let total: usize = parts.iter().map(|part| letters(part)).sum();
    let words = parts.iter().flat_map(|part| part.split_whitespace());
    let words = words.filter(|word| letters(word) > 0).count();
    let is_long = total >= FEWEST_LETTERS && words >= FEWEST_WORDS;
    if total == 0 || !is_long && total * 2 < of_text {
        return false;
    }
    let mut rest = text;
    parts.iter().all(|part| {
        let part = part.trim();
        match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        }
    })
}

/// Adds the string literals, without documentation and the modules of tests.
fn collect(tokens: TokenStream, literals: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut is_test = false;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Literal(literal) => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    literals.push(text.value());
                }
            }
            TokenTree::Group(group) => {
                let is_attribute = index > 0
                    && group.delimiter() == Delimiter::Bracket
                    && matches!(&tokens[index - 1], TokenTree::Punct(c) if matches!(c.as_char(), '#' | '!'));
                if is_attribute {
                    let text = group.stream().to_string();
                    if text.replace(' ', "").starts_with("cfg(test)") {
                        is_test = true;
                    }
                    if text.starts_with("doc") {
                        continue;
                    }
                } else if is_test && group.delimiter() == Delimiter::Brace {
                    is_test = false;
                    continue;
                }
                collect(group.stream(), literals);
            }
            TokenTree::Punct(c) if c.as_char() == ';' => is_test = false,
            TokenTree::Punct(_) | TokenTree::Ident(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contain(source: &str, text: &str) -> bool {
        let mut literals = Vec::new();
        collect(source.parse().unwrap(), &mut literals);
        ProgramsTexts::of(&literals).contain_line(text)
    }

    #[test]
    fn a_remedy_in_the_same_literal_is_a_text_of_its_own() {
        let source =
            r#"fn a() { say(format!("{disk} is installed -- reset it to boot {system}")); }"#;
        for text in [
            "/dev/sda is installed",
            "/dev/sda is installed -- reset it to boot CoreOS",
            "reset it to boot CoreOS",
        ] {
            assert!(contain(source, text), "{text}");
        }
    }

    #[test]
    fn a_line_is_compared_without_its_placeholders() {
        let source = r#"fn a() { say(format!("no answer from {url}; again in {} s", 3)).hint("look at the cable"); }"#;
        for (text, is_there) in [
            ("warning: no answer from http://a; again in 1 s", true),
            (
                "no answer from http://a; again in 1 s -- look at the cable",
                true,
            ),
            (
                "no answer from http://a; again in 1 s -- look at a cable",
                false,
            ),
            ("no reply from http://a; again in 1 s", false),
            ("no answer from", true),
        ] {
            assert_eq!(contain(source, text), is_there, "{text}");
        }
    }

    #[test]
    fn a_word_alone_explains_no_line() {
        let source = r#"const A: &str = "partition";"#;
        assert!(!contain(
            source,
            "the partition table of the disk is broken"
        ));
        assert!(contain(source, "partition 3"));
    }

    #[test]
    fn documentation_and_tests_print_nothing() {
        for source in [
            "/// The cable is missing.\nfn a() {}",
            r#"#[cfg(test)] mod tests { fn a() { b("the cable is missing."); } }"#,
        ] {
            assert!(!contain(source, "The cable is missing."), "{source}");
        }
    }
}
