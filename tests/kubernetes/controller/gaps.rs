//! What the watches do not report, or report late.

use std::time::Duration;

use anyhow::Result;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use landfall_controller::Settings;
use landfall_kubernetes_tests::{Cluster, Gate, RunningCopy};

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
    // The first one has the finalizer, and waits for its Secret.
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
