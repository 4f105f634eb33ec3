//! The pause between attempts. It grows with each attempt and has random jitter.
//!
//! After a power cut, all machines of a rack contact the same service in the same
//! second. The jitter spreads their requests.

use std::time::Duration;

/// Pauses that double from `first` up to `longest`. Each is shortened at random.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest: longest.max(first),
            next: first,
        }
    }

    /// The next pause: a random time between half of the current step and the whole
    /// step.
    pub fn pause(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.longest);
        step.mul_f64(between(0.5, 1.0))
    }

    /// Starts again with short pauses. The caller uses this when the situation has
    /// changed.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A uniformly distributed random number from `low` to `high`.
pub fn between(low: f64, high: f64) -> f64 {
    // A version 4 UUID consists of random bits from getrandom(2), and its bits 0 to
    // 47 are all random. A separate random number generator is not worth another
    // dependency.
    let bits = uuid::Uuid::new_v4().as_u128() & ((1 << 48) - 1);
    low + (high - low) * (bits as f64 / (1u64 << 48) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_start_again_on_reset() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 5 * second);
        let tops = [1, 2, 4, 5, 5];
        for top in tops {
            let pause = backoff.pause();
            assert!(
                pause >= second * top / 2 && pause <= second * top,
                "{pause:?}"
            );
        }
        backoff.reset();
        assert!(backoff.pause() <= second);
    }

    #[test]
    fn chance_stays_in_its_range_and_moves() {
        let draws: Vec<f64> = (0..200).map(|_| between(0.3, 0.6)).collect();
        assert!(draws.iter().all(|draw| (0.3..0.6).contains(draw)));
        assert!(draws.iter().any(|draw| *draw < 0.4) && draws.iter().any(|draw| *draw > 0.5));
    }
}
