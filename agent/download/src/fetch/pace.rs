//! Enforces a minimum speed of a download.

use std::time::{Duration, Instant};

use landfall_report::mib;

/// Number of bytes that count as progress and restart the time limits.
pub(super) const PROGRESS: u64 = 1 << 20;

/// Measures whether a connection is fast enough. Without this check, a server that sends
/// a single byte now and then would never time out and never finish.
pub(super) struct Pace {
    window: Duration,
    since: Instant,
    bytes: u64,
}

/// The connection is too slow. The download continues with a new connection; check the
/// link and the image server if this repeats.
#[derive(Debug, thiserror::Error)]
#[error("less than {} in {} s", mib(PROGRESS), .window.as_secs())]
pub(super) struct TooSlow {
    window: Duration,
}

impl Pace {
    /// `window`: the time limit for [`PROGRESS`] bytes.
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            since: Instant::now(),
            bytes: 0,
        }
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// If the connection is too slow.
    pub(super) fn received(&mut self, bytes: u64) -> std::result::Result<(), TooSlow> {
        self.bytes += bytes;
        if self.bytes >= PROGRESS {
            *self = Self::new(self.window);
        }
        if self.since.elapsed() < self.window {
            return Ok(());
        }
        Err(TooSlow {
            window: self.window,
        })
    }

    /// Excludes time in which the agent waited for the disk.
    pub(super) fn excuse(&mut self, time: Duration) {
        self.since += time;
    }
}
