//! The reports that wait for the server. No I/O.

use std::collections::VecDeque;

use super::report::{Report, What};

/// The maximum number of waiting reports.
const PLACES: usize = 16;

/// A report with its number.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) sequence: u64,
    pub(super) report: Report,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Numbered>,
    sequence: u64,
    /// Why the last attempt failed. If the next attempt fails for the same reason, no
    /// report is added.
    retry_reason: Option<String>,
    is_closed: bool,
}

impl Queue {
    /// Adds a report. Returns false and adds nothing if a retry has the same reason as
    /// the previous retry, or if `Done` or `Failed` has already been added. If the queue
    /// is full, drops the oldest progress report, or the oldest report if no progress
    /// report is waiting.
    pub(super) fn push(&mut self, report: Report) -> bool {
        if self.is_closed {
            return false;
        }
        if let What::Retrying { reason, .. } = &report.what {
            let before = self.retry_reason.replace(reason.text.clone());
            if before.as_deref() == Some(&reason.text) {
                return false;
            }
        }
        self.is_closed = matches!(report.what, What::Done | What::Failed { .. });
        // A new progress report replaces a progress report that is still waiting.
        let is_progress = |waiting: &Numbered| matches!(waiting.report.what, What::Progress);
        if matches!(report.what, What::Progress) && self.waiting.back().is_some_and(is_progress) {
            self.waiting.pop_back();
        }
        if self.waiting.len() == PLACES {
            let droppable = self.waiting.iter().position(is_progress).unwrap_or(0);
            self.waiting.remove(droppable);
        }
        self.sequence += 1;
        self.waiting.push_back(Numbered {
            sequence: self.sequence,
            report,
        });
        true
    }

    /// The report to send next.
    pub(super) fn first(&self) -> Option<Numbered> {
        self.waiting.front().cloned()
    }

    /// The number of the newest report.
    pub(super) fn last_sequence(&self) -> u64 {
        self.sequence
    }

    /// Removes a report that is delivered or dropped. The report may already be removed.
    pub(super) fn remove(&mut self, sequence: u64) {
        self.waiting.retain(|waiting| waiting.sequence != sequence);
    }

    pub(super) fn keep_only_last(&mut self) {
        let last = self.sequence;
        self.waiting.retain(|waiting| waiting.sequence == last);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether `Done` or `Failed` has been added, after which no report is accepted.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use landfall_report::failure::Failure;

    use super::*;

    fn push(queue: &mut Queue, what: What) -> bool {
        queue.push(Report::new(what))
    }

    fn retrying(text: &str) -> What {
        What::retrying(&Failure::other(text), Duration::from_secs(5))
    }

    fn numbers(queue: &Queue) -> Vec<u64> {
        queue
            .waiting
            .iter()
            .map(|waiting| waiting.sequence)
            .collect()
    }

    #[test]
    fn progress_that_waits_is_replaced_by_newer_progress() {
        let mut queue = Queue::default();
        push(&mut queue, What::Started);
        push(&mut queue, What::Progress);
        push(&mut queue, What::Progress);
        assert_eq!(numbers(&queue), [1, 3]);
        queue.remove(1);
        queue.remove(1);
        assert_eq!(queue.first().unwrap().sequence, 3);
    }

    #[test]
    fn the_same_reason_is_reported_once_and_nothing_after_the_end() {
        let mut queue = Queue::default();
        assert!(push(&mut queue, retrying("status 404")));
        assert!(!push(&mut queue, retrying("status 404")));
        assert!(push(&mut queue, retrying("no disk")));
        assert!(push(&mut queue, What::Done));
        assert!(!push(&mut queue, What::Progress));
        assert!(queue.is_closed());
        queue.keep_only_last();
        assert_eq!(numbers(&queue), [3]);
    }

    #[test]
    fn the_queue_is_bounded_and_keeps_important_reports() {
        let mut queue = Queue::default();
        push(&mut queue, What::Started);
        for number in 0..100 {
            push(&mut queue, retrying(&number.to_string()));
            push(&mut queue, What::Progress);
        }
        assert!(queue.waiting.len() <= PLACES, "{}", queue.waiting.len());
        push(&mut queue, What::Done);
        assert_eq!(queue.waiting.len(), PLACES);
        assert!(matches!(
            queue.waiting.back().unwrap().report.what,
            What::Done
        ));
    }
}
