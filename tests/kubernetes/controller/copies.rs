//! Tests two copies of the controller that share a lease.

use anyhow::Result;
use landfall_kubernetes_tests::{Cluster, RunningCopy, wait_for};

use crate::nmstate;

#[tokio::test]
async fn one_copy_writes_and_both_serve() -> Result<()> {
    let cluster = Cluster::start().await?;
    let client = || cluster.server.client("controller");
    let first = RunningCopy::start_candidate(client().await?, "pod-a")?;
    wait_for("the first copy's lease", || async {
        Ok((first.metric("leader").await? == 1).then_some(()))
    })
    .await?;
    let second = RunningCopy::start_candidate(client().await?, "pod-b")?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    let names: Vec<String> = (0..20).map(|number| format!("host-{number}")).collect();
    for name in &names {
        cluster.create(name, Some("net")).await?;
    }
    let mut urls = Vec::new();
    for name in &names {
        let status = cluster.accepted(name).await?;
        urls.push(status["imageUrl"].as_str().unwrap_or_default().to_owned());
    }
    both_serve(&[&first, &second], &urls).await?;
    assert_eq!(second.metric("status_writes_total").await?, 0);
    assert_eq!(second.metric("leader").await?, 0);
    assert_eq!(second.ask("/readyz").await?.0, 200);

    // The Secret of all hosts changes. The second copy must serve the new images, too.
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.51"))
        .await?;
    let mut urls = Vec::new();
    for name in &names {
        let status = cluster.accepted(name).await?;
        urls.push(status["imageUrl"].as_str().unwrap_or_default().to_owned());
    }
    both_serve(&[&first, &second], &urls).await?;
    assert_eq!(second.metric("status_writes_total").await?, 0);

    // The writer crashes. The other copy waits until the lease expires, and then
    // writes.
    first.crash().await;
    cluster.create("late", None).await?;
    cluster.accepted("late").await?;
    assert_eq!(second.metric("status_writes_total").await?, 1);
    both_serve(&[&second], &urls).await?;

    // The second copy stops cleanly and releases the lease, so that the third copy can
    // write at once.
    let third = RunningCopy::start_candidate(client().await?, "pod-c")?;
    third.ready().await?;
    second.stop().await?;
    cluster.delete("late").await?;
    both_serve(&[&third], &urls).await?;
    third.stop().await
}

async fn both_serve(copies: &[&RunningCopy], urls: &[String]) -> Result<()> {
    for copy in copies {
        wait_for("all images", || async {
            for url in urls {
                if !copy.images.has(url).await? {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}
