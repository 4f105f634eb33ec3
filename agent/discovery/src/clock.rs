//! Corrects the machine's clock before a wrong time does harm.
//!
//! A board whose battery is empty starts in 1970 or 2010. Then no certificate is valid,
//! and the installed system inherits the wrong time. The agent trusts an NTP server
//! that the operator configures. Until an NTP server has set the clock, the agent also
//! trusts the `Date` header of the servers that it searches for. It does so if the
//! clock differs from the header by more than five minutes, or if a server's
//! certificate is not valid according to the clock. Neither source is authenticated:
//! docs/security-model.md describes what a forged time makes possible.

mod ntp;
mod ntp_retries;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use landfall_report::failure::Failure;
use landfall_sys::calendar;
use landfall_sys::wall_clock;

/// The earliest time of a correct clock: 2026-01-01. It is a constant and not the time
/// of the build, so that builds are reproducible.
const OLDEST: Duration = Duration::from_secs(1_767_225_600);
/// The end of the range of plausible times: 2099-12-31.
const NEWEST: Duration = Duration::from_secs(4_102_358_400);
/// The agent tolerates a smaller difference, because a maintained clock differs by less.
/// For a certificate that such a difference makes invalid, see
/// [`Occasion::RefusedCertificate`].
const TOLERATED: Duration = Duration::from_secs(300);
/// The first hardware clock of the machine.
const HARDWARE_CLOCK: &str = "/dev/rtc0";

/// The clock of this machine, and the sources that have set it. Clones share the
/// same clock.
#[derive(Debug, Clone)]
pub struct Clock {
    may_change: bool,
    sources: Arc<Sources>,
}

/// The sources that have set the clock.
#[derive(Debug, Default)]
struct Sources {
    /// True once an NTP server has set the clock. From then on the agent ignores `Date`
    /// headers, because NTP is more reliable.
    ntp: AtomicBool,
    any: AtomicBool,
    /// The console has already shown the warning about a `Date` that cannot be used.
    has_warned: AtomicBool,
}

/// The situation in which a server's date was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The date is part of a normal answer.
    Answer,
    /// The server's certificate is not valid according to our clock.
    RefusedCertificate,
}

impl Clock {
    /// The clock of a machine that the agent may change.
    pub fn of_this_machine() -> Self {
        Self {
            may_change: true,
            sources: Arc::default(),
        }
    }

    /// The clock of a machine that the agent must not change. The agent only logs a
    /// difference.
    pub fn of_another_system() -> Self {
        Self {
            may_change: false,
            ..Self::of_this_machine()
        }
    }

    /// Sets the clock from this NTP server, an address or a name.
    ///
    /// # Errors
    /// If the clock could not be set, with the reason.
    pub async fn set_by_ntp(&mut self, server: &str) -> Result<(), Failure> {
        let time = ntp::time_of(server).await;
        let time = time.map_err(|error| Failure::other(error.to_string()))?;
        if !is_plausible(time) {
            return Err(Failure::other(format!("{server}: {}", implausible(time))));
        }
        self.set(time, &format!("NTP server {server}"))
            .map_err(Failure::other)?;
        self.sources.ntp.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Compares the clock with the `Date` header of a server. Sets the clock if the
    /// difference is larger than `occasion` permits and no NTP server has set it. Returns
    /// whether the clock was set.
    pub fn compare_with(&mut self, date: &str, url: &str, occasion: Occasion) -> bool {
        if self.sources.ntp.load(Ordering::Relaxed) {
            return false;
        }
        let time = match time_of_date(date) {
            Ok(time) => time,
            Err(why) => {
                if self.is_first_useless_date() {
                    let hint = match self.may_change {
                        true => " -- if the clock of this machine is wrong, set ipa-ntp-server",
                        false => "",
                    };
                    tracing::warn!("the Date header of {url} is ignored: {why}{hint}");
                }
                return false;
            }
        };
        if !is_better(SystemTime::now(), time, occasion) {
            return false;
        }
        match self.set(time, &format!("the Date header of {url}")) {
            Ok(()) => self.may_change,
            Err(fault) => {
                tracing::warn!("{fault}");
                false
            }
        }
    }

    /// True on the first call of this boot, so that the agent logs the warning only
    /// once: a server sends the same kind of header with every answer.
    fn is_first_useless_date(&self) -> bool {
        !self.sources.has_warned.swap(true, Ordering::Relaxed)
    }

    fn set(&mut self, time: SystemTime, source: &str) -> Result<(), String> {
        let old = calendar::shown(SystemTime::now());
        let new = calendar::shown(time);
        if !self.may_change {
            tracing::warn!("{old} on this machine, {new} according to {source}; not set");
            return Ok(());
        }
        wall_clock::set_system_clock(time)
            .map_err(|error| format!("cannot set the clock from {old} to {new}: {error}"))?;
        self.sources.any.store(true, Ordering::Relaxed);
        tracing::info!("set from {old} to {new} by {source}");
        Ok(())
    }

    /// Writes the time to the hardware clock for the system that boots next, if any
    /// source has set the clock.
    pub fn save(&self) {
        let is_set = self.sources.any.load(Ordering::Relaxed);
        let Some(now) = calendar::civil(SystemTime::now()).filter(|_| is_set) else {
            return;
        };
        match wall_clock::set_hardware_clock(Path::new(HARDWARE_CLOCK), now) {
            Ok(()) => tracing::info!("hardware clock {HARDWARE_CLOCK} set"),
            Err(error) => {
                tracing::warn!("cannot set {HARDWARE_CLOCK}: {error}; its time stays wrong")
            }
        }
    }
}

/// The time of a `Date` header, or the reason why the agent cannot use it.
fn time_of_date(date: &str) -> Result<SystemTime, String> {
    let Some(time) = calendar::parse_http_date(date) else {
        // 40 characters are more than a date has, and few enough for one line.
        let start: String = date.chars().take(40).collect();
        return Err(format!(
            "expected a date such as Sun, 06 Nov 1994 08:49:37 GMT, found {start:?}"
        ));
    };
    match is_plausible(time) {
        true => Ok(time),
        false => Err(implausible(time)),
    }
}

fn implausible(time: SystemTime) -> String {
    let found = calendar::shown(time);
    format!("expected a time from 2026 to 2099, found {found}")
}

fn is_plausible(time: SystemTime) -> bool {
    let range = SystemTime::UNIX_EPOCH + OLDEST..SystemTime::UNIX_EPOCH + NEWEST;
    range.contains(&time)
}

/// Whether `proposed`, an unauthenticated time, is better than our own `now`. If a
/// certificate is rejected because of its dates, even a small difference may be the
/// cause. A forged date can make only those certificates valid that a trusted authority
/// has issued and that expired in 2026 or later or are not valid yet.
fn is_better(now: SystemTime, proposed: SystemTime, occasion: Occasion) -> bool {
    let apart = proposed
        .duration_since(now)
        .unwrap_or_else(|before| before.duration());
    let tolerated = match occasion {
        Occasion::Answer => TOLERATED,
        // A `Date` has whole seconds, and is a little old when it arrives.
        Occasion::RefusedCertificate => Duration::from_secs(2),
    };
    is_plausible(proposed) && (!is_plausible(now) || apart > tolerated)
}

#[cfg(test)]
mod tests;
