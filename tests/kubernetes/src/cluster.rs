//! Creates, changes and reads the objects of a test: the manifests, resources and
//! Secrets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt as _};
use landfall_controller::PreprovisioningImage;
use landfall_network_plan::from_nmstate::yaml_documents;
use serde_json::{Value, json};

use crate::api_server::{ApiServer, program};

/// The namespace of the manifests.
pub const NAMESPACE: &str = "baremetal-operator-system";
/// The time limit for the controller, on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// An API server with metal3's CustomResourceDefinition and the controller's manifests.
pub struct Cluster {
    pub server: ApiServer,
    pub admin: Client,
}

/// Both conditions of a resource, as `STATUS/REASON/MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    pub ready: String,
    pub error: String,
}

impl Cluster {
    /// Starts an API server and creates everything that the controller needs: the
    /// manifests for the hosts of all namespaces.
    ///
    /// # Errors
    /// If a program is missing or does not start, or the API server rejects an object.
    pub async fn start() -> Result<Self> {
        let mut objects = Vec::new();
        let list = documents("base/kustomization.yaml")?;
        for file in list[0]["resources"].as_array().into_iter().flatten() {
            let file = file.as_str().context("a resource without a name")?;
            objects.extend(documents(&format!("base/{file}"))?);
        }
        Self::start_with(&objects).await
    }

    /// Starts an API server and applies a kustomization as `kubectl apply -k` does.
    ///
    /// # Errors
    /// If a program is missing or does not start, or the API server rejects an object.
    pub async fn start_kustomization(name: &str) -> Result<Self> {
        let mut objects = rendered(name)?;
        for object in &mut objects {
            // kubectl creates an object without a namespace in `default`.
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = json!("default");
            }
        }
        Self::start_with(&objects).await
    }

    async fn start_with(objects: &[Value]) -> Result<Self> {
        let server = ApiServer::start().await?;
        let admin = server.client("admin").await?;
        let this = Self { server, admin };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        this.create_object(&namespace).await?;
        let definition = yaml_documents(include_str!("../preprovisioning-image.yaml"))?;
        for object in definition.iter().chain(objects) {
            let created = this.create_object(object).await;
            created
                .with_context(|| format!("{} {}", object["kind"], object["metadata"]["name"]))?;
        }
        wait_for("the definition", || async {
            let first = ListParams::default().limit(1);
            Ok(this.resources().list(&first).await.ok())
        })
        .await?;
        Ok(this)
    }

    /// Creates an object in its namespace, or in [`NAMESPACE`] if it names none.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn create_object(&self, object: &Value) -> Result<()> {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let is_global = [
            "Namespace",
            "ClusterRole",
            "ClusterRoleBinding",
            "CustomResourceDefinition",
        ]
        .contains(&kind.kind.as_str());
        let api: Api<DynamicObject> = if is_global {
            Api::all_with(self.admin.clone(), &kind)
        } else {
            let namespace = object["metadata"]["namespace"].as_str();
            Api::namespaced_with(self.admin.clone(), namespace.unwrap_or(NAMESPACE), &kind)
        };
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    #[must_use]
    pub fn resources(&self) -> Api<PreprovisioningImage> {
        Api::namespaced(self.admin.clone(), NAMESPACE)
    }

    #[must_use]
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin.clone(), NAMESPACE)
    }

    /// Creates a resource as baremetal-operator does for a host whose BMC accepts an
    /// ISO or an initrd. `secret` is the name of the Secret with the host's network.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn create(&self, name: &str, secret: Option<&str>) -> Result<()> {
        let spec = json!({
            "architecture": "x86_64",
            "acceptFormats": ["iso", "initrd"],
            "networkDataName": secret,
        });
        self.create_with(name, spec).await
    }

    /// Creates a resource.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn create_with(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "metal3.io/v1alpha1",
            "kind": "PreprovisioningImage",
            "metadata": {"name": name},
            "spec": spec,
        });
        self.create_object(&object).await
    }

    /// Changes a resource.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn change(&self, name: &str, change: Value) -> Result<()> {
        let patch = Patch::Merge(change);
        self.resources()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Creates a Secret without labels, or replaces its content.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub async fn put_secret(&self, name: &str, key: &str, text: &str) -> Result<()> {
        let data = [(key.to_owned(), ByteString(text.into()))].into();
        match self.secrets().get_opt(name).await? {
            Some(mut secret) => {
                secret.data = Some(data);
                self.secrets()
                    .replace(name, &PostParams::default(), &secret)
                    .await?;
            }
            None => {
                let mut secret = Secret {
                    data: Some(data),
                    ..Secret::default()
                };
                secret.metadata.name = Some(name.to_owned());
                self.secrets()
                    .create(&PostParams::default(), &secret)
                    .await?;
            }
        }
        Ok(())
    }

    /// Deletes a resource and waits until it is gone.
    ///
    /// # Errors
    /// If the resource still exists after a minute.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.resources()
            .delete(name, &DeleteParams::default())
            .await?;
        wait_for("the end of the resource", || async {
            let found = self.resources().get_opt(name).await?;
            Ok(found.is_none().then_some(()))
        })
        .await
    }

    /// Waits until the resource is in the state in which baremetal-operator accepts
    /// the image, and returns its status.
    ///
    /// # Errors
    /// If the resource does not reach that state within a minute.
    pub async fn accepted(&self, name: &str) -> Result<Value> {
        let what = format!("the image of {name}");
        let accepted = wait_for(&what, || async {
            let resource = self.resources().get(name).await?;
            Ok(self
                .is_accepted(&resource)
                .await?
                .then_some(resource.status))
        });
        match accepted.await {
            Ok(status) => Ok(status),
            Err(error) => {
                let found = self.resources().get(name).await?.status;
                Err(error.context(format!("found {found:#}")))
            }
        }
    }

    /// Whether baremetal-operator accepts the image. The rules are those of
    /// `preprovisioningImageAvailable` in its baremetalhost_controller.go.
    async fn is_accepted(&self, resource: &PreprovisioningImage) -> Result<bool> {
        let (spec, status) = (&resource.spec, &resource.status);
        let formats = spec["acceptFormats"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let data = &status["networkData"];
        if let Some(name) = spec["networkDataName"]
            .as_str()
            .filter(|name| !name.is_empty())
        {
            let Some(secret) = self.secrets().get_opt(name).await? else {
                return Ok(false);
            };
            let version = secret.resource_version().unwrap_or_default();
            if data["name"] != name || data["version"] != version.as_str() {
                return Ok(false);
            }
        }
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_true = |kind: &str| {
            conditions
                .iter()
                .find(|c| c["type"] == kind && c["status"] == "True")
        };
        let generation = json!(resource.metadata.generation);
        Ok(status["architecture"] == spec["architecture"]
            && formats.contains(&status["format"])
            && is_true("Error").is_none()
            && is_true("Ready").is_some_and(|ready| ready["observedGeneration"] == generation))
    }

    /// Waits until the condition `Error` has this reason, and returns both
    /// conditions.
    ///
    /// # Errors
    /// If the condition does not get this reason within a minute.
    pub async fn error(&self, name: &str, reason: &str) -> Result<Conditions> {
        wait_for(&format!("{reason} of {name}"), || async {
            let resource = self.resources().get(name).await?;
            let conditions = Conditions::of(&resource.status);
            let expected = format!("True/{reason}/");
            Ok(conditions
                .error
                .starts_with(&expected)
                .then_some(conditions))
        })
        .await
    }
}

impl Conditions {
    #[must_use]
    pub fn of(status: &Value) -> Self {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let find = |kind: &str| {
            let found = conditions
                .iter()
                .find(|condition| condition["type"] == kind);
            found.map_or(String::new(), |found| {
                let text = |key: &str| found[key].as_str().unwrap_or_default();
                format!("{}/{}/{}", text("status"), text("reason"), text("message"))
            })
        };
        Self {
            ready: find("Ready"),
            error: find("Error"),
        }
    }
}

/// The directory of the controller's manifests.
#[must_use]
pub fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../image-build/controller/manifests")
}

/// The objects of a kustomization of the controller's manifests, as kubectl renders them.
///
/// # Errors
/// If there is no kubectl, or it fails.
pub fn rendered(kustomization: &str) -> Result<Vec<Value>> {
    let output = Command::new(program("kubectl")?)
        .arg("kustomize")
        .arg(manifests().join(kustomization))
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "kubectl kustomize {kustomization}: {error}"
    );
    Ok(yaml_documents(&String::from_utf8(output.stdout)?)?)
}

/// The objects of a file in the controller's manifests.
fn documents(name: &str) -> Result<Vec<Value>> {
    let text = fs::read_to_string(manifests().join(name)).context(name.to_owned())?;
    Ok(yaml_documents(&text)?)
}

/// Calls `question` every 50 ms until it returns a value.
///
/// # Errors
/// If `question` fails, or returns no value within a minute.
pub async fn wait_for<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    question: impl Fn() -> F,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(answer) = question().await? {
            return Ok(answer);
        }
        if begin.elapsed() > LONGEST {
            bail!("{what}: not within {LONGEST:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
