//! Waiting between tries: longer each time, never in step with other machines.
//!
//! A rack that comes back from a power cut asks the same service at the same
//! second; the jitter is what spreads it.

use std::time::Duration;

/// Waits that double from a first to a longest, each shortened by chance.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits between `first` and `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest: longest.max(first),
            next: first,
        }
    }

    /// How long to wait now: between half of the current step and all of it.
    pub fn pause(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.longest);
        step.mul_f64(between(0.5, 1.0))
    }

    /// Something new happened: begin with short waits again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A random number in this range, uniform.
pub fn between(low: f64, high: f64) -> f64 {
    // The random bits of a version 4 UUID come from getrandom(2); bits 0..48 of
    // it are all random. A generator of its own is not worth a dependency.
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
