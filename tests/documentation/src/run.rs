//! Runs the commands of a page in a directory, as a reader would.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::blocks::{Block, Use};
use crate::commands::{Step, calls, lines_of, steps_of};
use crate::page::repository;

/// Where commands run, and which.
pub struct Reader<'a> {
    pub directory: &'a Path,
    /// The program whose commands run. The page's other programs run in other tests.
    pub program: &'a str,
    /// The directories of programs, before those of `PATH`.
    pub path: String,
}

impl Reader<'_> {
    /// Does what the blocks of a page say, in their order. Returns how many commands ran,
    /// and what differed from the page.
    pub fn follow(&self, blocks: &[Block]) -> Result<(usize, Vec<String>)> {
        let mut count = 0;
        let mut differences = Vec::new();
        for block in blocks {
            match &block.used {
                Use::File(Some(name)) => {
                    let path = self.directory.join(name);
                    if let Some(parent) = path.parent() {
                        fs::create_dir_all(parent)?;
                    }
                    fs::write(&path, &block.text).with_context(|| name.clone())?;
                }
                Use::Commands(files) => {
                    self.copy(block, files)?;
                    for line in lines_of(block, self.program) {
                        count += 1;
                        differences.extend(self.fault(block, &line, &line)?);
                    }
                }
                Use::Script if calls(&block.text, self.program) => {
                    count += 1;
                    let script = format!("set -eu\n{}", block.text);
                    differences.extend(self.fault(block, &script, "the script")?);
                }
                Use::Transcript(files) => {
                    self.copy(block, files)?;
                    for step in steps_of(&block.text, self.program) {
                        count += 1;
                        differences.extend(self.difference(block, &step)?);
                    }
                }
                _ => {}
            }
        }
        Ok((count, differences))
    }

    /// Copies the files of the repository that a block names into the directory.
    fn copy(&self, block: &Block, files: &[String]) -> Result<()> {
        for file in files {
            let name = Path::new(file).file_name().unwrap_or_default();
            fs::read(repository().join(file))
                .and_then(|content| fs::write(self.directory.join(name), content))
                .with_context(|| format!("{}: with: {file}", block.place()))?;
        }
        Ok(())
    }

    fn shell(&self, script: &str) -> Result<(bool, String)> {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .env("PATH", &self.path)
            .env_remove("SOURCE_DATE_EPOCH")
            .current_dir(self.directory)
            .output()
            .context("sh")?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.success(), printed))
    }

    fn fault(&self, block: &Block, script: &str, shown: &str) -> Result<Option<String>> {
        let (is_good, printed) = self.shell(script)?;
        Ok((!is_good).then(|| format!("{}: {shown} fails:\n{printed}", block.place())))
    }

    fn difference(&self, block: &Block, step: &Step) -> Result<Option<String>> {
        let (is_good, printed) = self.shell(&step.command)?;
        // A line `...` may stand for the reason why the command failed.
        let is_expected = is_good || step.output.contains("FAILED");
        let is_same = is_expected && is_as_shown(&step.output, &printed);
        Ok((!is_same).then(|| {
            format!(
                "{}: {} {}:\n{printed}but the page shows:\n{}",
                block.place(),
                step.command,
                if is_good {
                    "prints"
                } else {
                    "fails and prints"
                },
                step.output
            )
        }))
    }
}

/// Whether the output is the one on the page, where a line `...` stands for any lines.
fn is_as_shown(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.trim_end().to_owned())
            .collect()
    };
    let (shown, printed) = (lines(shown.trim_end()), lines(printed.trim_end()));
    let parts: Vec<&[String]> = shown.split(|line| line == "...").collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return true;
    };
    if parts.len() == 1 {
        return shown == printed;
    }
    if !printed.starts_with(first) {
        return false;
    }
    let mut rest = &printed[first.len()..];
    if !rest.ends_with(last) {
        return false;
    }
    rest = &rest[..rest.len() - last.len()];
    parts[1..parts.len() - 1].iter().all(|part| {
        let at = (0..=rest.len()).find(|&at| rest[at..].starts_with(part));
        at.is_some_and(|at| {
            rest = &rest[at + part.len()..];
            true
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows a transcript with commands of `head`, which is everywhere.
    fn follow(file: &str, text: &str) -> Result<(usize, Vec<String>)> {
        let directory = tempfile::tempdir()?;
        let reader = Reader {
            directory: directory.path(),
            program: "head",
            path: std::env::var("PATH")?,
        };
        reader.follow(&[Block {
            page: "a.md".to_owned(),
            line: 3,
            used: Use::Transcript(vec![file.to_owned()]),
            text: text.to_owned(),
        }])
    }

    #[test]
    fn commands_find_the_files_that_a_fence_names() {
        let text = "$ head -n 1 Cargo.toml\n[package]\n";
        let (count, differences) = follow("tests/documentation/Cargo.toml", text).unwrap();
        assert_eq!(count, 1);
        assert!(differences.is_empty(), "{differences:?}");
        let error = format!("{:#}", follow("no/such.toml", text).unwrap_err());
        assert!(error.starts_with("a.md:3: with: no/such.toml: "), "{error}");
    }

    #[test]
    fn a_failure_that_the_page_does_not_show_is_a_difference() {
        for (text, same) in [
            ("$ head Cargo.toml\n...\n", true),
            ("$ head missing\n...\n", false),
            (
                "$ head missing || { echo FAILED; false; }\n...\nFAILED\n",
                true,
            ),
        ] {
            let (_, differences) = follow("tests/documentation/Cargo.toml", text).unwrap();
            assert_eq!(differences.is_empty(), same, "{text}{differences:?}");
        }
    }

    #[test]
    fn lines_that_are_left_out_may_be_any() {
        for (shown, printed, same) in [
            ("a\nb\n", "a\nb\n", true),
            ("a\nb", "a\nc", false),
            ("a\n...\nd", "a\nb\nc\nd", true),
            ("a\n...\nd", "a\nb\nc", false),
            ("...\nc\n...\n", "a\nb\nc\nd", true),
            ("...\nx\n...\n", "a\nb\nc\nd", false),
            ("a\n...\nb\n", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(is_as_shown(shown, printed), same, "{shown:?} {printed:?}");
        }
    }
}
