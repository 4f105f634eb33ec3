//! Makes the connections: tries each one again until it is there or the time is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use landfall_network::NetworkState;
use landfall_sys::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::attempt::{Attempt, Fabrics, Refusal, attempt};
use crate::connection::Connection;

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

/// What a connection still waits for.
struct Pending {
    connection: Connection,
    refusal: Refusal,
}

/// Makes all connections, and logs the result of each. Calls `go_on` when the caller has
/// waited long enough for the missing ones; the attempts continue after that.
///
/// A connection is tried when its NIC has an address, and again after a pause with jitter.
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
    let mut pending: Vec<Pending> = connections.into_iter().map(Pending::new).collect();
    let mut backoff = Backoff::new(pace.first, pace.longest);
    loop {
        let mut left = Vec::new();
        for pending in pending {
            let state = network.borrow_and_update().clone();
            match pending.attempt(&state, Arc::clone(&fabrics)).await {
                Ok(subsystem) => {
                    outcome.connected += 1;
                    connected.insert(subsystem);
                }
                Err(failed) if failed.refusal.is_final => {
                    failed.report_end();
                    outcome.failed += 1;
                }
                Err(failed) => left.push(failed),
            }
        }
        pending = left;
        let now = Instant::now();
        if pending.is_empty() || now >= end {
            break;
        }
        let has_path = |pending: &Pending| {
            pending.connection.unavailable || connected.contains(&pending.connection.subsystem)
        };
        let wait = match pending.iter().all(has_path) {
            true => pace.wait_for_paths,
            false => pace.wait,
        };
        if now >= began + wait
            && let Some(go_on) = go_on.take()
        {
            for pending in &pending {
                tracing::warn!("{}", pending.line());
            }
            let minutes = pace.limit.as_secs() / 60;
            tracing::warn!(
                "the boot continues without these connections; the agent tries to make them for {minutes} min"
            );
            go_on();
        }
        let pause = (now + backoff.pause()).min(end);
        // A NIC that gets its address ends the pause. If the network stage has ended, nothing
        // else can end it.
        let waits = pending
            .iter()
            .any(|pending| pending.awaits_address(&network));
        if !waits || !matches!(timeout_at(pause, network.changed()).await, Ok(Ok(()))) {
            tokio::time::sleep_until(pause).await;
        }
    }
    outcome.failed += pending.len();
    for failed in pending {
        failed.report_end();
    }
    outcome
}

impl Pending {
    fn new(connection: Connection) -> Self {
        let cause = format!("{} has no address yet", connection.nic_in_words());
        Self {
            connection,
            refusal: Refusal {
                cause,
                remedy: "look whether the machine has this NIC, and whether its cable is plugged in",
                is_final: false,
            },
        }
    }

    fn awaits_address(&self, network: &watch::Receiver<NetworkState>) -> bool {
        self.connection.way(&network.borrow()).is_none()
    }

    /// Connects if the NIC has an address. Returns the name of the subsystem.
    async fn attempt(
        mut self,
        network: &NetworkState,
        fabrics: Arc<impl Fabrics>,
    ) -> Result<String, Self> {
        let Some(way) = self.connection.way(network) else {
            return Err(self);
        };
        let options = self.connection.options(&way);
        tracing::debug!("connecting with {options}");
        // The kernel limits the call itself: seconds without an answer, and a minute for
        // a controller that answers late.
        let result = tokio::task::spawn_blocking(move || attempt(&*fabrics, &options)).await;
        let over = way.nic.unwrap_or_default();
        match result {
            Ok(Attempt::Connected) => {
                tracing::info!("{} is connected over {over}", self.connection);
                Ok(self.connection.subsystem)
            }
            Ok(Attempt::WasConnected) => {
                tracing::info!("{} was connected already", self.connection);
                Ok(self.connection.subsystem)
            }
            Ok(Attempt::Failed(refusal)) => {
                self.refusal = refusal;
                Err(self)
            }
            Err(panicked) => {
                self.refusal.cause = panicked.to_string();
                Err(self)
            }
        }
    }

    fn line(&self) -> String {
        let Refusal { cause, remedy, .. } = &self.refusal;
        format!(
            "{} is not connected over {}: {cause} -- {remedy}",
            self.connection,
            self.connection.nic_in_words()
        )
    }

    fn report_end(&self) {
        match self.connection.unavailable {
            true => tracing::info!("{}; the firmware could not reach it, either", self.line()),
            false => tracing::error!("{}", self.line()),
        }
    }
}

#[cfg(test)]
mod tests;
