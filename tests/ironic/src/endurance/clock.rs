//! Clocks that jump.
//!
//! No namespace of Linux has a wall clock of its own, and the agent is a static
//! program, so it ignores preloaded libraries. An agent whose clock jumps therefore
//! runs in QEMU's user mode. QEMU turns the agent's system calls into calls of QEMU's C
//! library, which is preloaded with libfaketime. The monotonic clock does not jump.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The offsets of the clock, one after the other.
const OFFSETS: [&str; 4] = ["+0", "+3650d", "+0", "-3650d"];
const PAUSE: Duration = Duration::from_secs(20);

/// The path of the file with the offset, as a machine sees it.
pub const ON_MACHINE: &str = "/dev/.clock";

/// QEMU's user mode, which runs the agent with a clock of its own.
pub const RUNNER: &str = "/usr/bin/qemu-x86_64";

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// The environment of [`RUNNER`].
pub const ENVIRONMENT: [(&str, &str); 4] = [
    ("LD_PRELOAD", LIBRARY),
    ("FAKETIME_TIMESTAMP_FILE", ON_MACHINE),
    ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    // How many seconds libfaketime keeps an offset before it reads the file again.
    ("FAKETIME_CACHE_DURATION", "1"),
];

/// Makes the clocks jump until it is dropped.
pub struct JumpingClock {
    task: JoinHandle<()>,
}

impl JumpingClock {
    /// Writes the offset to this file, which the machines see as [`ON_MACHINE`].
    ///
    /// # Errors
    /// If QEMU or libfaketime is not installed, or the file cannot be written.
    pub fn start(file: PathBuf) -> Result<Self> {
        for path in [RUNNER, LIBRARY] {
            fs::metadata(path).with_context(|| format!("{path} (tests/setup.sh installs it)"))?;
        }
        fs::write(&file, OFFSETS[0])?;
        let task = tokio::spawn(async move {
            for offset in OFFSETS.iter().cycle() {
                // Overwrites the file instead of replacing it, because the machines
                // have a bind mount of this file.
                if fs::write(&file, offset).is_err() {
                    return;
                }
                sleep(PAUSE).await;
            }
        });
        Ok(Self { task })
    }
}

impl Drop for JumpingClock {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The year in a message of syslog: `<14>1 2026-11-24T11:22:33.456Z ...`.
#[must_use]
pub fn year(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once(' ')?;
    rest.get(..4)?.parse().ok()
}

/// Whether the years are so far apart that the clock jumped both ten years back and ten
/// years ahead. The difference can be one year less than 20 because 3650 days are less
/// than ten years.
#[must_use]
pub fn have_jumped(years: &BTreeSet<u16>) -> bool {
    let (first, last) = (years.first(), years.last());
    first
        .zip(last)
        .is_some_and(|(first, last)| last - first >= 19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_year_is_in_the_message() {
        let message = "<14>1 2036-11-24T11:22:33.456Z node7 landfall 123 disk - x";
        assert_eq!(year(message), Some(2036));
        assert_eq!(year("<14>1 - node7"), None);
        assert!(have_jumped(&BTreeSet::from([2016, 2026, 2036])));
        assert!(!have_jumped(&BTreeSet::from([2026, 2036])));
        assert!(!have_jumped(&BTreeSet::new()));
    }
}
