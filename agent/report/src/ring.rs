//! Keeps the latest events in memory. The agent sends them to Ironic as the journal of
//! the machine, because nobody may have watched its console; the status page and syslog
//! read them.

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, PoisonError};

use tokio::sync::watch;

use crate::event::Event;

/// The maximum size of the kept events in bytes. This is enough for about 7000 lines, or
/// for the lines of an agent that is idle for a day.
const KEPT: usize = 1 << 20;

static RING: Mutex<Ring> = Mutex::new(Ring::new());

/// The sequence number of the newest event.
static NEWEST: LazyLock<watch::Sender<u64>> = LazyLock::new(watch::Sender::default);

/// A line and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// The time in seconds since boot.
    pub time: f64,
    /// The text of the line: `disk: warning: ...`.
    pub text: String,
}

/// The kept lines, oldest first.
pub fn log_lines() -> Vec<LogLine> {
    let line = |event: &Event| LogLine {
        time: event.time,
        text: event.line(),
    };
    with_ring(|ring| ring.events.iter().map(line).collect())
}

/// The kept events after the one with this number, oldest first. Zero returns all.
pub fn events_after(sequence: u64) -> Vec<Event> {
    with_ring(|ring| ring.after(sequence).cloned().collect())
}

/// The last `count` kept events, oldest first.
pub fn last_events(count: usize) -> Vec<Event> {
    with_ring(|ring| {
        let skipped = ring.events.len().saturating_sub(count);
        ring.events.iter().skip(skipped).cloned().collect()
    })
}

/// A receiver that changes with every new event and holds the event's number.
pub fn newest_event() -> watch::Receiver<u64> {
    NEWEST.subscribe()
}

/// Gives the event its number and keeps it.
pub(super) fn keep(mut event: Event) -> Event {
    let event = with_ring(|ring| {
        ring.sequence += 1;
        event.sequence = ring.sequence;
        ring.push(event.clone());
        event
    });
    NEWEST.send_replace(event.sequence);
    event
}

fn with_ring<T>(use_it: impl FnOnce(&mut Ring) -> T) -> T {
    use_it(&mut RING.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Ring {
    events: VecDeque<Event>,
    bytes: usize,
    /// The number of the last event.
    sequence: u64,
}

impl Ring {
    const fn new() -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            sequence: 0,
        }
    }

    fn push(&mut self, event: Event) {
        self.bytes += cost(&event);
        self.events.push_back(event);
        while self.bytes > KEPT {
            let Some(oldest) = self.events.pop_front() else {
                return;
            };
            self.bytes -= cost(&oldest);
        }
    }

    fn after(&self, sequence: u64) -> impl Iterator<Item = &Event> {
        let known = self
            .events
            .partition_point(|event| event.sequence <= sequence);
        self.events.iter().skip(known)
    }
}

/// The memory that an event uses, including its overhead.
fn cost(event: &Event) -> usize {
    event.text.len() + event.stage.len() + size_of::<Event>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64) -> Event {
        Event {
            sequence,
            time: sequence as f64,
            stage: "disk".into(),
            level: tracing::Level::INFO,
            text: format!("line {sequence}"),
            progress: None,
        }
    }

    #[test]
    fn the_oldest_events_go_first_and_the_size_is_bounded() {
        let mut ring = Ring::new();
        for number in 1..=100_000 {
            ring.push(event(number));
        }
        assert!(ring.bytes <= KEPT);
        assert_eq!(ring.bytes, ring.events.iter().map(cost).sum::<usize>());
        assert_eq!(ring.events.back().unwrap().text, "line 100000");
        assert!(ring.events.front().unwrap().time > 50_000.0);
        assert!(ring.events.len() > 6000, "{}", ring.events.len());
    }

    #[test]
    fn a_reader_gets_the_events_after_its_last_one() {
        let mut ring = Ring::new();
        (5..9).for_each(|number| ring.push(event(number)));
        let after =
            |sequence| -> Vec<u64> { ring.after(sequence).map(|event| event.sequence).collect() };
        assert_eq!(after(0), [5, 6, 7, 8]);
        assert_eq!(after(6), [7, 8]);
        assert!(after(8).is_empty());
    }
}
