//! Tests the life of one resource, from its creation on.

use anyhow::Result;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, WatchEvent, WatchParams};
use landfall_controller::FINALIZER;
use landfall_kubernetes_tests::{Cluster, Conditions, RunningCopy};
use landfall_network_plan::Document;
use serde_json::{Value, json};

use crate::{network, nmstate};

/// The Secret already exists when baremetal-operator creates the resource.
#[tokio::test]
async fn an_iso_with_the_network_of_its_secret() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    cluster.create("host", Some("net")).await?;
    let status = cluster.accepted("host").await?;
    assert_eq!(status["format"], "iso");
    assert_eq!(status["kernelUrl"], Value::Null);
    assert_eq!(status["extraKernelParams"], Value::Null);
    let conditions = Conditions::of(&status);
    assert_eq!(conditions.ready, "True/ImageSuccess/Generated image");
    assert_eq!(conditions.error, "False/ImageSuccess/");
    let network = network("192.0.2.50");
    assert!(copy.images.are_of(&status, "host", &network).await?);

    let resource = cluster.resources().get("host").await?;
    assert_eq!(resource.finalizers(), [FINALIZER]);
    let secret = cluster.secrets().get("net").await?;
    assert_eq!(secret.labels()["environment.metal3.io"], "baremetal");
    let [owner] = secret.owner_references() else {
        panic!("expected one owner, found {:?}", secret.owner_references());
    };
    assert_eq!(Some(&owner.uid), resource.metadata.uid.as_ref());
    assert_eq!((owner.controller, owner.block_owner_deletion), (None, None));

    // The host gets another BMC, which accepts only an initrd, for a boot over the
    // network.
    cluster
        .change("host", json!({"spec": {"acceptFormats": ["initrd"]}}))
        .await?;
    let status = cluster.accepted("host").await?;
    assert_eq!(status["format"], "initrd");
    assert_eq!(status["extraKernelParams"], "quiet");
    assert!(status["kernelUrl"].is_string(), "{status}");
    assert!(copy.images.are_of(&status, "host", &network).await?);

    cluster.delete("host").await?;
    assert_eq!(copy.images.count(), 0);
    copy.stop().await
}

/// Watches everything that a client of the API can see while the Secret changes. No
/// status names a URL as ready after the image behind it has gone.
#[tokio::test]
async fn a_url_never_outlives_its_image() -> Result<()> {
    use futures_util::StreamExt as _;
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    cluster.create("host", Some("net")).await?;
    let first = cluster.accepted("host").await?;
    let resource = cluster.resources().get("host").await?;
    let version = resource.resource_version().unwrap();
    let resources = cluster.resources();
    let events = resources.watch(&WatchParams::default(), &version).await?;
    tokio::pin!(events);

    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.51"))
        .await?;
    let second = cluster.accepted("host").await?;
    assert_ne!(first["imageUrl"], second["imageUrl"]);
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        let WatchEvent::Modified(resource) = event? else {
            continue;
        };
        let ready = Conditions::of(&resource.status).ready;
        let url = resource.status["imageUrl"].clone();
        let is_last = url == second["imageUrl"];
        seen.push((ready, url));
        if is_last {
            break;
        }
    }
    assert_eq!(
        seen,
        [
            (
                "False/ImageSuccess/Config changed".to_owned(),
                first["imageUrl"].clone()
            ),
            (
                "True/ImageSuccess/Generated image".to_owned(),
                second["imageUrl"].clone()
            ),
        ]
    );

    // A change of the Secret that leaves the network as it is keeps the URL, and needs
    // one write.
    let writes = copy.metric("status_writes_total").await?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.51"))
        .await?;
    let mut secret = cluster.secrets().get("net").await?;
    secret
        .labels_mut()
        .insert("team".to_owned(), "blue".to_owned());
    cluster
        .secrets()
        .replace("net", &kube::api::PostParams::default(), &secret)
        .await?;
    let third = cluster.accepted("host").await?;
    assert_eq!(third["imageUrl"], second["imageUrl"]);
    assert_ne!(
        third["networkData"]["version"],
        second["networkData"]["version"]
    );
    assert_eq!(copy.metric("status_writes_total").await?, writes + 1);

    // Without a change the controller writes nothing, and has at most two more runs.
    let runs = copy.metric("runs_total").await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let later = copy.metric("runs_total").await?;
    assert!(later <= runs + 2, "{runs} runs, then {later}");
    assert_eq!(copy.metric("status_writes_total").await?, writes + 1);
    copy.stop().await
}

/// The Secret is created after the resource, without a label, so that no watch reports
/// it.
#[tokio::test]
async fn a_secret_that_comes_later() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    cluster.create("host", Some("net")).await?;
    let conditions = cluster.error("host", "MissingNetworkData").await?;
    assert_eq!(conditions.ready, "False/MissingNetworkData/");
    assert_eq!(
        conditions.error,
        "True/MissingNetworkData/NetworkData secret not found"
    );
    let text = json!({
        "links": [{"id": "eno1", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
        "networks": [{"id": "n0", "link": "eno1", "type": "ipv4_dhcp"}],
    })
    .to_string();
    cluster.put_secret("net", "networkData", &text).await?;
    let status = cluster.accepted("host").await?;
    let network = Document::NetworkData(text);
    assert!(copy.images.are_of(&status, "host", &network).await?);

    // The Secret is deleted again. Now it has the label, so the controller is notified
    // at once.
    cluster
        .secrets()
        .delete("net", &DeleteParams::default())
        .await?;
    cluster.error("host", "MissingNetworkData").await?;
    let resource = cluster.resources().get("host").await?;
    assert_eq!(resource.status["imageUrl"], Value::Null);

    // A host without a network of its own needs no Secret.
    cluster
        .change("host", json!({"spec": {"networkDataName": null}}))
        .await?;
    let status = cluster.accepted("host").await?;
    assert_eq!(status["networkData"], json!({}));
    assert!(copy.images.are_of(&status, "host", &Document::None).await?);
    copy.stop().await
}

#[tokio::test]
async fn unservable_hosts() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    let formats = json!(["iso", "initrd"]);
    let architecture = json!({"architecture": "riscv64", "acceptFormats": formats});
    cluster.create_with("other-machine", architecture).await?;
    cluster
        .create_with("no-format", json!({"architecture": "x86_64"}))
        .await?;
    cluster
        .create_with("no-architecture", json!({"acceptFormats": formats}))
        .await?;
    let conditions = cluster.error("other-machine", "ConfigurationError").await?;
    assert_eq!(
        conditions.error,
        "True/ConfigurationError/Architecture not supported"
    );
    let conditions = cluster.error("no-format", "ConfigurationError").await?;
    assert_eq!(
        conditions.error,
        "True/ConfigurationError/No acceptable image format supported"
    );
    let status = cluster.accepted("no-architecture").await?;
    let name = "no-architecture";
    assert!(copy.images.are_of(&status, name, &Document::None).await?);
    copy.stop().await
}
