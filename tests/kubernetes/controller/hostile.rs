//! Tests resources and Secrets that could harm the controller or other programs.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use landfall_kubernetes_tests::{Cluster, NAMESPACE, RunningCopy};
use serde_json::{Value, json};

/// Each row has the name of a Secret and of its resource, the Secret's key and text,
/// and the start of the expected error message.
#[tokio::test]
async fn secrets() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    let padding = "x".repeat((1 << 20) - 100);
    let fits = format!(
        "#{}\ninterfaces:\n- name: eno1\n  type: ethernet\n",
        "x".repeat(100_000)
    );
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        let list = [below.as_str(); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{list}]\n");
    }
    for (name, key, text, expected) in [
        (
            "megabyte",
            "nmstate",
            format!("interfaces: []\n#{padding}"),
            "Cannot generate image: Secret megabyte: nmstate: expected at most 262144 bytes",
        ),
        (
            "no-room",
            "nmstate",
            fits,
            "Cannot generate image: the network needs",
        ),
        (
            "bomb",
            "networkData",
            bomb,
            "Cannot generate image: Secret bomb: networkData: expected YAML",
        ),
        (
            "deep",
            "value",
            "[".repeat(100_000),
            "Cannot generate image: Secret deep: value: expected YAML",
        ),
        (
            "bmc",
            "password",
            "hunter2".to_owned(),
            "Cannot generate image: Secret bmc: expected one of the keys nmstate, networkData and \
             value, found password",
        ),
    ] {
        cluster.put_secret(name, key, &text).await?;
        cluster.create(name, Some(name)).await?;
        let conditions = cluster.error(name, "ImageBuildInvalid").await?;
        let expected = format!("True/ImageBuildInvalid/{expected}");
        assert!(
            conditions.error.starts_with(&expected),
            "{name}: {}",
            conditions.error
        );
        assert!(conditions.error.len() < 8192, "{name}");
        assert!(!conditions.error.contains("hunter2"), "{name}");
    }
    // The controller still runs, and accepts a corrected Secret.
    cluster
        .put_secret("bomb", "nmstate", &crate::nmstate("192.0.2.50"))
        .await?;
    cluster.accepted("bomb").await?;
    copy.stop().await
}

/// By mistake the resource names another program's Secret. The controller must not
/// claim that Secret: with an owner reference, Kubernetes would delete it together with
/// the resource.
#[tokio::test]
async fn a_secret_of_another_program() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    cluster
        .put_secret("pull", ".dockerconfigjson", "{}")
        .await?;
    cluster.create("host", Some("pull")).await?;
    cluster.error("host", "ImageBuildInvalid").await?;
    let secret = cluster.secrets().get("pull").await?;
    assert_eq!(secret.metadata.labels, None);
    assert_eq!(secret.metadata.owner_references, None);
    // Now the Secret gets a network. It has no label, so no watch reports the change.
    // The controller has to read the Secret again by itself.
    cluster
        .put_secret("pull", "nmstate", &crate::nmstate("192.0.2.50"))
        .await?;
    cluster.accepted("host").await?;
    let secret = cluster.secrets().get("pull").await?;
    assert!(secret.metadata.owner_references.is_some());
    copy.stop().await
}

/// Other programs in the namespace have leases, too. The controller's role must not
/// permit access to them.
#[tokio::test]
async fn the_role_reaches_no_other_lease() -> Result<()> {
    let cluster = Cluster::start().await?;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "baremetal-operator"},
        "spec": {"holderIdentity": "baremetal-operator-0"},
    });
    cluster.create_object(&lease).await?;
    let client = cluster.server.client("controller").await?;
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let error = leases.get("baremetal-operator").await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.is_forbidden()),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn names() -> Result<()> {
    let cluster = Cluster::start().await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    let long = format!(
        "{}.{}",
        "a".repeat(63),
        ["b".repeat(62), "b".repeat(62), "b".repeat(62)].join(".")
    );
    let long = format!("{long}{}", "c".repeat(253 - long.len()));
    assert_eq!(long.len(), 253);
    cluster.create(&long, None).await?;
    let status = cluster.accepted(&long).await?;
    assert!(
        status["imageUrl"].as_str().unwrap().len() <= 128,
        "{status}"
    );
    let too_long = "a".repeat(300);
    let secrets = [
        "../preprovisioningimages/x",
        "a/b",
        "a?limit=1",
        "a%2Fb",
        "..",
        "UPPER",
        too_long.as_str(),
    ];
    for (number, secret) in secrets.into_iter().enumerate() {
        let name = format!("host-{number}");
        cluster.create(&name, Some(secret)).await?;
        let conditions = cluster.error(&name, "MissingNetworkData").await?;
        assert_eq!(conditions.ready, "False/MissingNetworkData/", "{secret}");
    }
    // The API server itself refuses a slash in the name of a resource.
    assert!(cluster.create("a/b", None).await.is_err());
    copy.stop().await
}

/// A status of unexpected types, as an older version or another program could write it
/// if the CustomResourceDefinition permits it.
#[tokio::test]
async fn a_status_of_unexpected_types() -> Result<()> {
    let cluster = Cluster::start().await?;
    loosen(&cluster).await?;
    let bad = [
        json!("ready"),
        json!({"imageUrl": 7, "networkData": "a", "conditions": "none"}),
        json!({"format": ["iso"], "conditions": [7, {"type": "Ready"}], "networkData": [1]}),
    ];
    for (number, status) in bad.iter().enumerate() {
        let name = format!("host-{number}");
        cluster.create(&name, None).await?;
        let patch = Patch::Merge(json!({"status": status}));
        let resources = cluster.resources();
        resources
            .patch_status(&name, &PatchParams::default(), &patch)
            .await?;
    }
    let spec = json!({"acceptFormats": {"iso": true}, "architecture": 7, "networkDataName": ["a"]});
    cluster.create_with("bad-spec", spec).await?;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    for number in 0..bad.len() {
        cluster.accepted(&format!("host-{number}")).await?;
    }
    cluster.error("bad-spec", "ConfigurationError").await?;
    copy.ready().await?;
    copy.stop().await
}

/// Makes the CustomResourceDefinition accept any content.
async fn loosen(cluster: &Cluster) -> Result<()> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> =
        Api::all_with(cluster.admin.clone(), &ApiResource::from_gvk(&kind));
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let patch = json!([{
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": free,
    }]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch)?);
    api.patch(
        "preprovisioningimages.metal3.io",
        &PatchParams::default(),
        &patch,
    )
    .await?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    Ok(())
}

/// Without the right to read Secrets, the controller still serves hosts that have none.
#[tokio::test]
async fn a_role_without_secrets() -> Result<()> {
    let cluster = Cluster::start().await?;
    let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRole");
    let api: Api<DynamicObject> =
        Api::all_with(cluster.admin.clone(), &ApiResource::from_gvk(&kind));
    let mut role = api.get("landfall-controller").await?;
    let rules = role.data["rules"].as_array().cloned().unwrap_or_default();
    let kept: Vec<Value> = rules
        .into_iter()
        .filter(|rule| rule["resources"] != json!(["secrets"]))
        .collect();
    role.data["rules"] = json!(kept);
    api.replace(
        "landfall-controller",
        &kube::api::PostParams::default(),
        &role,
    )
    .await?;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let copy = RunningCopy::start(cluster.server.client("controller").await?)?;
    cluster.create("without", None).await?;
    cluster.accepted("without").await?;
    cluster.create("with", Some("net")).await?;
    copy.ready().await?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert!(copy.metric("failed_runs_total").await? > 0);
    copy.stop().await
}
