//! The controller as a whole: watches, runs, lease and health.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::stream::{self, StreamExt as _};
use kube::Client;
use kube::runtime::controller::{self, Action, applier};
use kube::runtime::reflector;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::context::Context;
use crate::health::{self, Health};
use crate::images::Images;
use crate::leadership::{Candidate, Leadership};
use crate::resource::PreprovisioningImage;
use crate::run::reconcile;
use crate::run_error::RunError;
use crate::settings::Settings;
use crate::watches;

/// The time limit for the runs that are in progress when `stopped` completes.
const LAST_RUNS: Duration = Duration::from_secs(5);

/// One copy of the controller.
pub struct Controller {
    client: Client,
    images: Images,
    settings: Settings,
    health: Arc<Health>,
}

impl Controller {
    /// Creates a controller that is not started.
    #[must_use]
    pub fn new(client: Client, images: Images, settings: Settings) -> Self {
        Self {
            client,
            images,
            settings,
            health: Arc::new(Health::new()),
        }
    }

    /// The routes `/healthz`, `/readyz` and `/metrics`, which the caller must serve.
    pub fn health(&self) -> Router {
        health::router(Arc::clone(&self.health))
    }

    /// Runs until the future `stopped` completes. Then waits up to 5 s for the runs that
    /// are in progress, and releases the lease. The images stay published.
    pub async fn run(self, stopped: impl Future<Output = ()> + Send + 'static) {
        let (stop, mut stops) = watch::channel(false);
        tokio::spawn(async move {
            stopped.await;
            stop.send_replace(true);
        });
        let mut waits = stops.clone();
        let stopped = async move {
            // An error means that the sender was dropped, so the controller stops as
            // well.
            let _ = waits.wait_for(|stop| *stop).await;
        };
        let (candidate, leadership, only_copy) = match &self.settings.lease {
            Some(lease) => {
                let (candidate, leadership) = Candidate::new(self.client.clone(), lease.clone());
                (Some(candidate), leadership, None)
            }
            None => {
                let (sender, leadership) = Leadership::without_lease();
                (None, leadership, Some(sender))
            }
        };
        let show = show_leader(leadership.clone(), Arc::clone(&self.health));
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let compete = async move {
            if let Some(candidate) = candidate {
                // The lease is held until the last run has ended.
                let finished = async move {
                    let _ = finished.await;
                };
                candidate.run(finished).await;
            }
            drop(only_copy);
        };
        let work = async move {
            let runs = self.runs(leadership, stopped);
            tokio::pin!(runs);
            tokio::select! {
                () = &mut runs => {}
                () = async {
                    let _ = stops.wait_for(|stop| *stop).await;
                    sleep(LAST_RUNS).await;
                } => tracing::warn!("some runs did not end in time"),
            }
            let _ = finish.send(());
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(work, compete) } => {}
            () = show => {}
        }
    }

    /// Receives the events, and starts a run for each of them.
    async fn runs(self, leadership: Leadership, stopped: impl Future<Output = ()> + Send) {
        let (resources, resources_writer) = reflector::store();
        let (secrets, secrets_writer) = reflector::store();
        let concurrency = self.settings.concurrency;
        let context = Arc::new(Context::new(
            self.client,
            self.images,
            self.settings,
            leadership,
            self.health,
            resources.clone(),
            secrets,
        ));
        let requests = stream::select_all([
            watches::resources(resources_writer, &context),
            watches::secrets(secrets_writer, &context),
            watches::everything(&context),
        ]);
        let results = applier(
            |resource, context| Box::pin(reconcile(resource, context)),
            error_policy,
            context,
            resources,
            requests.take_until(Box::pin(stopped)),
            controller::Config::default().concurrency(concurrency),
        );
        // The error policy has logged every failure.
        results.for_each(|_| std::future::ready(())).await;
    }
}

fn error_policy(
    resource: Arc<PreprovisioningImage>,
    error: &RunError,
    context: Arc<Context>,
) -> Action {
    let key = resource.key();
    let unreachable = error.is_unreachable();
    let limits = &context.settings.retry;
    let delay = context.failures.delay(&key, unreachable, limits);
    if error.is_conflict() {
        tracing::debug!("{key}: {}", chain(error));
    } else {
        let seconds = delay.as_secs_f64();
        tracing::warn!("{key}: {}; trying again in {seconds:.1} s", chain(error));
    }
    Action::requeue(delay)
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// Keeps the metric of the leadership current.
async fn show_leader(leadership: Leadership, health: Arc<Health>) {
    loop {
        health.leader(leadership.is_held());
        sleep(Duration::from_secs(1)).await;
    }
}
