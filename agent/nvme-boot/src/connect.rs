//! Makes the connections: retries each connection until it is established or the time
//! limit has expired.
//!
//! An attempt blocks: about 3 s if nothing answers, and up to a minute if the storage
//! accepts the connection and then stays silent. So each attempt has its own thread,
//! and no attempt delays the time limits. The kernel still makes one connection at a
//! time (`nvmf_dev_mutex` in drivers/nvme/host/fabrics.c): a silent storage delays the
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use landfall_network::NetworkState;
use landfall_sys::backoff::Backoff;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::attempt::{Attempt, Fabrics, Refusal, attempt};
use crate::connection::Connection;

/// The most attempts at the same time: each one needs a thread.
const MOST_ATTEMPTS: usize = 16;

/// How often and how long to try.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The first and the longest pause between two attempts.
    pub first: Duration,
    pub longest: Duration,
    /// How long the caller waits for a subsystem.
    pub wait: Duration,
    /// How long it waits for a further path to subsystems that are connected.
    pub wait_for_paths: Duration,
    /// When the attempts end.
    pub limit: Duration,
}

/// How many connections are there in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub connected: usize,
    pub failed: usize,
}

/// A connection that is not there yet.
struct Pending {
    connection: Connection,
    state: State,
    backoff: Backoff,
    /// The result of the last attempt.
    refusal: Option<Refusal>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The next attempt begins at this time, if the NIC has an address by then.
    Waits(Instant),
    Attempts,
}

/// An attempt that has ended: which connection, and over which NIC.
type Ended = (usize, String, Result<Attempt, tokio::task::JoinError>);

/// Makes all connections, and logs the result of each. Calls `go_on` when the caller
/// has waited long enough for the missing connections; the attempts continue after
/// that.
///
/// Tries a connection when its NIC has an address, and retries after a pause with
/// jitter.
pub async fn connect_all(
    connections: Vec<Connection>,
    mut network: watch::Receiver<NetworkState>,
    fabrics: Arc<impl Fabrics>,
    pace: Pace,
    go_on: impl FnOnce(),
) -> Outcome {
    let began = Instant::now();
    let (end, mut go_on) = (began + pace.limit, Some(go_on));
    let mut outcome = Outcome::default();
    let mut connected = BTreeSet::new();
    let pending = connections.into_iter();
    let mut pending: BTreeMap<usize, Pending> = pending
        .map(|connection| Pending::new(connection, began, pace))
        .enumerate()
        .collect();
    let mut attempts = JoinSet::new();
    // If the network stage has ended, no NIC gets an address any more.
    let mut network_lives = true;
    while !pending.is_empty() {
        let now = Instant::now();
        if now >= end {
            break;
        }
        let state = network.borrow_and_update().clone();
        begin_due(&mut pending, &mut attempts, &fabrics, &state, now);
        let mut next = end;
        if let Some(call) = go_on.take() {
            let late = began + wait_limit(&pending, &connected, pace);
            if now >= late {
                report_late(&pending, &state, pace);
                call();
            } else {
                next = next.min(late);
                go_on = Some(call);
            }
        }
        let due = pending.values().filter_map(|pending| pending.due(&state));
        // What is due already waits for the end of another attempt.
        next = due.filter(|due| *due > now).fold(next, Instant::min);
        tokio::select! {
            Some(ended) = attempts.join_next() => {
                if let Ok(ended) = ended {
                    note(ended, &mut pending, &mut connected, &mut outcome, &state);
                }
            }
            changed = network.changed(), if network_lives => network_lives = changed.is_ok(),
            () = sleep_until(next) => {}
        }
    }
    outcome.failed += pending.len();
    for failed in pending.values() {
        failed.report_end(&network.borrow());
    }
    outcome
}

/// Begins the attempts that are due, the oldest ones first.
fn begin_due(
    pending: &mut BTreeMap<usize, Pending>,
    attempts: &mut JoinSet<Ended>,
    fabrics: &Arc<impl Fabrics>,
    network: &NetworkState,
    now: Instant,
) {
    let due = pending.iter_mut().filter_map(|(number, pending)| {
        let due = pending.due(network).filter(|due| *due <= now)?;
        Some((due, *number, pending))
    });
    let mut due: Vec<_> = due.collect();
    due.sort_by_key(|(due, number, _)| (*due, *number));
    let room = MOST_ATTEMPTS.saturating_sub(attempts.len());
    for (_, number, pending) in due.into_iter().take(room) {
        let Some(way) = pending.connection.way(network) else {
            continue;
        };
        let options = pending.connection.options(&way);
        tracing::debug!("connecting with {options}");
        pending.state = State::Attempts;
        let fabrics = Arc::clone(fabrics);
        attempts.spawn(async move {
            let attempt = tokio::task::spawn_blocking(move || attempt(&*fabrics, &options));
            (number, way.nic.unwrap_or_default(), attempt.await)
        });
    }
}

/// How long the caller waits, with what is there by now.
fn wait_limit(
    pending: &BTreeMap<usize, Pending>,
    connected: &BTreeSet<String>,
    pace: Pace,
) -> Duration {
    let has_path = |pending: &Pending| {
        pending.connection.unavailable || connected.contains(&pending.connection.subsystem)
    };
    match pending.values().all(has_path) {
        true => pace.wait_for_paths,
        false => pace.wait,
    }
}

fn report_late(pending: &BTreeMap<usize, Pending>, network: &NetworkState, pace: Pace) {
    for pending in pending.values() {
        tracing::warn!("{}", pending.line(network));
    }
    let minutes = pace.limit.as_secs() / 60;
    tracing::warn!(
        "the boot continues without these connections; the agent tries to make them for {minutes} min"
    );
}

/// Logs the result of an attempt, and decides whether there is another one.
fn note(
    (number, over, result): Ended,
    all: &mut BTreeMap<usize, Pending>,
    connected: &mut BTreeSet<String>,
    outcome: &mut Outcome,
    network: &NetworkState,
) {
    let Some(pending) = all.get_mut(&number) else {
        return;
    };
    let connection = &pending.connection;
    let refusal = match result {
        Ok(Attempt::Connected) => {
            tracing::info!("{connection} is connected over {over}");
            None
        }
        Ok(Attempt::WasConnected) => {
            tracing::info!("{connection} was connected already");
            None
        }
        Ok(Attempt::Failed(refusal)) => Some(refusal),
        Err(panicked) => Some(Refusal {
            cause: panicked.to_string(),
            remedy: "report this with the log",
            is_final: false,
        }),
    };
    let Some(refusal) = refusal else {
        outcome.connected += 1;
        connected.insert(connection.subsystem.clone());
        all.remove(&number);
        return;
    };
    let is_final = refusal.is_final;
    pending.refusal = Some(refusal);
    pending.state = State::Waits(Instant::now() + pending.backoff.pause());
    if is_final {
        pending.report_end(network);
        outcome.failed += 1;
        all.remove(&number);
    }
}

impl Pending {
    fn new(connection: Connection, now: Instant, pace: Pace) -> Self {
        Self {
            connection,
            state: State::Waits(now),
            backoff: Backoff::new(pace.first, pace.longest),
            refusal: None,
        }
    }

    /// When the next attempt can begin. `None` while an attempt is running, or while
    /// the NIC has no address.
    fn due(&self, network: &NetworkState) -> Option<Instant> {
        match self.state {
            State::Waits(due) => self.connection.way(network).map(|_| due),
            State::Attempts => None,
        }
    }

    fn line(&self, network: &NetworkState) -> String {
        let nic = self.connection.nic_in_words();
        let (cause, remedy) = match (&self.refusal, self.state) {
            (Some(refusal), _) => (refusal.cause.clone(), refusal.remedy),
            (None, State::Attempts) => (
                "the storage has not answered yet".to_owned(),
                "look at the state of the storage and at the path to it",
            ),
            (None, State::Waits(_)) if self.connection.way(network).is_none() => (
                format!("{nic} has no address yet"),
                "look whether the machine has this NIC, and whether its cable is plugged in",
            ),
            (None, State::Waits(_)) => (
                format!("{MOST_ATTEMPTS} other connections have no answer yet"),
                "look at the state of the storage and at the path to it",
            ),
        };
        let connection = &self.connection;
        format!("{connection} is not connected over {nic}: {cause} -- {remedy}")
    }

    fn report_end(&self, network: &NetworkState) {
        let line = self.line(network);
        match self.connection.unavailable {
            true => tracing::info!("{line}; the firmware could not reach it, either"),
            false => tracing::error!("{line}"),
        }
    }
}

#[cfg(test)]
mod tests;
