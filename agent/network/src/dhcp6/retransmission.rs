//! Retransmission of messages (RFC 8415, 15).

use std::time::Duration;

/// How one kind of message is repeated (RFC 8415, 7.6). `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// IRT: the first wait.
    pub first: Duration,
    /// MRT: the longest wait.
    pub longest: Option<Duration>,
    /// MRC: how often the message is sent at most.
    pub count: Option<u32>,
    /// The first wait is never shorter than [`Rule::first`], because the client
    /// collects answers during it.
    pub collects: bool,
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The longest wait of a client that searches, unless a server sets another limit. The
/// DHCPv4 client has the same limit.
///
/// The RFC's longest wait is an hour, which protects servers in networks where routers
/// announce DHCP and no DHCP server answers. Here the wait is short, because an operator
/// waits for the machine.
pub const LONGEST_SEARCH: Duration = seconds(64);
/// The values, in seconds, to which a server may set the longest wait (RFC 8415,
/// 21.24).
pub const SERVERS_LIMIT: std::ops::RangeInclusive<u32> = 60..=86_400;

pub const SOLICIT: Rule = Rule {
    first: seconds(1),
    longest: Some(LONGEST_SEARCH),
    count: None,
    collects: true,
};
pub const REQUEST: Rule = Rule {
    first: seconds(1),
    longest: Some(seconds(30)),
    count: Some(10),
    collects: false,
};
pub const CONFIRM: Rule = Rule {
    first: seconds(1),
    longest: Some(seconds(4)),
    count: None,
    collects: false,
};
/// MRD of a Confirm: if no server answers within this time, the lease counts as
/// confirmed.
pub const CONFIRM_LIMIT: Duration = seconds(10);
/// The rule for Renew and Rebind.
pub const RENEW: Rule = Rule {
    first: seconds(10),
    longest: Some(seconds(600)),
    count: None,
    collects: false,
};
pub const DECLINE: Rule = Rule {
    first: seconds(1),
    longest: None,
    count: Some(4),
    collects: false,
};
pub const INFORMATION: Rule = Rule {
    first: seconds(1),
    longest: Some(LONGEST_SEARCH),
    count: None,
    collects: false,
};

/// The repetitions of one message.
#[derive(Debug, Clone)]
pub struct Repeats {
    rule: Rule,
    sent: u32,
    wait: Duration,
}

impl Repeats {
    /// The state before the first message.
    pub fn new(rule: Rule) -> Repeats {
        Repeats {
            rule,
            sent: 0,
            wait: Duration::ZERO,
        }
    }

    /// How often the message has been sent.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    pub fn set_longest(&mut self, longest: Duration) {
        self.rule.longest = Some(longest);
    }

    /// Counts a message that is sent now and returns how long to wait for answers.
    /// Returns `None` if the maximum number of messages has been sent. `random` is from
    /// -1 to 1.
    pub fn next(&mut self, random: f64) -> Option<Duration> {
        if self.rule.count.is_some_and(|count| self.sent >= count) {
            return None;
        }
        // RAND varies a wait by up to a tenth in either direction. For the first message
        // it is positive if the client collects answers during the wait.
        let mut random = random.clamp(-1.0, 1.0) / 10.0;
        if self.sent == 0 {
            if self.rule.collects {
                random = random.abs();
            }
            self.wait = self.rule.first.mul_f64(1.0 + random);
        } else {
            self.wait = self.wait.mul_f64(2.0 + random);
        }
        if let Some(longest) = self.rule.longest
            && self.wait > longest
        {
            self.wait = longest.mul_f64(1.0 + random);
        }
        self.sent += 1;
        Some(self.wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(rule: Rule, random: f64) -> Vec<f64> {
        let mut repeats = Repeats::new(rule);
        std::iter::from_fn(|| repeats.next(random))
            .take(9)
            .map(|wait| wait.as_secs_f64())
            .collect()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_end_where_there_is_an_end() {
        for (rule, expected) in [
            (SOLICIT, &[1., 2., 4., 8., 16., 32., 64., 64., 64.][..]),
            (REQUEST, &[1., 2., 4., 8., 16., 30., 30., 30., 30.]),
            (CONFIRM, &[1., 2., 4., 4., 4., 4., 4., 4., 4.]),
            (RENEW, &[10., 20., 40., 80., 160., 320., 600., 600., 600.]),
            (DECLINE, &[1., 2., 4., 8.]),
        ] {
            assert_eq!(waits(rule, 0.0), expected, "{rule:?}");
        }
        let mut request = Repeats::new(REQUEST);
        let times = std::iter::from_fn(|| request.next(0.0)).count();
        assert_eq!((times, request.sent()), (10, 10));
    }

    proptest! {
        #[test]
        fn every_wait_is_within_the_bounds_of_the_rfc(
            random in proptest::collection::vec(-1.0..1.0_f64, 1..20),
        ) {
            for rule in [SOLICIT, REQUEST, CONFIRM, RENEW, DECLINE, INFORMATION] {
                let mut repeats = Repeats::new(rule);
                let mut before = 0.0_f64;
                for random in &random {
                    let Some(wait) = repeats.next(*random) else {
                        break;
                    };
                    let wait = wait.as_secs_f64();
                    let most = rule.longest.map_or(f64::MAX, |longest| longest.as_secs_f64());
                    prop_assert!(wait <= most * 1.1 + 1e-6);
                    if before == 0.0 {
                        let first = rule.first.as_secs_f64();
                        let least = if rule.collects { first } else { first * 0.9 };
                        prop_assert!((least..=first * 1.1 + 1e-6).contains(&wait), "{}", wait);
                    } else {
                        prop_assert!(wait >= (before * 1.9).min(most * 0.9) - 1e-6);
                    }
                    before = wait;
                }
            }
        }
    }
}
