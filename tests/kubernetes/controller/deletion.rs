//! Tests the deletion of a resource, and its transfer to another controller.

use std::time::Duration;

use anyhow::Result;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use landfall_kubernetes_tests::{Cluster, RunningCopy, wait_for};
use serde_json::json;

/// baremetal-operator keeps its finalizer until the host no longer needs the image.
#[tokio::test]
async fn the_image_stays_while_another_finalizer_stays() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    cluster.create("host", None).await?;
    cluster.accepted("host").await?;
    let ours = cluster.resources().get("host").await?.finalizers().to_vec();
    let mut both = ours.clone();
    both.push("metal3.io/test".to_owned());
    cluster
        .change("host", json!({"metadata": {"finalizers": both}}))
        .await?;
    cluster
        .resources()
        .delete("host", &DeleteParams::default())
        .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(copy.images.count(), 1);
    assert_eq!(cluster.resources().get("host").await?.finalizers(), both);
    cluster
        .change("host", json!({"metadata": {"finalizers": ours}}))
        .await?;
    wait_for("the end of the resource", || async {
        Ok(cluster
            .resources()
            .get_opt("host")
            .await?
            .is_none()
            .then_some(()))
    })
    .await?;
    assert_eq!(copy.images.count(), 0);

    // Somebody removes all finalizers by hand, so the resource disappears at once.
    cluster.create("host", None).await?;
    cluster.accepted("host").await?;
    cluster
        .change("host", json!({"metadata": {"finalizers": both}}))
        .await?;
    cluster
        .resources()
        .delete("host", &DeleteParams::default())
        .await?;
    cluster
        .change("host", json!({"metadata": {"finalizers": null}}))
        .await?;
    wait_for("the end of the image", || async {
        Ok((copy.images.count() == 0).then_some(()))
    })
    .await?;
    copy.stop().await
}

#[tokio::test]
async fn a_resource_of_assisted_service() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    let label = json!({"metadata": {"labels": {"infraenvs.agent-install.openshift.io": "a"}}});
    cluster.create("host", None).await?;
    cluster.accepted("host").await?;
    // The resource gets the label when it has an image already.
    cluster.change("host", label).await?;
    wait_for("our finalizer to go", || async {
        let resource = cluster.resources().get("host").await?;
        Ok(resource.finalizers().is_empty().then_some(()))
    })
    .await?;
    assert_eq!(copy.images.count(), 0);
    let before = cluster.resources().get("host").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = cluster.resources().get("host").await?;
    assert_eq!(before.resource_version(), after.resource_version());
    // No finalizer of ours delays the deletion.
    cluster.delete("host").await?;
    copy.stop().await
}
