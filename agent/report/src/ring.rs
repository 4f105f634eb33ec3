//! Keeps the latest log lines in memory. Ironic stores them as the journal of a
//! machine whose console nobody has watched.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The maximum size of the kept lines in bytes: a day of an idle agent, or about
/// 10000 lines.
const KEPT: usize = 1 << 20;

static RING: Mutex<Ring> = Mutex::new(Ring::new());

/// A line and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The time in seconds since boot.
    pub time: f64,
    /// The text of the line: `disk: warning: ...`.
    pub text: String,
}

/// The kept lines, oldest first.
pub fn lines_said() -> Vec<Said> {
    let ring = RING.lock().unwrap_or_else(PoisonError::into_inner);
    ring.lines.iter().cloned().collect()
}

pub(super) fn keep(time: f64, text: String) {
    let mut ring = RING.lock().unwrap_or_else(PoisonError::into_inner);
    ring.push(Said { time, text });
}

struct Ring {
    lines: VecDeque<Said>,
    bytes: usize,
}

impl Ring {
    const fn new() -> Self {
        Self {
            lines: VecDeque::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, line: Said) {
        self.bytes += cost(&line);
        self.lines.push_back(line);
        while self.bytes > KEPT {
            let Some(oldest) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= cost(&oldest);
        }
    }
}

/// The memory that a line uses, including its overhead.
fn cost(line: &Said) -> usize {
    line.text.len() + size_of::<Said>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_go_first_and_the_size_is_bounded() {
        let mut ring = Ring::new();
        for number in 0..100_000 {
            ring.push(Said {
                time: f64::from(number),
                text: format!("line {number}"),
            });
        }
        assert!(ring.bytes <= KEPT);
        assert_eq!(ring.bytes, ring.lines.iter().map(cost).sum::<usize>());
        assert_eq!(ring.lines.back().unwrap().text, "line 99999");
        assert!(ring.lines.front().unwrap().time > 50_000.0);
        assert!(ring.lines.len() > 10_000);
    }
}
