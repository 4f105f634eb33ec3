//! Many resources at once.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::api::DeleteParams;

use crate::cluster::Cluster;
use crate::running_copy::RunningCopy;

/// The maximum number of concurrent requests of the test.
const AT_ONCE: usize = 32;
/// The time limit for a pause in which the controller starts no further run.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// The name of a host.
#[must_use]
pub fn name(number: usize) -> String {
    format!("host-{number:05}")
}

/// Creates resources. Each resource whose number is a multiple of `every` names a
/// Secret. If `every` is 0, none does.
///
/// # Errors
/// If the API server refuses one.
pub async fn create(cluster: &Cluster, count: usize, every: usize) -> Result<()> {
    let one = |number: usize| async move {
        let secret = number
            .checked_rem(every)
            .and_then(|rest| (rest == 0).then(|| secret_name(number / every)));
        cluster.create(&name(number), secret.as_deref()).await
    };
    all(count, one).await
}

/// Creates Secrets with NMState. `text` returns the NMState for a number from 0.
///
/// # Errors
/// If the API server refuses one.
pub async fn create_secrets(
    cluster: &Cluster,
    count: usize,
    text: impl Fn(usize) -> String,
) -> Result<()> {
    let text = &text;
    let one = |number| async move {
        let text = text(number);
        cluster
            .put_secret(&secret_name(number), "nmstate", &text)
            .await
    };
    all(count, one).await
}

/// Deletes resources. Their finalizers may keep them for a while.
///
/// # Errors
/// If the API server refuses to.
pub async fn delete(cluster: &Cluster, count: usize) -> Result<()> {
    let one = |number| async move {
        let (resources, parameters) = (cluster.resources(), DeleteParams::default());
        resources.delete(&name(number), &parameters).await?;
        Ok(())
    };
    all(count, one).await
}

fn secret_name(number: usize) -> String {
    format!("network-{number:05}")
}

async fn all<F: Future<Output = Result<()>>>(count: usize, one: impl Fn(usize) -> F) -> Result<()> {
    let requests = stream::iter(0..count).map(one).buffer_unordered(AT_ONCE);
    requests.try_for_each(|()| std::future::ready(Ok(()))).await
}

/// Waits until the controller has written `count` statuses.
///
/// # Errors
/// If it makes no progress.
pub async fn wait_for_writes(copy: &RunningCopy, count: usize) -> Result<()> {
    until(copy, "status_writes_total", |writes| writes >= count as u64).await
}

/// Waits until the controller reports that it is ready.
///
/// # Errors
/// If the controller makes no progress.
pub async fn wait_until_ready(copy: &RunningCopy) -> Result<()> {
    let progress = until(copy, "ready", |ready| ready == 1);
    progress.await
}

/// Waits until no image is published.
///
/// # Errors
/// If the controller makes no progress.
pub async fn wait_until_empty(copy: &RunningCopy) -> Result<()> {
    until(copy, "published_images", |count| count == 0).await
}

async fn until(copy: &RunningCopy, metric: &str, enough: impl Fn(u64) -> bool) -> Result<()> {
    let mut last = (0, Instant::now());
    loop {
        if enough(copy.metric(metric).await?) {
            return Ok(());
        }
        let runs = copy.metric("runs_total").await?;
        if runs != last.0 {
            last = (runs, Instant::now());
        } else if last.1.elapsed() > LONGEST_PAUSE {
            bail!("{metric}: no progress after {runs} runs");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
