//! How long the agent waits for virtual media. The agent and the thread that reads the
//! media share this state: after the agent has continued without the media, the thread
//! must not store anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The agent gives up when nothing has been read for this long, because a drive that does
/// not answer blocks its reader in the kernel. If the kernel command line mentions no
/// virtual media, the agent gives up after this time in any case.
const LIMIT: Duration = Duration::from_secs(90);

/// The longest wait for media that the kernel command line mentions, as long as they make
/// progress. The largest content is 18 MB ([`super::contents`]); a BMC that delivers 100
/// kB/s needs 180 s for it. The other 120 s are enough for drives that appear after 30 s,
/// for a drive that does not answer for 40 s (`drives.rs`), and for reading the
/// directories.
const LONGEST: Duration = Duration::from_secs(300);

/// The thread that reads ends this much before the agent gives up, so that it can hand
/// over what it has read.
const HANDOVER: Duration = Duration::from_secs(2);

/// Shared by the agent, the thread that reads, and the threads of the drives.
#[derive(Debug, Clone)]
pub(super) struct MediaWait(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    outcome: Outcome,
    /// Progress makes the agent wait longer.
    is_extended: bool,
    /// When something was last read. The start of the wait if nothing was read, or if the
    /// wait is not extended.
    progress: Instant,
    /// The agent waits no longer than this.
    latest: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    Stored,
    GivenUp,
}

impl MediaWait {
    /// `announced` means that the kernel command line mentions virtual media.
    pub(super) fn new(announced: bool) -> Self {
        let limit = if announced { LONGEST } else { LIMIT };
        Self::with(announced, Instant::now(), limit)
    }

    pub(super) fn with(is_extended: bool, start: Instant, longest: Duration) -> Self {
        Self(Arc::new(Mutex::new(State {
            outcome: Outcome::Open,
            is_extended,
            progress: start,
            latest: start + longest,
        })))
    }

    /// A wait that ends after this time if nothing is read.
    #[cfg(test)]
    pub(super) fn almost_over(left: Duration) -> Self {
        let media_wait = Self::new(true);
        media_wait.lock().progress = Instant::now().checked_sub(LIMIT - left).unwrap();
        media_wait
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that something was read from a medium.
    pub(super) fn progress(&self) {
        let mut state = self.lock();
        if state.is_extended {
            state.progress = Instant::now();
        }
    }

    /// The moment at which the agent gives up if nothing more is read.
    pub(super) fn end(&self) -> Instant {
        let state = self.lock();
        state.latest.min(state.progress + LIMIT)
    }

    /// How long the thread that reads may still work if it reads nothing more.
    pub(super) fn left_to_reader(&self) -> Duration {
        let end = self.end() - HANDOVER;
        end.saturating_duration_since(Instant::now())
    }

    /// Gives up, so that [`Self::store`] stores nothing. Returns false if the media are
    /// already stored.
    pub(super) fn give_up(&self) -> bool {
        let mut state = self.lock();
        if state.outcome == Outcome::Open {
            state.outcome = Outcome::GivenUp;
        }
        state.outcome == Outcome::GivenUp
    }

    /// Calls `store`, unless the agent has given up. The agent cannot give up while
    /// `store` runs, so `store` must not wait for a drive.
    pub(super) fn store<T>(&self, store: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.lock();
        (state.outcome != Outcome::GivenUp).then(|| {
            state.outcome = Outcome::Stored;
            store()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_announced_media_that_make_progress_are_waited_for_longer() {
        let start = Instant::now().checked_sub(LIMIT).unwrap();
        for (announced, makes_progress, goes_on) in [
            (true, true, true),
            (true, false, false),
            (false, true, false),
        ] {
            let media_wait = MediaWait::with(announced, start, LONGEST);
            if makes_progress {
                media_wait.progress();
            }
            let left = media_wait.left_to_reader();
            assert_eq!(!left.is_zero(), goes_on, "{announced} {makes_progress}");
            assert!(left <= LIMIT);
        }
        let start = Instant::now().checked_sub(LONGEST).unwrap();
        let media_wait = MediaWait::with(true, start, LONGEST);
        media_wait.progress();
        assert!(media_wait.left_to_reader().is_zero(), "the longest wait");
    }

    #[test]
    fn nothing_is_stored_after_the_agent_has_given_up() {
        let media_wait = MediaWait::new(true);
        assert!(media_wait.give_up());
        assert_eq!(media_wait.store(|| "stored"), None);

        let media_wait = MediaWait::new(true);
        assert_eq!(media_wait.store(|| "stored"), Some("stored"));
        assert!(!media_wait.give_up(), "the agent must use what is stored");
    }
}
