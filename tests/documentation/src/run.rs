//! Runs the commands of a page in a directory, as a reader would.

mod any_numbers;
mod service;

use std::fs;
use std::path::Path;
use std::process::Command;

use any_numbers::with_any_numbers;
use anyhow::{Context as _, Result};
use service::Service;

use crate::blocks::{Block, Use};
use crate::commands::{Step, calls, lines_of, steps_of, transcript};
use crate::page::repository;

/// Runs the commands of one program in one directory.
pub struct Reader<'a> {
    pub directory: &'a Path,
    /// The program whose commands run. The page's other programs run in other tests.
    pub program: &'a str,
    /// The value of `PATH` for the commands.
    pub path: String,
}

impl Reader<'_> {
    /// Runs the blocks of a page in their order. Returns how many commands ran, and
    /// what differed from the page.
    pub fn follow(&self, blocks: &[Block]) -> Result<(usize, Vec<String>)> {
        let mut count = 0;
        let mut differences = Vec::new();
        let mut services: Vec<Service> = Vec::new();
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
                Use::Service(files) => {
                    self.copy(block, files)?;
                    for step in steps_of(&block.text, self.program) {
                        count += 1;
                        if services.is_empty() {
                            let (service, fault) = self.serve(block, &step)?;
                            services.push(service);
                            differences.extend(fault);
                        } else {
                            differences.extend(self.difference(block, &step)?);
                        }
                    }
                }
                Use::Client if !services.is_empty() => {
                    for step in transcript(&block.text) {
                        count += 1;
                        differences.extend(self.difference(block, &step)?);
                    }
                }
                _ => {}
            }
        }
        drop(services);
        self.remove_directories(blocks)?;
        Ok((count, differences))
    }

    /// Copies the files of the repository that a block names into the directory. If a
    /// name is that of a directory, copies the directory with its files.
    fn copy(&self, block: &Block, files: &[String]) -> Result<()> {
        for file in files {
            self.copy_one(file)
                .with_context(|| format!("{}: with: {file}", block.place()))?;
        }
        Ok(())
    }

    fn copy_one(&self, file: &str) -> Result<()> {
        let source = repository().join(file);
        let target = self.directory.join(name_of(file));
        if !source.is_dir() {
            fs::write(target, fs::read(source)?)?;
            return Ok(());
        }
        fs::create_dir_all(&target)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            fs::write(target.join(entry.file_name()), fs::read(entry.path())?)?;
        }
        Ok(())
    }

    /// Removes the directories that [`Self::copy`] has made for services, because another
    /// page may make a directory of the same name.
    fn remove_directories(&self, blocks: &[Block]) -> Result<()> {
        for block in blocks {
            let Use::Service(files) = &block.used else {
                continue;
            };
            for file in files.iter().filter(|file| repository().join(file).is_dir()) {
                let copied = self.directory.join(name_of(file));
                if copied.exists() {
                    fs::remove_dir_all(copied)?;
                }
            }
        }
        Ok(())
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .env("PATH", &self.path)
            .env_remove("SOURCE_DATE_EPOCH")
            .current_dir(self.directory);
        command
    }

    fn shell(&self, script: &str) -> Result<(bool, String)> {
        let output = self.command(script).output().context("sh")?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.success(), printed))
    }

    /// Starts a service. The second value is what differs from the page.
    fn serve(&self, block: &Block, step: &Step) -> Result<(Service, Option<String>)> {
        let mut command = self.command(&format!("exec {}", step.command));
        let is_shown = |printed: &str| is_similar(&step.output, printed);
        let (service, printed) = Service::start(&mut command, is_shown)?;
        let fault = printed.map(|printed| different(block, step, "prints", &printed));
        Ok((service, fault))
    }

    fn fault(&self, block: &Block, script: &str, shown: &str) -> Result<Option<String>> {
        let (is_good, printed) = self.shell(script)?;
        Ok((!is_good).then(|| format!("{}: {shown} fails:\n{printed}", block.place())))
    }

    fn difference(&self, block: &Block, step: &Step) -> Result<Option<String>> {
        let (is_good, printed) = self.shell(&step.command)?;
        // A line `...` may stand for the reason why the command failed.
        let is_expected = is_good || step.output.contains("FAILED");
        let is_same = is_expected
            && match block.used {
                Use::Service(_) | Use::Client => is_similar(&step.output, &printed),
                _ => is_as_shown(&step.output, &printed),
            };
        let does = match is_good {
            true => "prints",
            false => "fails and prints",
        };
        Ok((!is_same).then(|| different(block, step, does, &printed)))
    }
}

fn different(block: &Block, step: &Step, does: &str, printed: &str) -> String {
    format!(
        "{}: {} {does}:\n{printed}but the page shows:\n{}",
        block.place(),
        step.command,
        step.output
    )
}

/// The last part of a path.
fn name_of(file: &str) -> &Path {
    let name = Path::new(file).file_name();
    name.map_or(Path::new(file), Path::new)
}

/// Like [`is_as_shown`], but numbers, ids and dates may differ.
fn is_similar(shown: &str, printed: &str) -> bool {
    is_as_shown(&with_any_numbers(shown), &with_any_numbers(printed))
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

    /// Follows a transcript with commands of the program `head`, which every machine has.
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
    fn a_service_runs_until_the_end_of_the_page() {
        let directory = tempfile::tempdir().unwrap();
        let reader = Reader {
            directory: directory.path(),
            program: "sh",
            path: std::env::var("PATH").unwrap(),
        };
        let block = |used: Use, text: &str| Block {
            page: "a.md".to_owned(),
            line: 3,
            used,
            text: text.to_owned(),
        };
        let folder = "tests/documentation/examples/image-service/hosts".to_owned();
        let service = "$ sh -c 'ls hosts; echo $$ > id; echo [  1.5s] up; exec sleep 1000'\n\
                       node1.yaml\nnode2.yaml\n[ 10.2s] up\n";
        let is_alive = "$ kill -0 $(cat id) && echo 30 seconds\n7 seconds\n";
        let (count, differences) = reader
            .follow(&[
                block(Use::Client, "$ false\n"),
                block(Use::Service(vec![folder]), service),
                block(Use::Client, is_alive),
            ])
            .unwrap();
        assert_eq!(count, 2);
        assert!(differences.is_empty(), "{differences:?}");
        assert!(!directory.path().join("hosts").exists());
        let id = fs::read_to_string(directory.path().join("id")).unwrap();
        assert!(!Path::new("/proc").join(id.trim()).exists());
    }

    #[test]
    fn a_service_that_prints_something_else_is_a_difference() {
        let directory = tempfile::tempdir().unwrap();
        let reader = Reader {
            directory: directory.path(),
            program: "sh",
            path: std::env::var("PATH").unwrap(),
        };
        let block = Block {
            page: "a.md".to_owned(),
            line: 3,
            used: Use::Service(Vec::new()),
            text: "$ sh -c 'echo down'\nup\n".to_owned(),
        };
        let (_, differences) = reader.follow(&[block]).unwrap();
        assert!(
            differences[0].contains("prints:\ndown\n"),
            "{differences:?}"
        );
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
