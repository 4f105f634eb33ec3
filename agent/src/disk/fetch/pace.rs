//! How fast a download has to be.

use std::time::{Duration, Instant};

use crate::report::mib;

/// Fresh bytes that count as progress and fill the patience up again.
pub(super) const PROGRESS: u64 = 1 << 20;

/// Whether a connection brings enough to be kept: a server that sends a byte
/// now and then never stalls and never ends.
pub(super) struct Pace {
    window: Duration,
    since: Instant,
    bytes: u64,
}

impl Pace {
    /// `window` is how long it may take to bring [`PROGRESS`].
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            since: Instant::now(),
            bytes: 0,
        }
    }

    /// Counts what came. Says what is wrong if that is too little.
    pub(super) fn received(&mut self, bytes: u64) -> std::result::Result<(), String> {
        self.bytes += bytes;
        if self.bytes >= PROGRESS {
            *self = Self::new(self.window);
        }
        if self.since.elapsed() < self.window {
            return Ok(());
        }
        Err(format!(
            "less than {} in {} s",
            mib(PROGRESS),
            self.window.as_secs()
        ))
    }

    /// The time that the disk took is not the server's.
    pub(super) fn excuse(&mut self, time: Duration) {
        self.since += time;
    }
}
