//! Reads the timeouts `rd.net.timeout.*` and `rd.net.dhcp.retry=`.

use crate::cmdline::{CommandLine, Token};

/// NetworkManager's time limit of one DHCP transaction, in seconds.
const DHCP: u32 = 90;

/// How long NetworkManager waits for the second address family once the first one is up.
const IP_REQUIRED_MS: u32 = 20_000;

/// The longest time that NetworkManager stores, in seconds or milliseconds, depending
/// on the argument. `infinity` stands for this value.
pub(super) const LONGEST: u32 = i32::MAX as u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Seconds, already multiplied by the number of attempts.
    pub(super) dhcp: u32,
    /// Seconds, if given.
    pub(super) carrier: Option<u32>,
    pub(super) ip_required_ms: u32,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            dhcp: DHCP,
            carrier: None,
            ip_required_ms: IP_REQUIRED_MS,
        }
    }
}

impl Times {
    pub(super) fn read(line: &CommandLine, warnings: &mut Vec<String>) -> Times {
        let mut times = Times::default();
        let mut attempts = 1;
        for token in line.tokens() {
            let text = &token.text;
            let (is_read, expected) = match token.key.as_str() {
                "rd.net.timeout.dhcp" => (
                    assign(&mut times.dhcp, seconds(token, 1, LONGEST)),
                    "1 to 2147483647 s or infinity",
                ),
                "rd.net.dhcp.retry" => (
                    assign(&mut attempts, number(token, 1, LONGEST)),
                    "a number from 1 to 2147483647",
                ),
                "rd.net.timeout.carrier" => {
                    let found = number(token, 0, LONGEST);
                    // The warning says "the default is used", because the value of an
                    // earlier argument does not take effect in this case.
                    if found.is_none() {
                        warnings.push(format!(
                            "{text}: expected 0 to {LONGEST} s; the default is used"
                        ));
                    }
                    times.carrier = found.filter(|seconds| *seconds != 0);
                    continue;
                }
                "rd.net.timeout.ip-required" => {
                    let found = seconds(token, 0, LONGEST / 1000);
                    let found = found.map(|seconds| seconds.saturating_mul(1000).min(LONGEST));
                    (
                        assign(&mut times.ip_required_ms, found),
                        "0 to 2147483 s or infinity",
                    )
                }
                _ => continue,
            };
            if !is_read {
                warnings.push(format!("{text}: expected {expected}; ignored"));
            }
        }
        times.dhcp = times.dhcp.saturating_mul(attempts).min(LONGEST);
        times
    }
}

fn assign(value: &mut u32, found: Option<u32>) -> bool {
    *value = found.unwrap_or(*value);
    found.is_some()
}

fn seconds(token: &Token, least: u32, most: u32) -> Option<u32> {
    match token.value_or_empty() {
        "infinity" => Some(LONGEST),
        _ => number(token, least, most),
    }
}

fn number(token: &Token, least: u32, most: u32) -> Option<u32> {
    let found = token.value_or_empty().trim().parse().ok();
    found.filter(|number| (least..=most).contains(number))
}
