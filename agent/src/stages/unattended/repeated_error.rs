//! Decides when to log an error of an attempt: at once if it differs from the last one,
//! otherwise after growing intervals. If the same line were logged after each attempt, it
//! would push the lines that explain the error off the screen.

use std::time::Duration;

use tokio::time::Instant;

use crate::stages::remarks::REPEAT_INTERVAL;

/// The interval between the first line and the second.
const FIRST_INTERVAL: Duration = Duration::from_secs(60);

/// The error that was logged last.
#[derive(Debug, Default)]
pub(super) struct RepeatedError {
    last: Option<Logged>,
}

#[derive(Debug)]
struct Logged {
    text: String,
    at: Instant,
    /// The time until the same text is logged again.
    interval: Duration,
}

impl RepeatedError {
    /// Whether to log this error now. If so, the caller must log it.
    pub(super) fn is_due(&mut self, text: &str) -> bool {
        let now = Instant::now();
        let interval = match &self.last {
            Some(last) if last.text == text && now < last.at + last.interval => return false,
            Some(last) if last.text == text => (last.interval * 2).min(REPEAT_INTERVAL),
            _ => FIRST_INTERVAL,
        };
        self.last = Some(Logged {
            text: text.to_owned(),
            at: now,
            interval,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_error_is_logged_after_growing_intervals() {
        let mut error = RepeatedError::default();
        let began = Instant::now();
        let mut logged = Vec::new();
        while began.elapsed() < Duration::from_secs(3000) {
            if error.is_due("no disk") {
                logged.push(began.elapsed().as_secs());
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        assert_eq!(logged, [0, 60, 180, 420, 900, 1500, 2100, 2700]);
        for (text, expected) in [
            ("HTTP status 404", true),
            ("HTTP status 404", false),
            ("no disk", true),
            ("no disk", false),
        ] {
            assert_eq!(error.is_due(text), expected, "{text}");
        }
    }
}
