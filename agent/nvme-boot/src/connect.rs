//! Makes the connections: retries each connection until it is established or the time
//! limit has expired.
//!
//! The kernel makes one connection at a time (`nvmf_dev_mutex` in
//! drivers/nvme/host/fabrics.c). A storage that does not answer delays the others: for 3 s
//! if it does not accept a TCP connection, for 10 s if it accepts one and stays silent. So
//! the agent first asks all storages at the same time whether they answer
//! ([`crate::probe`]). Only storages that have answered go to the kernel, one after the
//! other. The first path to each subsystem takes precedence over further paths, and a
//! connection that the kernel could not make comes after the other connections.
//!
//! The kernel may still need up to a minute if a storage answers the agent and then
//! becomes silent. So each attempt has a thread of its own, and the time limits do not
//! wait for this thread.

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
use crate::probe::ProbeFault;

/// How often and how long to try.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The first and the longest pause between two attempts.
    pub first: Duration,
    pub longest: Duration,
    /// How long the caller waits for a subsystem that has no connection yet.
    pub wait: Duration,
    /// How long the caller waits if it misses only further paths to connected subsystems,
    /// or connections that the firmware could not make either.
    pub wait_for_paths: Duration,
    /// How long after the start the attempts end.
    pub limit: Duration,
}

/// The number of connections that were made, and of connections that failed.
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
    /// Why the last attempt failed; `None` before the first failure.
    refusal: Option<Refusal>,
    /// How often the kernel could not connect.
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next attempt begins at this time, if the NIC has an address by then.
    Waits(Instant),
    /// The agent asks the storage.
    Asks,
    /// The storage answered at this time. The kernel has not been asked yet.
    Answered(Instant),
    /// The kernel connects.
    Connects,
}

/// A part of an attempt that has ended.
enum Ended {
    Probe(Result<(), ProbeFault>),
    /// The result of the kernel's attempt, and the NIC.
    Attempt(Result<Attempt, tokio::task::JoinError>, String),
}

/// Makes all connections, and logs the result of each. Calls `go_on` when the caller
/// has waited long enough for the missing connections; the attempts continue after
/// that.
///
/// Tries a connection when its NIC has an address, and retries after a pause with
/// jitter. Asks all storages at the same time, so the caller limits their number.
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
    let mut attempts: JoinSet<(usize, Ended)> = JoinSet::new();
    // If the network stage has ended, no NIC gets an address any more.
    let mut network_lives = true;
    while !pending.is_empty() {
        let now = Instant::now();
        if now >= end {
            break;
        }
        let state = network.borrow_and_update().clone();
        ask_due(&mut pending, &mut attempts, &fabrics, &state, now);
        connect_next(&mut pending, &mut attempts, &fabrics, &state, &connected);
        let mut next = end;
        if let Some(call) = go_on.take() {
            let late = began + wait_limit(&pending, &connected, pace);
            if now >= late {
                report_late(&pending, pace);
                call();
            } else {
                next = next.min(late);
                go_on = Some(call);
            }
        }
        let due = pending.values().filter_map(|pending| pending.due(&state));
        next = due.fold(next, Instant::min);
        tokio::select! {
            Some(ended) = attempts.join_next() => {
                if let Ok(ended) = ended {
                    note(ended, &mut pending, &mut connected, &mut outcome);
                }
            }
            changed = network.changed(), if network_lives => network_lives = changed.is_ok(),
            () = sleep_until(next) => {}
        }
    }
    outcome.failed += pending.len();
    for failed in pending.values() {
        failed.report_end();
    }
    outcome
}

/// Asks the storages whose attempt is due.
fn ask_due(
    pending: &mut BTreeMap<usize, Pending>,
    attempts: &mut JoinSet<(usize, Ended)>,
    fabrics: &Arc<impl Fabrics>,
    network: &NetworkState,
    now: Instant,
) {
    for (&number, pending) in pending {
        let is_due = pending.due(network).is_some_and(|due| due <= now);
        let Some(way) = pending.connection.way(network).filter(|_| is_due) else {
            continue;
        };
        pending.state = State::Asks;
        let (fabrics, connection) = (Arc::clone(fabrics), pending.connection.clone());
        attempts.spawn(async move {
            let answer = fabrics.probe(&connection, &way).await;
            (number, Ended::Probe(answer))
        });
    }
}

/// Gives the kernel the next connection, unless it is busy with one.
fn connect_next(
    pending: &mut BTreeMap<usize, Pending>,
    attempts: &mut JoinSet<(usize, Ended)>,
    fabrics: &Arc<impl Fabrics>,
    network: &NetworkState,
    connected: &BTreeSet<String>,
) {
    if (pending.values()).any(|pending| pending.state == State::Connects) {
        return;
    }
    let answered = pending.iter_mut().filter_map(|(number, pending)| {
        let State::Answered(since) = pending.state else {
            return None;
        };
        let has_path = connected.contains(&pending.connection.subsystem);
        let unlikely = pending.connection.unavailable;
        let order = (has_path, pending.failures, unlikely, since, *number);
        let Some(way) = pending.connection.way(network) else {
            // The NIC has lost its address.
            pending.state = State::Waits(since);
            return None;
        };
        Some((order, pending, way))
    });
    let first = answered.min_by_key(|(order, ..)| *order);
    let Some(((.., number), pending, way)) = first else {
        return;
    };
    let options = pending.connection.options(&way);
    tracing::debug!("connecting with {options}");
    pending.state = State::Connects;
    let fabrics = Arc::clone(fabrics);
    attempts.spawn(async move {
        let attempt = tokio::task::spawn_blocking(move || attempt(&*fabrics, &options));
        let over = way.nic.unwrap_or_default();
        (number, Ended::Attempt(attempt.await, over))
    });
}

/// How long after the start the caller may continue, given the connections that are still
/// missing.
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

fn report_late(pending: &BTreeMap<usize, Pending>, pace: Pace) {
    for pending in pending.values() {
        tracing::warn!("{}", pending.line());
    }
    let minutes = pace.limit.as_secs() / 60;
    tracing::warn!(
        "the boot continues without these connections; the agent tries to make them for {minutes} min"
    );
}

/// Logs the result of an attempt, and decides whether there is another one.
fn note(
    (number, ended): (usize, Ended),
    all: &mut BTreeMap<usize, Pending>,
    connected: &mut BTreeSet<String>,
    outcome: &mut Outcome,
) {
    let Some(pending) = all.get_mut(&number) else {
        return;
    };
    let connection = &pending.connection;
    let refusal = match ended {
        Ended::Probe(Ok(())) => {
            pending.state = State::Answered(Instant::now());
            return;
        }
        Ended::Probe(Err(fault)) => Some(fault.into()),
        Ended::Attempt(Ok(Attempt::Connected), over) => {
            tracing::info!("{connection} is connected over {over}");
            None
        }
        Ended::Attempt(Ok(Attempt::WasConnected), _) => {
            tracing::info!("{connection} was connected already");
            None
        }
        Ended::Attempt(Ok(Attempt::Failed(refusal)), _) => {
            pending.failures += 1;
            Some(refusal)
        }
        Ended::Attempt(Err(panicked), _) => Some(Refusal {
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
        pending.report_end();
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
            failures: 0,
        }
    }

    /// When the next attempt can begin. `None` while an attempt is running, or while
    /// the NIC has no address.
    fn due(&self, network: &NetworkState) -> Option<Instant> {
        match self.state {
            State::Waits(due) => self.connection.way(network).map(|_| due),
            State::Asks | State::Answered(_) | State::Connects => None,
        }
    }

    fn line(&self) -> String {
        let nic = self.connection.nic_in_words();
        let (cause, remedy) = match (&self.refusal, self.state) {
            (Some(refusal), _) => (refusal.cause.clone(), refusal.remedy),
            (None, State::Waits(_)) => (
                format!("{nic} has no address yet"),
                "look whether the machine has this NIC, and whether its cable is plugged in",
            ),
            (None, State::Asks | State::Connects) => (
                "the storage has not answered yet".to_owned(),
                "look at the state of the storage and at the path to it",
            ),
            (None, State::Answered(_)) => (
                "the kernel is still busy with another connection".to_owned(),
                "look at the state of the other storages that are not connected",
            ),
        };
        let connection = &self.connection;
        format!("{connection} is not connected over {nic}: {cause} -- {remedy}")
    }

    fn report_end(&self) {
        let line = self.line();
        match self.connection.unavailable {
            true => tracing::info!("{line}; the firmware could not reach it, either"),
            false => tracing::error!("{line}"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
