//! Shows on the console how far each NIC has come, but not too often.

use std::time::Duration;

use landfall_network::NetworkState;
use landfall_network::reach::Reach;
use tokio::time::Instant;

use crate::reach_screen;

/// How long after the start of the search the console first shows the progress of the
/// NICs if no attempt has ended by then.
const FIRST_SCREEN: Duration = Duration::from_secs(15);
/// The minimum time between two screens that differ.
const SCREEN_PAUSE: Duration = Duration::from_secs(5);
/// The minimum time between two screens that are the same.
const SCREEN_REPEAT: Duration = Duration::from_secs(60);

/// The lines that the console showed last, and when.
pub(super) struct Screen {
    begun: Instant,
    shown: Option<(Instant, Vec<String>)>,
}

impl Screen {
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            shown: None,
        }
    }

    /// Shows the screen if it is due. Returns the time when to check again.
    pub fn show(&mut self, service: &str, state: &NetworkState, reach: &Reach) -> Instant {
        let now = Instant::now();
        let lines = reach_screen::screen(service, state, reach);
        let due = match &self.shown {
            None if reach.ways.is_empty() => self.begun + FIRST_SCREEN,
            // Wait even after the first failure: the next attempt starts soon and may
            // succeed.
            None => self.begun + SCREEN_PAUSE,
            Some((at, shown)) if *shown != lines => *at + SCREEN_PAUSE,
            Some((at, _)) => *at + SCREEN_REPEAT,
        };
        if now < due {
            return due;
        }
        for line in &lines {
            tracing::info!("{line}");
        }
        self.shown = Some((now, lines));
        now + SCREEN_PAUSE
    }
}
