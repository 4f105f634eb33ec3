//! Measures how long the controller takes to make new resources Ready, and compares it
//! with a loop that only patches their status (`make bench`).

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::api::{ListParams, Patch, PatchParams};
use landfall_kubernetes_tests::{Cluster, NAMESPACE, RunningCopy, fleet, wait_for};
use serde_json::json;

const HOSTS: usize = 10_000;
/// The number of concurrent patches of the loop: the controller's default concurrency.
const AT_ONCE: usize = 32;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cluster = Cluster::start().await?;
    let one = patch(&cluster, 1).await?;
    let many = patch(&cluster, AT_ONCE).await?;
    fleet::create(&cluster, HOSTS, 0).await?;
    let controller = ready(&cluster).await?;
    fleet::create_secrets(&cluster, HOSTS, nmstate).await?;
    fleet::create(&cluster, HOSTS, 1).await?;
    let with_secrets = ready(&cluster).await?;
    let mut text = format!(
        "## Controller: {HOSTS} resources from empty to Ready\n\n| seconds | time | to one after the other | to {AT_ONCE} at once |\n|---|---|---|---|\n"
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
        (
            "the same with a Secret for each resource: also its network and its claim".to_owned(),
            with_secrets,
        ),
    ] {
        let time = time.as_secs_f64();
        let [to_one, to_many] = [one, many].map(|other| time / other.as_secs_f64());
        text += &format!("| {name} | {time:.1} | {to_one:.2} | {to_many:.2} |\n");
    }
    text += "\nThe ratios are the row's time divided by that of the loop.\n";
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Measures how long a new controller takes to write the status of all resources.
/// Deletes the resources afterwards.
async fn ready(cluster: &Cluster) -> Result<Duration> {
    let begin = Instant::now();
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    fleet::wait_for_writes(&copy, HOSTS).await?;
    let time = begin.elapsed();
    fleet::delete(cluster, HOSTS).await?;
    fleet::wait_until_empty(&copy).await?;
    // The controller removes the last finalizers after the last images.
    wait_for("the end of the resources", || async {
        let first = ListParams::default().limit(1);
        let list = cluster.resources().list(&first).await?;
        Ok(list.items.is_empty().then_some(()))
    })
    .await?;
    copy.stop().await?;
    Ok(time)
}

/// NMState for the host of this number, with an address of its own.
fn nmstate(number: usize) -> String {
    format!(
        "interfaces:\n- name: eno1\n  type: ethernet\n  state: up\n  ipv4:\n    enabled: true\n    \
         address:\n    - ip: 10.0.{}.{}\n      prefix-length: 16\n",
        number / 250,
        number % 250 + 1
    )
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
