//! Tests the kustomization that a site applies, for the hosts of the controller's own
//! namespace.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::ListParams;
use landfall_kubernetes_tests::{Cluster, RunningCopy};

use crate::{network, nmstate};

#[tokio::test]
async fn its_role_is_enough_and_reaches_no_other_namespace() -> Result<()> {
    let cluster = Cluster::start_kustomization("site").await?;
    let client = cluster.server.client("controller").await?;
    let copy = RunningCopy::start_candidate(client.clone(), "pod-a")?;
    cluster
        .put_secret("net", "nmstate", &nmstate("192.0.2.50"))
        .await?;
    cluster.create("host", Some("net")).await?;
    let status = cluster.accepted("host").await?;
    let network = network("192.0.2.50");
    assert!(copy.images.are_of(&status, "host", &network).await?);
    cluster.delete("host").await?;
    copy.stop().await?;

    let roles: Api<ClusterRole> = Api::all(cluster.admin.clone());
    assert!(roles.get_opt("landfall-controller").await?.is_none());
    for namespace in ["default", "kube-system"] {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let answer = secrets.list(&ListParams::default()).await;
        let error = answer.err().context("the role reaches another namespace")?;
        assert!(
            matches!(&error, kube::Error::Api(status) if status.is_forbidden()),
            "{error}"
        );
    }
    Ok(())
}
