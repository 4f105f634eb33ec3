//! One copy of the controller, with its image service.

use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::body::Body;
use axum::http::Request;
use kube::Client;
use landfall_controller::{Controller, LeaseSettings, RetryLimits, Settings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::cluster::{NAMESPACE, wait_for};
use crate::images::ServedImages;

pub struct RunningCopy {
    pub images: ServedImages,
    health: axum::Router,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl RunningCopy {
    /// The settings of the tests: no lease, and retries after at most a second.
    #[must_use]
    pub fn settings() -> Settings {
        Settings {
            namespace: Some(NAMESPACE.to_owned()),
            extra_kernel_params: "quiet".to_owned(),
            retry: RetryLimits {
                longest: Duration::from_secs(1),
                longest_unreachable: Duration::from_secs(1),
                ..RetryLimits::default()
            },
            ..Settings::default()
        }
    }

    /// Starts the only copy, without a lease.
    ///
    /// # Errors
    /// As for [`RunningCopy::start_with`].
    pub fn start(client: Client) -> Result<Self> {
        Self::start_with(client, Self::settings())
    }

    /// Starts one of several copies, with a lease that expires after two seconds.
    /// `identity` is the name of the copy in the lease.
    ///
    /// # Errors
    /// As for [`RunningCopy::start_with`].
    pub fn start_candidate(client: Client, identity: &str) -> Result<Self> {
        let lease = LeaseSettings {
            duration: Duration::from_secs(2),
            renew_deadline: Duration::from_millis(1500),
            retry: Duration::from_millis(200),
            ..LeaseSettings::new(NAMESPACE, "landfall-controller", identity)
        };
        let settings = Settings {
            lease: Some(lease),
            ..Self::settings()
        };
        Self::start_with(client, settings)
    }

    /// Starts a copy with these settings.
    ///
    /// # Errors
    /// If the image service cannot listen.
    pub fn start_with(client: Client, settings: Settings) -> Result<Self> {
        // libtest shows the log if the test fails. An error means that another copy has
        // already installed the subscriber.
        let log = tracing_subscriber::fmt()
            .with_test_writer()
            .with_ansi(false);
        let _ = log.try_init();
        let (served, images) = ServedImages::start()?;
        let controller = Controller::new(client, images, settings);
        let health = controller.health();
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let task = tokio::spawn(controller.run(stopped));
        Ok(Self {
            images: served,
            health,
            stop: Some(stop),
            task,
        })
    }

    /// Ends without any clean-up, as after SIGKILL.
    pub async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
        self.images.stop().await;
    }

    /// Ends as after SIGTERM.
    ///
    /// # Errors
    /// If it does not end.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let end = tokio::time::timeout(Duration::from_secs(20), self.task);
        end.await.context("the controller does not end")??;
        self.images.stop().await;
        Ok(())
    }

    /// Waits until the readiness probe succeeds.
    ///
    /// # Errors
    /// If it does not.
    pub async fn ready(&self) -> Result<()> {
        wait_for("readiness", || async {
            let (status, _) = self.ask("/readyz").await?;
            Ok((status == 200).then_some(()))
        })
        .await
    }

    /// The value of a metric.
    ///
    /// # Errors
    /// If there is no such metric.
    pub async fn metric(&self, name: &str) -> Result<u64> {
        let (_, text) = self.ask("/metrics").await?;
        let prefix = format!("landfall_controller_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
        Ok(value
            .with_context(|| format!("{name} in\n{text}"))?
            .parse()?)
    }

    /// Sends a GET request to the health service. Returns the status code and the body.
    ///
    /// # Errors
    /// If the answer is not text.
    pub async fn ask(&self, path: &str) -> Result<(u16, String)> {
        let request = Request::get(path).body(Body::empty())?;
        let answer = self.health.clone().oneshot(request).await?;
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await?;
        Ok((status, String::from_utf8(bytes.into())?))
    }
}
