//! When the controller looks at a resource again without an event.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::host::HostKey;

/// The delay for a Secret that does not exist yet, as in baremetal-operator: the time
/// since the error began plus 10 s, but at most 600 s. So the controller looks 10, 30,
/// 70, 150, 310 and 630 s after the error began, and then every ten minutes, also after a
/// restart.
const FIRST_LOOK: Duration = Duration::from_secs(10);
const LONGEST_LOOK: Duration = Duration::from_secs(600);

/// The delay until the controller reads a Secret again that is missing or that no watch
/// reports. Up to a tenth is added, so that resources that were created together do not
/// all ask at the same moment.
pub(crate) fn missing_secret(since: Timestamp, now: Timestamp, uid: &str) -> Duration {
    let waited = now.as_second().saturating_sub(since.as_second());
    let waited = Duration::from_secs(u64::try_from(waited).unwrap_or(0));
    let delay = (waited + FIRST_LOOK).min(LONGEST_LOOK);
    delay + delay.mul_f64(share(uid) / 10.0)
}

/// A number from 0 to 1, which is always the same for the same text.
fn share(text: &str) -> f64 {
    // The hasher without a random key.
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
    f64::from(u32::try_from(hash >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

/// The delays after failed requests. The delay doubles with each consecutive failure of
/// the same resource, as in controller-runtime.
#[derive(Clone, Copy, Debug)]
pub struct RetryLimits {
    pub first: Duration,
    /// The longest delay if the API server has answered with an error, before the jitter.
    /// It is long, because a person may have to remove the cause.
    pub longest: Duration,
    /// The longest delay if the API server has not answered. All resources then wait
    /// for the API server, and should continue soon after it is back.
    pub longest_unreachable: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(5),
            longest: Duration::from_secs(1000),
            longest_unreachable: Duration::from_secs(30),
        }
    }
}

/// The number of consecutive failures of each resource.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<HostKey, u32>>);

impl Failures {
    pub(crate) fn clear(&self, key: &HostKey) {
        self.lock().remove(key);
    }

    /// Counts a failure and returns the delay until the next attempt.
    pub(crate) fn delay(&self, key: &HostKey, unreachable: bool, limits: &RetryLimits) -> Duration {
        let mut failures = self.lock();
        let count = failures.entry(key.clone()).or_default();
        let doubled = limits.first.saturating_mul(1 << (*count).min(30));
        *count += 1;
        let longest = if unreachable {
            limits.longest_unreachable
        } else {
            limits.longest
        };
        let delay = doubled.min(longest);
        delay + delay.mul_f64(share(&key.to_string()) / 10.0)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<HostKey, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up the delays from the time when the error began.
    #[test]
    fn a_missing_secret_is_looked_for_less_and_less_often() {
        let begin = Timestamp::from_second(1_000_000).unwrap();
        let mut now = begin;
        let mut runs = Vec::new();
        for _ in 0..8 {
            let delay = missing_secret(begin, now, "uid");
            let whole = Duration::from_secs(delay.as_secs());
            let plain = delay.div_f64(1.0 + share("uid") / 10.0);
            assert!(delay >= plain, "{whole:?}");
            now += Duration::from_secs_f64(plain.as_secs_f64().round());
            runs.push(now.as_second() - begin.as_second());
        }
        assert_eq!(runs, [10, 30, 70, 150, 310, 630, 1230, 1830]);
    }

    #[test]
    fn the_jitter_is_at_most_a_tenth_and_differs() {
        let begin = Timestamp::from_second(1_000_000).unwrap();
        let delays: Vec<_> = (0..100)
            .map(|number| missing_secret(begin, begin, &format!("uid-{number}")))
            .collect();
        let (first, last) = (Duration::from_secs(10), Duration::from_secs(11));
        assert!(
            delays.iter().all(|d| (first..=last).contains(d)),
            "{delays:?}"
        );
        let least = delays.iter().min().unwrap();
        let most = delays.iter().max().unwrap();
        assert!(
            *most - *least > Duration::from_millis(800),
            "{least:?} {most:?}"
        );
    }

    /// The clock of the API server's machine may be ahead of ours.
    #[test]
    fn a_time_in_the_future_counts_as_now() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let later = Timestamp::from_second(1_000_500).unwrap();
        assert!(missing_secret(later, now, "") < Duration::from_secs(12));
    }

    #[test]
    fn failures_in_a_row_double_the_delay() {
        let failures = Failures::default();
        let limits = RetryLimits::default();
        let key = HostKey {
            namespace: "metal3".to_owned(),
            name: "host".to_owned(),
        };
        let mut delays = Vec::new();
        for _ in 0..20 {
            delays.push(failures.delay(&key, false, &limits));
        }
        assert!(delays[0] >= limits.first && delays[0] < 2 * limits.first);
        assert!(delays[1] > delays[0].mul_f64(1.9), "{delays:?}");
        assert!(delays[19] >= limits.longest, "{delays:?}");
        let unreachable = failures.delay(&key, true, &limits);
        assert!(unreachable < 2 * limits.longest_unreachable);
        failures.clear(&key);
        assert_eq!(failures.delay(&key, true, &limits), delays[0]);
    }
}
