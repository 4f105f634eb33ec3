//! Tests the controller while the API server is not running.

use std::time::Duration;

use anyhow::Result;
use landfall_kubernetes_tests::{Cluster, RunningCopy, wait_for};

use crate::{network, nmstate};

/// How long the API server is stopped: the seconds in `LANDFALL_OUTAGE_SECONDS`, or a
/// minute.
fn outage() -> Duration {
    let seconds = std::env::var("LANDFALL_OUTAGE_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(60))
}

#[tokio::test]
async fn the_api_server_is_unavailable_for_a_minute() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let copy = RunningCopy::start_candidate(cluster.server.client("controller").await?, "pod-a")?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    cluster.create("host", Some("net")).await?;
    let status = cluster.accepted("host").await?;
    let url = status["imageUrl"].as_str().unwrap_or_default();

    // This resource is created so late that the controller may not have written its
    // status yet.
    cluster.create("late", Some("net")).await?;
    cluster.server.end();
    tokio::time::sleep(outage()).await;
    // The copy must still serve the image.
    assert!(copy.images.has(url).await?);
    assert_eq!(copy.ask("/healthz").await?.0, 200);
    assert_eq!(copy.ask("/readyz").await?.0, 200);
    wait_for("the end of the lease", || async {
        Ok((copy.metric("leader").await? == 0).then_some(()))
    })
    .await?;

    cluster.server.begin().await?;
    cluster.accepted("late").await?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.51"))
        .await?;
    let status = cluster.accepted("host").await?;
    let network = network("192.0.2.51");
    assert!(copy.images.are_of(&status, "host", &network).await?);
    copy.stop().await
}

/// The controller starts before the API server does.
#[tokio::test]
async fn a_start_without_an_api_server() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    cluster.create("host", None).await?;
    let client = cluster.server.client("controller").await?;
    cluster.server.end();
    let copy = RunningCopy::start(client)?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(copy.ask("/healthz").await?.0, 200);
    assert_eq!(copy.ask("/readyz").await?.0, 503);
    cluster.server.begin().await?;
    copy.ready().await?;
    cluster.accepted("host").await?;
    copy.stop().await
}
