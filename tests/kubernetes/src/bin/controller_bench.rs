//! How long the controller takes to bring resources from empty to Ready, next to a
//! loop that only patches their status (`make bench`).

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::api::{Patch, PatchParams};
use landfall_kubernetes_tests::{Cluster, NAMESPACE, RunningCopy, fleet};
use serde_json::json;

const HOSTS: usize = 10_000;
/// As many as the controller has runs at the same time.
const AT_ONCE: usize = 32;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cluster = Cluster::start().await?;
    let one = patch(&cluster, 1).await?;
    let many = patch(&cluster, AT_ONCE).await?;
    fleet::create(&cluster, HOSTS, 0).await?;
    let begin = Instant::now();
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    fleet::wait_for_writes(&copy, HOSTS).await?;
    let controller = begin.elapsed();
    copy.stop().await?;
    let mut text = format!(
        "## Controller: {HOSTS} resources from empty to Ready\n\n| seconds | time | ratio |\n|---|---|---|\n"
    );
    for (name, time) in [
        (
            "a loop that patches each status, one after the other".to_owned(),
            one,
        ),
        (format!("the same, {AT_ONCE} at once"), many),
        (
            format!("controller, {AT_ONCE} at once: finalizer and status"),
            controller,
        ),
    ] {
        let ratio = controller.as_secs_f64() / time.as_secs_f64();
        text += &format!("| {name} | {:.1} | {ratio:.2} |\n", time.as_secs_f64());
    }
    text += "\nThe ratio is the controller's time divided by that of the row.\n";
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Creates all resources, writes a status of the usual size to each, and deletes
/// them. Returns the time of the writes.
async fn patch(cluster: &Cluster, at_once: usize) -> Result<Duration> {
    fleet::create(cluster, HOSTS, 0).await?;
    let condition = |kind: &str, status: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": "ImageSuccess", "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-08-01T12:00:00Z",
        })
    };
    let url = "http://192.0.2.1/0123456789abcdef0123456789abcdef/host-00000.iso";
    let status = json!({"status": {
        "imageUrl": url, "format": "iso", "architecture": "x86_64", "networkData": {},
        "conditions": [
            condition("Ready", "True", "Generated image"),
            condition("Error", "False", ""),
        ],
    }});
    let status = &Patch::Merge(status);
    let client = cluster.server.client("controller").await?;
    let resources =
        &kube::Api::<landfall_controller::PreprovisioningImage>::namespaced(client, NAMESPACE);
    let begin = Instant::now();
    stream::iter(0..HOSTS)
        .map(|number| async move {
            let name = fleet::name(number);
            resources
                .patch_status(&name, &PatchParams::default(), status)
                .await
        })
        .buffer_unordered(at_once)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    let time = begin.elapsed();
    fleet::delete(cluster, HOSTS).await?;
    Ok(time)
}
