//! Tests events that the watches do not report, or report late.

use std::time::{Duration, Instant};

use anyhow::Result;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use landfall_controller::Settings;
use landfall_kubernetes_tests::{Cluster, Gate, RunningCopy, wait_for};

use crate::nmstate;

/// Another copy removes resources while this one makes its first runs.
#[tokio::test]
async fn a_resource_that_disappears_before_its_first_run() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    for name in ["a", "b", "c"] {
        cluster.create(name, Some("net")).await?;
    }
    let gate = Gate::open();
    gate.hold("/secrets/net");
    let settings = Settings {
        concurrency: 1,
        ..RunningCopy::settings()
    };
    let copy = RunningCopy::start_with(gate.client(&cluster.server).await?, settings)?;
    gate.until_held(1).await?;
    // With a concurrency of 1, only one resource has its finalizer. Its run waits for
    // the Secret. The test deletes the other two resources.
    let mut deleted = 0;
    for name in ["a", "b", "c"] {
        let resources = cluster.resources();
        if resources.get(name).await?.finalizers().is_empty() {
            resources.delete(name, &DeleteParams::default()).await?;
            deleted += 1;
        }
    }
    assert_eq!(deleted, 2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(copy.ask("/readyz").await?.0, 503);
    gate.release();
    copy.ready().await?;
    copy.stop().await
}

/// The API server has forgotten the deletion when the watch continues.
#[tokio::test]
async fn a_secret_deleted_while_the_watch_is_interrupted() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let gate = Gate::open();
    let copy = RunningCopy::start(gate.client(&cluster.server).await?)?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    cluster.create("host", Some("net")).await?;
    cluster.accepted("host").await?;

    gate.hold("/secrets?");
    cluster.server.end();
    cluster.server.begin().await?;
    let secrets = cluster.secrets();
    secrets.delete("net", &DeleteParams::default()).await?;
    // The watch cache of the restarted API server begins after the deletion, so the API
    // server rejects the resource version of the interrupted watch as too old.
    cluster.server.end();
    cluster.server.begin().await?;
    // An accepted resource proves that the watch of the resources has continued.
    cluster.create("other", None).await?;
    cluster.accepted("other").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    gate.release();
    cluster.error("host", "MissingNetworkData").await?;
    copy.stop().await
}

/// The controller watches the Secrets with a label that the Secrets with BMC passwords
/// have, too. So it must request the metadata only.
#[tokio::test]
async fn the_watch_of_secrets_reads_no_content() -> Result<()> {
    let cluster = Cluster::start().await?;
    let gate = Gate::open();
    let copy = RunningCopy::start(gate.client(&cluster.server).await?)?;
    copy.ready().await?;
    let requests = wait_for("the watch", || async {
        let mut requests = gate.seen();
        requests.retain(|request| request.target.contains("/secrets?"));
        Ok((requests.len() >= 2).then_some(requests))
    })
    .await?;
    for request in requests {
        assert!(
            request.accept.contains("as=PartialObjectMetadata"),
            "{request:?}"
        );
    }
    copy.stop().await
}

/// Kubernetes kills a pod that does not end in time, and with it the transfers to the
/// BMCs.
#[tokio::test]
async fn the_end_without_an_answer_of_the_api_server() -> Result<()> {
    let cluster = Cluster::start().await?;
    let gate = Gate::open();
    let copy = RunningCopy::start_candidate(gate.client(&cluster.server).await?, "pod-a")?;
    wait_for("the lease", || async {
        Ok((copy.metric("leader").await? == 1).then_some(()))
    })
    .await?;
    gate.hold("");
    let begin = Instant::now();
    copy.stop().await?;
    assert!(begin.elapsed() < Duration::from_secs(9), "{begin:?}");
    Ok(())
}
