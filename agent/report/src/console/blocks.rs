//! Decides when a serial console gets the status as a block of lines.

use std::time::{Duration, Instant, SystemTime};

use landfall_sys::boot_clock::seconds_since_boot;
use landfall_sys::calendar;

use crate::form;
use crate::status::Status;
use crate::status_screen;

/// The pause between two blocks of the status on a serial console. At 9600 baud a
/// block takes about a second.
const BLOCK_PAUSE: Duration = Duration::from_secs(60);
/// How long the first block waits after the console is opened. In this time the log lines
/// alone show the progress of the boot.
const FIRST_BLOCK: Duration = Duration::from_secs(15);
/// How long a block waits for further changes: `BLOCK_SETTLES` after the last change, but
/// at most `CHANGES_LAST` after the first change.
const BLOCK_SETTLES: Duration = Duration::from_secs(3);
const CHANGES_LAST: Duration = Duration::from_secs(20);

/// A change that is not shown yet.
struct Change {
    status: Status,
    /// When the change was seen.
    at: Instant,
    /// When the first change since the last block was seen.
    first: Instant,
}

/// Decides when a serial console gets a block of the status.
pub(super) struct Blocks {
    shown: Option<Status>,
    changed: Option<Change>,
    /// No block is printed before this moment.
    not_before: Instant,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self {
            shown: None,
            changed: None,
            not_before: Instant::now() + FIRST_BLOCK,
        }
    }

    /// The block, if one is due.
    pub(super) fn due(&mut self, status: &Status, at: Instant) -> Option<Vec<String>> {
        let essence = status_screen::essence(status);
        if self.shown.as_ref() == Some(&essence) {
            self.changed = None;
            return None;
        }
        let first = self.changed.as_ref().map_or(at, |change| change.first);
        let since = match &self.changed {
            Some(known) if known.status == essence => known.at,
            _ => {
                self.changed = Some(Change {
                    status: essence.clone(),
                    at,
                    first,
                });
                at
            }
        };
        let settles = at < since + BLOCK_SETTLES && at < first + CHANGES_LAST;
        if at < self.not_before || settles {
            return None;
        }
        self.not_before = at + BLOCK_PAUSE;
        self.changed = None;
        self.shown = Some(essence);
        Some(status_screen::block(
            status,
            seconds_since_boot(),
            &calendar::shown(SystemTime::now()),
            form::hint(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_follows_a_change_but_not_more_often_than_every_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut blocks = Blocks::new();
        blocks.not_before = at(15);
        let mut status = Status::default();
        let mut due = |status: &Status, seconds| blocks.due(status, at(seconds)).is_some();
        assert!(!due(&status, 0), "the first change is seen");
        assert!(!due(&status, 10), "too early");
        assert!(due(&status, 15));
        assert!(!due(&status, 100), "nothing has changed");
        status.node = Some("n".into());
        assert!(!due(&status, 101));
        assert!(due(&status, 104));
        status.node = Some("m".into());
        assert!(!due(&status, 105));
        assert!(!due(&status, 150), "a minute has not passed");
        assert!(due(&status, 164));
    }
    #[test]
    fn a_status_that_never_rests_is_shown_as_well() {
        let start = Instant::now();
        let mut blocks = Blocks::new();
        let shown: Vec<u64> = (0..120)
            .filter(|second| {
                let status = Status {
                    node: Some(second.to_string()),
                    ..Status::default()
                };
                let at = start + Duration::from_secs(*second);
                blocks.due(&status, at).is_some()
            })
            .collect();
        assert_eq!(shown.len(), 2, "{shown:?}");
        assert!(shown[1] - shown[0] >= 60, "{shown:?}");
    }
}
