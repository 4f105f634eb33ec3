//! The journal of a live system, as its own journalctl(1) tells it: there the
//! agent is one service of many, and what it has started says more.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// More than an archive takes of one member; what is cut off is its beginning.
const MOST_LINES: usize = 40_000;
const BYTES: u64 = 16 << 20;
/// The original takes a shorter one for a failure of journalctl.
const SHORTEST: usize = 50;
/// A journal on a slow console takes a few seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The last lines of this boot, at most `most`. `None` if it cannot be read.
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
        // What was read before an error is worth having.
        let _ = output.take(BYTES).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    let bytes = receiver.recv_timeout(LIMIT).unwrap_or_default();
    // It may have more to say, or nothing any more.
    let _ = child.kill();
    let _ = child.wait();
    (bytes.len() >= SHORTEST).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_journal() {
        let said = |script: &str| run(Command::new("sh").args(["-c", script]));
        assert_eq!(said("echo No journal files were found."), None);
        let long = "x".repeat(SHORTEST);
        assert_eq!(said(&format!("printf {long}")), Some(long));
        assert_eq!(run(&mut Command::new("/nowhere/journalctl")), None);
    }
}
