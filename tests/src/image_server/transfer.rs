//! Sends a file at the rate and with the faults that its [`Behaviour`](super::Behaviour)
//! has.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use crate::journal::Source;

/// The number of bytes that the server sends at a time: small enough for a steady rate
/// and exact cuts.
const CHUNK: usize = 16 * 1024;

/// One answer on its way.
pub(super) struct Transfer {
    pub shared: Arc<Shared>,
    pub name: String,
    pub left: Bytes,
    pub sent: usize,
    pub dies_after: Option<usize>,
    pub died: Arc<AtomicBool>,
    pub stays_dark: Duration,
    pub stalls: bool,
    pub bytes_per_second: Option<u64>,
    /// The number of bytes that are sent without this limit.
    pub fast: usize,
    pub began: Instant,
}

impl Transfer {
    /// The next bytes, and the rest of the transfer.
    pub async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.left.is_empty() {
            return None;
        }
        if let Some(pace) = self.bytes_per_second {
            let limited = self.sent.saturating_sub(self.fast);
            let due = Duration::from_secs_f64(limited as f64 / pace as f64);
            sleep_until(self.began + due).await;
        }
        let until_death = self
            .dies_after
            .map_or(usize::MAX, |limit| limit.saturating_sub(self.sent));
        if until_death == 0 {
            self.died.store(true, Ordering::Relaxed);
        }
        if until_death == 0 && self.stalls {
            let text = format!("/{}: stalls after {} bytes", self.name, self.sent);
            self.shared.journal.record(Source::Images, text);
            // Ends when the client closes the connection.
            std::future::pending::<()>().await;
        }
        if until_death == 0 {
            let text = format!("/{}: breaks off after {} bytes", self.name, self.sent);
            self.shared.journal.record(Source::Images, text);
            *self
                .shared
                .dark_for
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = self.stays_dark;
            self.shared.died.notify_waiters();
            return Some((Err(io::Error::other("scripted death")), self));
        }
        let chunk = self
            .left
            .split_to(CHUNK.min(self.left.len()).min(until_death));
        self.sent += chunk.len();
        Some((Ok(chunk), self))
    }
}
