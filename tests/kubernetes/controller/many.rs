//! A fleet.

use std::time::Instant;

use anyhow::Result;
use kube::api::ListParams;
use landfall_kubernetes_tests::{Cluster, Conditions, RunningCopy, fleet};

use crate::nmstate;

const HOSTS: usize = 10_000;
/// Every tenth host has a Secret.
const EVERY: usize = 10;

#[tokio::test]
async fn ten_thousand_resources() -> Result<()> {
    let cluster = Cluster::start().await?;
    fleet::create_secrets(&cluster, HOSTS / EVERY, |number| {
        nmstate(&format!("192.0.{}.{}", number / 250, number % 250 + 1))
    })
    .await?;
    fleet::create(&cluster, HOSTS, EVERY).await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?);
    let begin = Instant::now();
    fleet::wait_for_writes(&copy, HOSTS).await?;
    copy.ready().await?;
    println!("{HOSTS} resources are ready after {:.1?}", begin.elapsed());
    assert_eq!(copy.images.count(), HOSTS);
    check(&cluster, &copy).await?;
    copy.stop().await?;

    // After a restart the same URLs are served, and nothing is written.
    let copy = RunningCopy::start(cluster.server.client("controller").await?);
    let begin = Instant::now();
    fleet::wait_until_ready(&copy).await?;
    println!("ready again after {:.1?}", begin.elapsed());
    check(&cluster, &copy).await?;
    assert_eq!(copy.metric("status_writes_total").await?, 0);

    let begin = Instant::now();
    fleet::delete(&cluster, HOSTS).await?;
    fleet::wait_until_empty(&copy).await?;
    println!("all deleted after {:.1?}", begin.elapsed());
    copy.stop().await
}

async fn check(cluster: &Cluster, copy: &RunningCopy) -> Result<()> {
    let list = cluster.resources().list(&ListParams::default()).await?;
    assert_eq!(list.items.len(), HOSTS);
    for resource in list.items {
        let name = resource.metadata.name.unwrap_or_default();
        let conditions = Conditions::of(&resource.status);
        assert_eq!(
            conditions.ready, "True/ImageSuccess/Generated image",
            "{name}"
        );
        let published = copy.images.published(&RunningCopy::key(&name)).unwrap();
        assert_eq!(
            resource.status["imageUrl"],
            published.url.as_str(),
            "{name}"
        );
    }
    Ok(())
}
