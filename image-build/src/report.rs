//! Output for the user: data on standard output, messages on standard error.

use std::io::{ErrorKind, Write as _};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Reports the stages of one run, one line each, to a terminal and to a log alike.
pub(crate) struct Report {
    start: Instant,
    json: bool,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            start: Instant::now(),
            json,
        }
    }

    pub(crate) fn stage(&self, text: &str) {
        message(&format!(
            "[{:5.1}s] {text}",
            self.start.elapsed().as_secs_f64()
        ));
    }

    pub(crate) fn warnings(&self, warnings: &[String]) {
        for warning in warnings {
            warn(warning);
        }
    }

    /// Prints the result: JSON if the user asked for it, `text` otherwise.
    pub(crate) fn done(&self, summary: &impl Serialize, text: &str) -> Result<()> {
        let text = if self.json {
            &serde_json::to_string_pretty(summary)?
        } else {
            text
        };
        print(&format!("{text}\n"))
    }
}

/// Prints lines of data, for a command that continues afterwards.
pub(crate) fn print_lines(lines: &[String]) -> Result<()> {
    print(
        &lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
}

fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader such as `head` may close the pipe early, which is no fault.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// The last line of a failed run: the reason with all its causes.
pub(crate) fn failure(error: &anyhow::Error) {
    message(&format!("landfall-image: FAILED {error:#}"));
}

/// Reports the signal that ends the program.
pub(crate) fn interrupted(signal: &str) {
    message(&format!(
        "landfall-image: stopped by {signal}; temporary files are removed, no output was changed"
    ));
}

/// One line of progress, for a program without a [`Report`].
pub(crate) fn say(text: &str) {
    message(text);
}

pub(crate) fn warn(text: &str) {
    message(&format!("warning: {text}"));
}

/// Writes a line to standard error. Ignores errors, so that a closed standard
/// error does not end the work.
fn message(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A number with its noun in singular or plural: `1 file`, `2 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// A size such as `5.3 MB`. Megabytes are decimal, as for disks and downloads.
pub(crate) fn megabytes(bytes: u64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "one decimal of a megabyte is shown"
    )]
    let megabytes = bytes as f64 / 1e6;
    format!("{megabytes:.1} MB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_no_plural() {
        let texts = [0, 1, 2].map(|count| counted(count, "file"));
        assert_eq!(texts, ["0 files", "1 file", "2 files"]);
    }
}
