//! Reads the fenced code blocks of a page, and what their info string says about them.
//!
//! The info string follows the three backquotes. Readers see only its first word, the
//! language.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::page::Page;

/// What the forms of an info string mean, for the message of a failed test.
pub const FORMS: &str = "the forms of a fence:
  sh                      commands; tests run those of landfall-agent and landfall-image
                          at the start of a line, and there is at least one
  sh script               a script that a test runs as a whole
  console                 commands after `# ` or `$ `, and their exact output; a test runs those of
                          landfall-agent and landfall-image, of which there is at least one, and
                          those of other programs after them. A line `...` stands for any lines
  sh|console with: PATH [PATH...]
                          the same; the commands find these files of the repository in their
                          directory, under the last part of the path
  console service with: PATH [PATH...]
                          a transcript whose first command is a service of ours: it runs until
                          the end of the page. Numbers, ids of versions and dates may differ
  console client          a transcript of other programs, with that service; the same may differ
  sh|console not-run: WHY commands that no test can run; a test checks the options of our programs,
                          and looks up the sentences below them, lines of the console and errors
                          in the source
  text                    lines that our programs print; a test looks them up in the source
  text in: FILE           lines of a file in the repository, which a test compares
  text not-quoted: WHY    anything else
  LANGUAGE                the content of a file
  LANGUAGE file=NAME      the same; commands that follow on this page find it under this name";

/// What a test does with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// Single commands, and the files of the repository that they need.
    Commands(Vec<String>),
    Script,
    /// Commands with their output, and the files of the repository that they need.
    Transcript(Vec<String>),
    /// A transcript whose first command is a service that runs until the end of the page,
    /// and the files of the repository that the commands need.
    Service(Vec<String>),
    /// Commands of other programs with their output, while the page's service runs.
    Client,
    /// Commands that no test can run.
    NotRun,
    /// Commands that no test can run, with their output.
    NotRunTranscript,
    /// Output of our programs.
    Quoted,
    /// Lines of the file with this path in the repository.
    InFile(String),
    Free,
    /// The content of a file, with its name if commands use it.
    File(Option<String>),
    /// None of [`FORMS`].
    Unknown,
}

/// One fenced block.
#[derive(Debug, Clone)]
pub struct Block {
    pub page: String,
    /// The line of its opening fence, from 1.
    pub line: usize,
    pub used: Use,
    pub text: String,
}

impl Block {
    /// The place of the block, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }
}

fn use_of(info: &str) -> Use {
    let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
    let rest = rest.trim();
    let has_reason = |prefix: &str| {
        rest.strip_prefix(prefix)
            .is_some_and(|why| !why.trim().is_empty())
    };
    let service = match language {
        "console" => rest.strip_prefix("service "),
        _ => None,
    };
    let list = service.unwrap_or(rest);
    let list = list.strip_prefix("with: ").unwrap_or_default();
    let files: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
    let is_run = rest.is_empty() || !files.is_empty();
    match (language, rest) {
        ("sh", _) if is_run => Use::Commands(files),
        ("sh", "script") => Use::Script,
        ("console", "client") => Use::Client,
        ("console", _) if service.is_some() && is_run => Use::Service(files),
        ("console", _) if is_run => Use::Transcript(files),
        ("sh", _) if has_reason("not-run: ") => Use::NotRun,
        ("console", _) if has_reason("not-run: ") => Use::NotRunTranscript,
        ("text", "") => Use::Quoted,
        ("text", _) if has_reason("in: ") => Use::InFile(rest[4..].trim().to_owned()),
        ("text", _) if has_reason("not-quoted: ") => Use::Free,
        ("" | "sh" | "console" | "text", _) => Use::Unknown,
        (_, "") => Use::File(None),
        (_, _) => match rest.strip_prefix("file=") {
            Some(name) if !name.contains(' ') => Use::File(Some(name.to_owned())),
            _ => Use::Unknown,
        },
    }
}

/// The fenced blocks of a page.
pub fn blocks(page: &Page) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_inside = false;
    let events = Parser::new_ext(&page.text, Options::ENABLE_TABLES).into_offset_iter();
    for (event, range) in events {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                is_inside = true;
                found.push(Block {
                    page: page.name.clone(),
                    line: page.text[..range.start].matches('\n').count() + 1,
                    used: use_of(&info),
                    text: String::new(),
                });
            }
            Event::End(TagEnd::CodeBlock) => is_inside = false,
            Event::Text(text) if is_inside => {
                if let Some(block) = found.last_mut() {
                    block.text.push_str(&text);
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_info_string_says_what_a_block_is() {
        let files = || vec!["a/b.yaml".to_owned(), "c.ign".to_owned()];
        for (info, used) in [
            ("sh", Use::Commands(Vec::new())),
            ("sh script", Use::Script),
            ("console", Use::Transcript(Vec::new())),
            ("sh with: a/b.yaml  c.ign", Use::Commands(files())),
            ("console with: a/b.yaml c.ign", Use::Transcript(files())),
            ("console with:", Use::Unknown),
            (
                "console service with: a/b.yaml c.ign",
                Use::Service(files()),
            ),
            ("console service", Use::Unknown),
            ("sh service with: a/b.yaml", Use::Unknown),
            ("console client", Use::Client),
            ("sh script with: a/b.yaml", Use::Unknown),
            ("text with: a/b.yaml", Use::Unknown),
            ("sh not-run: needs a cluster", Use::NotRun),
            ("console not-run: needs a cluster", Use::NotRunTranscript),
            ("console not-run:", Use::Unknown),
            ("text", Use::Quoted),
            ("text in: a/b.screen", Use::InFile("a/b.screen".to_owned())),
            ("text not-quoted: a drawing", Use::Free),
            ("", Use::Unknown),
            ("yaml", Use::File(None)),
            ("yaml file=a.yaml", Use::File(Some("a.yaml".to_owned()))),
            ("yaml a.yaml", Use::Unknown),
        ] {
            assert_eq!(use_of(info), used, "{info}");
        }
    }
}
