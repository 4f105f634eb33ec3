//! Reports the progress of work that takes long.

use std::fmt;
use std::time::{Duration, Instant};

use super::{mib, status};

/// Reports progress every 5 s or every 5 % (64 MiB if the total is unknown),
/// whichever takes longer, but at least every 30 s, because silence looks like a
/// machine that hangs. The [status](crate::status) is updated every second.
///
/// A serial console cannot redraw a line, so progress is shown as a few separate
/// lines.
#[derive(Debug)]
pub struct Progress {
    what: String,
    total: Option<u64>,
    done: u64,
    last_reported: u64,
    last_time: Instant,
    began: Instant,
    last_status: Option<Instant>,
}

/// A line that reports the progress of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressLine {
    pub text: String,
    /// In bytes.
    pub done: u64,
    /// In bytes, if it is known.
    pub total: Option<u64>,
}

impl fmt::Display for ProgressLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Progress {
    const PAUSE: Duration = Duration::from_secs(5);
    const LONGEST_SILENCE: Duration = Duration::from_secs(30);
    const STATUS_PAUSE: Duration = Duration::from_secs(1);

    /// Progress of `what`, with the total in bytes if it is known.
    pub fn new(what: impl Into<String>, total: Option<u64>) -> Self {
        Self {
            what: what.into(),
            total,
            done: 0,
            last_reported: 0,
            last_time: Instant::now(),
            began: Instant::now(),
            last_status: None,
        }
    }

    /// Records that `done` bytes are complete. Returns a line if the next line is due.
    /// The caller logs it, so that the line gets the caller's stage.
    pub fn at(&mut self, done: u64) -> Option<ProgressLine> {
        self.done = done;
        self.update_status();
        let step = self.total.map_or(64 << 20, |total| total / 20);
        let silence = self.last_time.elapsed();
        let moved = done.saturating_sub(self.last_reported) >= step;
        if silence < Self::PAUSE || (!moved && silence < Self::LONGEST_SILENCE) {
            return None;
        }
        self.last_reported = done;
        self.last_time = Instant::now();
        Some(ProgressLine {
            text: self.line(),
            done,
            total: self.total,
        })
    }

    fn update_status(&mut self) {
        if self
            .last_status
            .is_some_and(|last| last.elapsed() < Self::STATUS_PAUSE)
        {
            return;
        }
        self.last_status = Some(Instant::now());
        let progress =
            status::Progress::new(&self.what, self.done, self.total, self.began.elapsed());
        status::update(|status| status.progress = Some(progress));
    }

    fn line(&self) -> String {
        match self.total {
            Some(total) if total > 0 => format!(
                "{}: {} of {} ({} %)",
                self.what,
                mib(self.done),
                mib(total),
                self.done.saturating_mul(100) / total
            ),
            _ => format!("{}: {}", self.what, mib(self.done)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        status::update(|status| status.progress = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: Option<ProgressLine>) -> Option<String> {
        line.map(|line| line.to_string())
    }

    #[test]
    fn progress_is_quiet_between_steps() {
        let mut progress = Progress::new("writing", Some(1000));
        assert_eq!(progress.at(900), None, "5 s have not passed");
        progress.last_time -= Progress::PAUSE;
        assert_eq!(
            text(progress.at(910)).as_deref(),
            Some("writing: 910 bytes of 1000 bytes (91 %)")
        );
        progress.last_time -= Progress::PAUSE;
        assert_eq!(progress.at(920), None, "less than 5 % more");
    }

    #[test]
    fn progress_is_never_silent_for_long() {
        let mut progress = Progress::new("writing", Some(1000));
        progress.last_time -= Duration::from_secs(30);
        assert_eq!(
            text(progress.at(1)).as_deref(),
            Some("writing: 1 bytes of 1000 bytes (0 %)")
        );
        assert_eq!(progress.at(1), None);
        progress.last_time -= Duration::from_secs(30);
        assert!(progress.at(1).is_some(), "also when nothing moved");
    }
}
