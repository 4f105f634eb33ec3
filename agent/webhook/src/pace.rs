//! Decides which changes of the status cause a report.

use std::time::{Duration, Instant};

use landfall_report::status::Status;

/// The minimum time between two reports of the same step.
const PAUSE: Duration = Duration::from_secs(10);

/// The step, the amount of progress and the time of the last report.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: Option<(String, u64, Instant)>,
}

impl Pace {
    /// True for a new step, and for progress within a step every [`PAUSE`].
    pub(super) fn is_due(&mut self, status: &Status, now: Instant) -> bool {
        let Some(step) = &status.step else {
            return false;
        };
        let done = status.progress.as_ref().map_or(0, |progress| progress.done);
        let is_due = match &self.last {
            Some((last, reported, at)) if *last == step.name => {
                done != *reported && status.progress.is_some() && now.duration_since(*at) >= PAUSE
            }
            _ => true,
        };
        if is_due {
            self.last = Some((step.name.clone(), done, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use landfall_report::status::{Progress, Step};

    use super::*;

    fn status(step: &str, done: Option<u64>) -> Status {
        Status {
            step: Some(Step {
                name: step.into(),
                since: 1.0,
            }),
            progress: done.map(|done| Progress::new("x", done, Some(1000), PAUSE)),
            ..Status::default()
        }
    }

    #[test]
    fn every_step_is_reported_once_and_its_progress_every_ten_seconds() {
        let start = Instant::now();
        let mut pace = Pace::default();
        assert!(!pace.is_due(&Status::default(), start));
        for (seconds, step, done, expected) in [
            (0, "choosing the disk", None, true),
            (1, "choosing the disk", None, false),
            (2, "installing", None, true),
            (3, "installing", Some(10), false),
            (12, "installing", Some(20), true),
            (13, "installing", Some(30), false),
            (21, "installing", Some(990), false),
            (22, "installing", Some(1000), true),
            (99, "installing", Some(1000), false),
            (99, "installing", None, false),
            (100, "rebooting", None, true),
        ] {
            let now = start + Duration::from_secs(seconds);
            let is_due = pace.is_due(&status(step, done), now);
            assert_eq!(is_due, expected, "{seconds} s: {step} {done:?}");
        }
    }
}
