//! Reports an unattended installation to an HTTP server of the operator
//! (`landfall.webhook`).
//!
//! The installation never waits for this server, except for a short time at the end,
//! before the machine restarts. docs/events.md describes the format of a report.

mod delivery;
mod pace;
mod queue;
mod report;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delivery::Delivery;
use landfall_boot_params::argument_value::WebhookUrl;
use landfall_http_client::ServiceClient;
use landfall_network::NetworkState;
use landfall_report::failure::Failure;
use landfall_report::status;
use pace::Pace;
use queue::Queue;
use report::{Report, What};
use tokio::sync::watch;
use tokio::time::timeout;

/// The reports of one installation. They are sent to the URL in the settings. Without a
/// URL they are dropped.
#[derive(Clone)]
pub struct Webhook(Option<Arc<Shared>>);

struct Shared {
    queue: Mutex<Queue>,
    /// Notified when the queue changes.
    changed: watch::Sender<()>,
    /// Whether the installation waits for the last report.
    hurry: watch::Sender<bool>,
}

impl Webhook {
    /// Drops every report.
    pub fn none() -> Self {
        Self(None)
    }

    /// Starts to send reports to this URL. Without a URL, every report is dropped.
    pub fn start(
        url: Option<&WebhookUrl>,
        client: &ServiceClient,
        network: watch::Receiver<NetworkState>,
    ) -> Self {
        let Some(url) = url else {
            return Self(None);
        };
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: watch::Sender::default(),
            hurry: watch::Sender::default(),
        });
        let delivery = Delivery::new(url, client, Arc::clone(&shared));
        tokio::spawn(delivery.run(network));
        tokio::spawn(report_progress(Arc::clone(&shared)));
        Self(Some(shared))
    }

    /// The installation begins.
    pub fn started(&self) {
        self.report(What::Started);
    }

    /// An attempt has failed, and the next one follows after `pause`.
    pub fn retrying(&self, failure: &Failure, pause: Duration) {
        self.report(What::retrying(failure, pause));
    }

    /// The system is installed. This is the last report.
    pub fn done(&self) {
        self.report(What::Done);
    }

    /// The installation has failed permanently. This is the last report.
    pub fn failed(&self, failure: &Failure) {
        self.report(What::failed(failure));
    }

    fn report(&self, what: What) {
        if let Some(shared) = &self.0 {
            shared.report(what);
        }
    }

    /// Waits until the last report is delivered or lost, but not longer than `bound`.
    /// Drops all earlier reports that have not been delivered yet.
    pub async fn wait_until_delivered(&self, bound: Duration) {
        let Some(shared) = &self.0 else { return };
        shared.queue().keep_only_last();
        shared.hurry.send_replace(true);
        let mut changed = shared.changed.subscribe();
        let delivered = changed.wait_for(|()| shared.queue().is_empty());
        if timeout(bound, delivered).await.is_err() {
            tracing::warn!(
                "the last report was not delivered within {} s; continuing without it",
                bound.as_secs()
            );
        }
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, what: What) {
        let report = Report::new(what);
        if self.queue().push(report) {
            self.changed.send_replace(());
        }
    }

    fn remove(&self, sequence: u64) {
        self.queue().remove(sequence);
        self.changed.send_replace(());
    }
}

/// Reports the start of each step and, at a bounded rate, its progress.
async fn report_progress(shared: Arc<Shared>) {
    let mut changes = status::changes();
    let mut pace = Pace::default();
    // The sender exists as long as the process.
    while changes.changed().await.is_ok() && !shared.queue().is_closed() {
        let is_due = pace.is_due(&changes.borrow_and_update(), Instant::now());
        if is_due {
            shared.report(What::Progress);
        }
    }
}

#[cfg(test)]
mod tests;
