//! Reads the journal of a live system with journalctl(1). There the agent is one
//! service of many, and the services that it starts log more than the agent itself.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// The maximum number of lines. If the lines together are longer than a member of the
/// archive may be, the archive drops the first lines.
const MOST_LINES: usize = 40_000;
const BYTES: u64 = 16 << 20;
/// The minimum size in bytes. Landfall treats shorter output as a failure of journalctl,
/// as Ironic's agent does.
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
        let mut bytes = Vec::new();
        // Use the output that was read before an error.
        let _ = output.take(BYTES).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    let bytes = receiver.recv_timeout(LIMIT).unwrap_or_default();
    // End journalctl, which may still be writing.
    let _ = child.kill();
    let _ = child.wait();
    (bytes.len() >= SHORTEST).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_output_with_the_size_of_a_journal_is_used() {
        let output_of = |script: &str| run(Command::new("sh").args(["-c", script]));
        assert_eq!(output_of("echo No journal files were found."), None);
        let long = "x".repeat(SHORTEST);
        assert_eq!(output_of(&format!("printf {long}")), Some(long));
        assert_eq!(run(&mut Command::new("/nowhere/journalctl")), None);
    }
}
