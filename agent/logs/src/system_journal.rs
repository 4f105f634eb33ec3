//! Reads the journal of a live system with journalctl(1). There the agent is one
//! service of many, and the services that it starts log more than the agent itself.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// The maximum number of lines. If the lines together are longer than a member of the
/// archive may be, the archive drops the first lines.
const MOST_LINES: usize = 40_000;
/// The newest lines that fit are kept.
const BYTES: usize = 16 << 20;
/// The minimum size in bytes. Shorter output is only a message such as `No journal files
/// were found.`, so it counts as a failure of journalctl.
const SHORTEST: usize = 50;
/// The time limit of journalctl, which takes a few seconds on a slow machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The last lines of this boot, at most `most` or else [`MOST_LINES`]. Returns `None` if
/// they cannot be read.
pub(super) fn read(most: Option<usize>) -> Option<String> {
    let lines = most.unwrap_or(MOST_LINES).to_string();
    run(Command::new("journalctl").args(["--no-pager", "--full", "--boot", "--lines", &lines]))
}

fn run(command: &mut Command) -> Option<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let output = child.stdout.take()?;
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        // Use the output that was read before an error.
        let _ = sender.send(last_bytes(output, BYTES));
    });
    let in_time = receiver.recv_timeout(LIMIT);
    // End journalctl, which may still be writing. Its output then ends, too.
    let _ = child.kill();
    let _ = child.wait();
    let bytes = in_time.or_else(|_| receiver.recv_timeout(LIMIT));
    let bytes = bytes.unwrap_or_default();
    (bytes.len() >= SHORTEST).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The last `most` bytes until the end of the input or the first error.
fn last_bytes(mut input: impl Read, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while input
        .by_ref()
        .take(most as u64)
        .read_to_end(&mut bytes)
        .is_ok_and(|read| read > 0)
    {
        bytes.drain(..bytes.len().saturating_sub(most));
    }
    bytes.drain(..bytes.len().saturating_sub(most));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_output_is_kept() {
        for (input, kept) in [
            ("", ""),
            ("abc", "abc"),
            ("abcdefgh", "fgh"),
            ("abcdef", "def"),
        ] {
            assert_eq!(last_bytes(input.as_bytes(), 3), kept.as_bytes());
        }
    }

    #[test]
    fn only_output_with_the_size_of_a_journal_is_used() {
        let output_of = |script: &str| run(Command::new("sh").args(["-c", script]));
        assert_eq!(output_of("echo No journal files were found."), None);
        let long = "x".repeat(SHORTEST);
        assert_eq!(output_of(&format!("printf {long}")), Some(long));
        assert_eq!(run(&mut Command::new("/nowhere/journalctl")), None);
    }
}
