//! The limits for clients.

use std::time::Duration;

/// What clients may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of open connections.
    pub connections: usize,
    /// How long a client may take no byte of an answer.
    pub quiet: Duration,
    /// How long an answer in progress may take when the service ends.
    pub last_answers: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            quiet: Duration::from_secs(330),
            last_answers: Duration::from_secs(25),
        }
    }
}
