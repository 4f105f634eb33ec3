//! The machine's clock: set before it does harm, by whoever knows better.
//!
//! A board whose battery is empty starts in 1970 or 2010: no certificate is
//! valid then, and the installed system inherits the wrong time. An NTP server
//! that the operator names is believed; without one, the provisioning service,
//! which this machine obeys in everything else, is believed where our clock is
//! obviously wrong.

mod ntp;
mod ntp_retries;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::calendar;
use crate::sys::wall_clock;

/// No clock that is right shows less: 2026-01-01. By hand and not by the build,
/// so that the same source gives the same bytes.
const OLDEST: Duration = Duration::from_secs(1_767_225_600);
/// No certificate that the agent meets is valid later: 2099-12-31.
const NEWEST: Duration = Duration::from_secs(4_102_358_400);
/// A clock that somebody looks after is off by less than this, and less does no
/// harm: what Ironic and certificates allow for is an hour.
const TOLERATED: Duration = Duration::from_secs(300);
/// The first hardware clock.
const HARDWARE_CLOCK: &str = "/dev/rtc0";

/// The clock of this machine, and who has set it. A clone is the same clock.
#[derive(Debug, Clone)]
pub struct Clock {
    may_change: bool,
    sources: Arc<Sources>,
}

/// Who has set the clock.
#[derive(Debug, Default)]
struct Sources {
    /// An NTP server, which is better than a `Date`.
    ntp: AtomicBool,
    any: AtomicBool,
}

/// Why a server's date is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// It came with an answer.
    Answer,
    /// The server's certificate is not valid by our clock.
    RefusedCertificate,
}

impl Clock {
    /// The clock of a machine that is ours.
    pub fn of_this_machine() -> Self {
        Self {
            may_change: true,
            sources: Arc::default(),
        }
    }

    /// A clock that is somebody else's: looked at, told about, never set.
    pub fn of_somebody() -> Self {
        Self {
            may_change: false,
            ..Self::of_this_machine()
        }
    }

    /// Sets the clock by this NTP server: an address or a name.
    ///
    /// # Errors
    /// Why it is not set.
    pub async fn set_by_ntp(&mut self, server: &str) -> Result<(), String> {
        let time = ntp::time_of(server).await?;
        if !is_plausible(time) {
            return Err(format!(
                "{server}: expected a time from 2026 to 2099, found {}",
                calendar::shown(time)
            ));
        }
        self.set(time, &format!("NTP server {server}"))?;
        self.sources.ntp.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Compares the clock with the `Date` that this service has sent, and sets
    /// it if it is obviously wrong. True if it was set.
    pub fn compare_with(&mut self, date: &str, url: &str, occasion: Occasion) -> bool {
        let now = SystemTime::now();
        let Some(time) = calendar::parse_http_date(date) else {
            return false;
        };
        if self.sources.ntp.load(Ordering::Relaxed) || !is_better(now, time, occasion) {
            return false;
        }
        match self.set(time, &format!("the Date of {url}")) {
            Ok(()) => self.may_change,
            Err(fault) => {
                tracing::warn!("{fault}");
                false
            }
        }
    }

    fn set(&mut self, time: SystemTime, source: &str) -> Result<(), String> {
        let old = calendar::shown(SystemTime::now());
        let new = calendar::shown(time);
        if !self.may_change {
            tracing::warn!("{old} here, {new} by {source}; not set");
            return Ok(());
        }
        wall_clock::set_system_clock(time)
            .map_err(|error| format!("setting it from {old} to {new}: {error}"))?;
        self.sources.any.store(true, Ordering::Relaxed);
        tracing::info!("set from {old} to {new} by {source}");
        Ok(())
    }

    /// Keeps the time for the system that boots next, if somebody has told it.
    pub fn save(&self) {
        let is_set = self.sources.any.load(Ordering::Relaxed);
        let Some(now) = calendar::civil(SystemTime::now()).filter(|_| is_set) else {
            return;
        };
        match wall_clock::set_hardware_clock(Path::new(HARDWARE_CLOCK), now) {
            Ok(()) => tracing::info!("{HARDWARE_CLOCK} set, too"),
            Err(error) => tracing::warn!("{HARDWARE_CLOCK}: {error}; it stays wrong"),
        }
    }
}

fn is_plausible(time: SystemTime) -> bool {
    let range = SystemTime::UNIX_EPOCH + OLDEST..SystemTime::UNIX_EPOCH + NEWEST;
    range.contains(&time)
}

/// Is `told`, which nobody vouches for, better than our own `now`? Where a
/// certificate is refused for its dates, a clock that is off by less may be the
/// reason. A lie makes no wrong certificate right, only an old one.
fn is_better(now: SystemTime, told: SystemTime, occasion: Occasion) -> bool {
    let apart = told
        .duration_since(now)
        .unwrap_or_else(|before| before.duration());
    let tolerated = match occasion {
        Occasion::Answer => TOLERATED,
        // A `Date` has whole seconds, and has travelled.
        Occasion::RefusedCertificate => Duration::from_secs(2),
    };
    is_plausible(told) && (!is_plausible(now) || apart > tolerated)
}

/// A header `Date`, for the fuzzer.
#[cfg(fuzzing)]
pub fn parse_date(text: &str) -> Option<SystemTime> {
    let time = calendar::parse_http_date(text)?;
    let _ = (calendar::civil(time), calendar::shown(time));
    Some(time)
}

#[cfg(test)]
mod tests;
