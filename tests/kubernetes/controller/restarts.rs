//! Tests a crash of the controller at each of its writes, before or after the write
//! takes effect. Also tests a restart.

use anyhow::{Result, ensure};
use landfall_kubernetes_tests::{Cluster, Crash, RunningCopy, When, wait_for};

use crate::{network, nmstate};

/// The number of writes in [`life`]: finalizer, claim of the Secret and status after
/// the creation; "not ready" and status after the change of the Secret; removal of the
/// finalizer.
const WRITES: usize = 6;

#[tokio::test]
async fn a_crash_at_each_write() -> Result<()> {
    let cluster = Cluster::start().await?;
    for when in [When::Before, When::After] {
        for at in 1..=WRITES {
            let name = format!("host-{at}-{when:?}").to_lowercase();
            crash_once(&cluster, &name, at, when).await?;
        }
    }
    // Without a crash there are exactly [`WRITES`] writes, so the loop above has tested
    // them all.
    let crash = Crash::at(usize::MAX, When::Before);
    let copy = RunningCopy::start(crash.client(&cluster.server).await?)?;
    life(&cluster, "host", &copy, || false).await?;
    assert_eq!(crash.writes(), WRITES);
    copy.stop().await
}

async fn crash_once(cluster: &Cluster, name: &str, at: usize, when: When) -> Result<()> {
    let crash = Crash::at(at, when);
    let copy = RunningCopy::start(crash.client(&cluster.server).await?)?;
    life(cluster, name, &copy, || crash.has_crashed()).await?;
    ensure!(
        crash.has_crashed(),
        "{name}: only {} writes",
        crash.writes()
    );
    copy.crash().await;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    // If the crash was at the last write, the deletion of the resource has already
    // begun.
    let resource = cluster.resources().get_opt(name).await?;
    let stays = resource.is_some_and(|found| found.metadata.deletion_timestamp.is_none());
    if stays {
        // The status may be that of the copy that crashed.
        copy.ready().await?;
        let status = cluster.accepted(name).await?;
        let url = status["imageUrl"].as_str().unwrap_or_default();
        ensure!(copy.images.has(url).await?, "{name}: {url} is not served");
        cluster.delete(name).await?;
    }
    wait_for("the end of the resource", || async {
        Ok(cluster
            .resources()
            .get_opt(name)
            .await?
            .is_none()
            .then_some(()))
    })
    .await?;
    ensure!(copy.images.count() == 0, "{name}: an image stays");
    cluster
        .secrets()
        .delete(name, &kube::api::DeleteParams::default())
        .await?;
    copy.stop().await
}

/// Creates a resource, changes its Secret, and deletes the resource. Ends early when
/// the controller has crashed.
async fn life(
    cluster: &Cluster,
    name: &str,
    copy: &RunningCopy,
    has_crashed: impl Fn() -> bool,
) -> Result<()> {
    cluster
        .put_secret(name, "nmstate", &nmstate("192.0.2.50"))
        .await?;
    cluster.create(name, Some(name)).await?;
    for address in ["192.0.2.50", "192.0.2.51"] {
        if address != "192.0.2.50" {
            cluster
                .put_secret(name, "nmstate", &nmstate(address))
                .await?;
        }
        let served = wait_for("the image, or the crash", || async {
            if has_crashed() {
                return Ok(Some(false));
            }
            let secret = cluster.secrets().get(name).await?;
            let resource = cluster.resources().get(name).await?;
            let status = &resource.status;
            let is_current = status["networkData"]["version"].as_str()
                == secret.metadata.resource_version.as_deref();
            let served = is_current && copy.images.are_of(status, name, &network(address)).await?;
            Ok(served.then_some(true))
        });
        if !served.await? {
            return Ok(());
        }
    }
    cluster
        .resources()
        .delete(name, &kube::api::DeleteParams::default())
        .await?;
    wait_for("the end of the resource, or the crash", || async {
        let is_gone = cluster.resources().get_opt(name).await?.is_none();
        Ok((is_gone || has_crashed()).then_some(()))
    })
    .await
}

/// The URL in a resource stays the same after a restart, so a BMC can continue to read
/// the image.
#[tokio::test]
async fn a_restart_keeps_the_urls() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    for (name, secret) in [("a", Some("net")), ("b", None)] {
        cluster.create(name, secret).await?;
    }
    let mut before = Vec::new();
    for name in ["a", "b"] {
        before.push(cluster.accepted(name).await?);
    }
    copy.stop().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    copy.ready().await?;
    for (name, before) in ["a", "b"].into_iter().zip(before) {
        let url = before["imageUrl"].as_str().unwrap_or_default();
        assert!(copy.images.has(url).await?, "{name}: {url}");
        assert_eq!(cluster.accepted(name).await?, before);
    }
    assert_eq!(copy.metric("status_writes_total").await?, 0);
    copy.stop().await
}
