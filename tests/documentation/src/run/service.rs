//! A service of a page.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Longest wait for the output that a page shows, on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running service. It ends with the value.
pub(super) struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    /// Starts a service and waits until it has printed the expected output. If it
    /// prints something else, the second value is that output.
    pub(super) fn start(
        command: &mut Command,
        is_expected: impl Fn(&str) -> bool,
    ) -> Result<(Self, Option<String>)> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("sh")?;
        let output = child.stdout.take().context("no standard output")?;
        let service = Self(child);
        let (sender, lines) = mpsc::channel();
        // Read the output until the service ends: if nobody read it, the service would
        // block.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let end = Instant::now() + START;
        let mut printed = String::new();
        while !is_expected(&printed) {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                return Ok((service, Some(printed)));
            };
            printed.push_str(&line);
            printed.push('\n');
        }
        Ok((service, None))
    }
}
