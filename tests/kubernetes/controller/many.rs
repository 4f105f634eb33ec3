//! Tests the controller with a fleet of hosts.

use std::time::Instant;

use anyhow::Result;
use kube::api::ListParams;
use landfall_kubernetes_tests::{Cluster, Conditions, RunningCopy, fleet};
use landfall_network_plan::Document;

use crate::{network, nmstate};

const HOSTS: usize = 10_000;
/// Every tenth host has a Secret.
const EVERY: usize = 10;

#[tokio::test]
async fn ten_thousand_resources() -> Result<()> {
    let cluster = Cluster::start().await?;
    fleet::create_secrets(&cluster, HOSTS / EVERY, |number| nmstate(&address(number))).await?;
    fleet::create(&cluster, HOSTS, EVERY).await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    let begin = Instant::now();
    fleet::wait_for_writes(&copy, HOSTS).await?;
    copy.ready().await?;
    println!("{HOSTS} resources are ready after {:.1?}", begin.elapsed());
    assert_eq!(copy.images.count(), HOSTS);
    check(&cluster, &copy).await?;
    copy.stop().await?;

    // After a restart the controller serves the same URLs, and writes no status.
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
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

/// The address in the Secret of this number.
fn address(number: usize) -> String {
    format!("192.0.{}.{}", number / 250, number % 250 + 1)
}

/// Fails unless every resource is ready and every host gets its own image.
async fn check(cluster: &Cluster, copy: &RunningCopy) -> Result<()> {
    let list = cluster.resources().list(&ListParams::default()).await?;
    assert_eq!(list.items.len(), HOSTS);
    for (number, resource) in list.items.into_iter().enumerate() {
        let name = resource.metadata.name.unwrap_or_default();
        assert_eq!(name, fleet::name(number));
        let conditions = Conditions::of(&resource.status);
        assert_eq!(
            conditions.ready, "True/ImageSuccess/Generated image",
            "{name}"
        );
        let network = match number % EVERY {
            0 => network(&address(number / EVERY)),
            _ => Document::None,
        };
        let images = &copy.images;
        assert!(
            images.are_of(&resource.status, &name, &network).await?,
            "{name}"
        );
    }
    Ok(())
}
