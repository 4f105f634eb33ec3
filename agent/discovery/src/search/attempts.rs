//! The attempts over one NIC, or without a chosen NIC: when the next attempt begins,
//! and what the console shows about a failed attempt.

use std::collections::BTreeSet;
use std::time::Duration;

use landfall_http_client::NoAnswer;
use landfall_network::state::AddressState;
use landfall_report::failure::split_remedy;
use landfall_sys::backoff::Backoff;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::walk::Start;

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// A switch port with spanning tree forwards packets only 30 to 50 s after its carrier
/// comes up. With this longest pause, the next attempt starts at most 10 s after the port
/// begins to forward.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After this many attempts a quick success is unlikely, so the pauses get
/// longer.
const TRIES_IN_HASTE: u32 = 15;
const LONGEST_PAUSE_LATER: Duration = Duration::from_secs(60);

/// The state of the search over one NIC, or without a chosen NIC.
pub(super) struct Try {
    pub start: Option<Start>,
    /// The addresses of the NIC during the attempts.
    pub addresses: Vec<AddressState>,
    pub backoff: Backoff,
    pub failures: u32,
    /// The URLs of untrusted servers that the console already shows.
    pub reported: BTreeSet<String>,
    pub state: TryState,
}

pub(super) enum TryState {
    Walking(u64, AbortHandle),
    Pausing(Instant),
}

impl Try {
    pub fn new(start: Option<Start>, addresses: Vec<AddressState>) -> Self {
        Self {
            start,
            addresses,
            backoff: Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE),
            failures: 0,
            reported: BTreeSet::new(),
            state: TryState::Pausing(Instant::now()),
        }
    }

    pub fn failed(&mut self) -> Duration {
        self.failures += 1;
        if self.failures == TRIES_IN_HASTE {
            self.backoff = Backoff::new(LONGEST_PAUSE, LONGEST_PAUSE_LATER);
        }
        let pause = self.backoff.pause();
        self.state = TryState::Pausing(Instant::now() + pause);
        pause
    }

    /// Reports a failed attempt. An untrusted certificate is reported only once,
    /// because only an operator can fix it.
    pub fn report(&mut self, url: &str, fault: &NoAnswer, pause: Duration) {
        let text = &fault.text;
        if self.is_already_reported(url, fault) {
            return tracing::debug!("no answer from {url}: {text}");
        }
        self.log(&format!("no answer from {url}"), text, pause);
    }

    /// Compares only URLs: the reason contains the current time, so it differs at
    /// each attempt.
    pub fn is_already_reported(&mut self, url: &str, fault: &NoAnswer) -> bool {
        fault.untrusted_for_good && !self.reported.insert(url.to_owned())
    }

    pub fn log(&self, what: &str, fault: &str, pause: Duration) {
        let again = format!("again in {:.0} s", pause.as_secs_f64().ceil());
        let (fault, remedy) = split_remedy(fault);
        match &self.start {
            Some(start) => {
                let name = &start.name;
                tracing::warn!("{what}: {name}: {fault}; {again}{remedy}");
            }
            None => tracing::debug!("{what}: {fault}; {again}{remedy}"),
        }
    }
}

impl Drop for Try {
    fn drop(&mut self) {
        if let TryState::Walking(_, task) = &self.state {
            task.abort();
        }
    }
}
