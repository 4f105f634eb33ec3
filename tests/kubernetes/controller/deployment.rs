//! Runs the program as the Deployment of a site starts it: with the arguments,
//! variables, user and probes that kubectl renders, and with the files of a service
//! account.
//!
//! There is no kubelet and no container: the program runs in a mount namespace that has
//! the files of the pod.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use landfall_kubernetes_tests::{Cluster, NAMESPACE, base_iso, rendered, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{built_program, get};

/// The name of the pod, as a Deployment makes it.
const POD: &str = "landfall-controller-6c9d5f7b84-x7k2p";

/// Mounts the files that a pod has, and runs the program as the user of the pod. The
/// program may be in a directory that only root can enter, so the program is mounted,
/// too.
const IN_POD: &str = r#"
set -eu
program=$1 user=$2
shift 2
mount -t tmpfs tmpfs /usr/share
mkdir /usr/share/landfall
cp base.iso /usr/share/landfall/landfall.iso
mount -t tmpfs -o mode=755 tmpfs /var/run
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
cp token ca.crt namespace /var/run/secrets/kubernetes.io/serviceaccount
touch /var/run/landfall-image
mount --bind "$program" /var/run/landfall-image
exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs \
  /var/run/landfall-image "$@"
"#;

/// The `spec` of the pod template in the Deployment.
struct Template(Value);

impl Template {
    fn of_site() -> Result<Self> {
        let objects = rendered("site")?;
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
        let deployment = deployment.context("expected a Deployment in the kustomization")?;
        Ok(Self(deployment["spec"]["template"]["spec"].clone()))
    }

    fn container(&self) -> &Value {
        &self.0["containers"][0]
    }

    /// The container's environment variables. A reference to a field of the pod is
    /// replaced by the field's value.
    fn variables(&self) -> Result<Vec<(String, String)>> {
        let mut variables = Vec::new();
        for entry in self.container()["env"].as_array().into_iter().flatten() {
            let field = entry["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let value = match (entry["value"].as_str(), field) {
                (Some(value), None) => value,
                (None, Some("metadata.name")) => POD,
                (None, Some("metadata.namespace")) => NAMESPACE,
                _ => bail!("expected a value, or the name or namespace of the pod, found {entry}"),
            };
            let name = entry["name"]
                .as_str()
                .context("a variable without a name")?;
            variables.push((name.to_owned(), value.to_owned()));
        }
        Ok(variables)
    }

    /// The arguments, in which Kubernetes replaces `$(NAME)` by the variable.
    fn arguments(&self) -> Result<Vec<String>> {
        let variables = self.variables()?;
        let arguments = self.container()["args"].as_array().into_iter().flatten();
        arguments
            .map(|argument| {
                let argument = argument.as_str().context("an argument that is no text")?;
                let replace = |text: String, (name, value): &(String, String)| {
                    text.replace(&format!("$({name})"), value)
                };
                let argument = variables.iter().fold(argument.to_owned(), replace);
                ensure!(!argument.contains("$("), "{argument}: no such variable");
                Ok(argument)
            })
            .collect()
    }

    fn port(&self, name: &str) -> Result<u16> {
        let ports = self.container()["ports"].as_array();
        let port = ports
            .into_iter()
            .flatten()
            .find(|port| port["name"] == name);
        let port = port.and_then(|port| port["containerPort"].as_u64());
        Ok(port
            .with_context(|| format!("expected a port {name}"))?
            .try_into()?)
    }

    /// The URL that the kubelet requests for this probe.
    fn probe(&self, name: &str) -> Result<String> {
        let request = &self.container()[name]["httpGet"];
        let text = |key: &str| {
            request[key]
                .as_str()
                .with_context(|| format!("{name}: expected {key}"))
        };
        let port = self.port(text("port")?)?;
        Ok(format!("http://127.0.0.1:{port}{}", text("path")?))
    }
}

/// The running program. It is killed when this value is dropped.
struct Pod {
    child: Child,
    /// Contains the log, and the files that [`IN_POD`] copies.
    directory: TempDir,
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pod {
    async fn start(cluster: &Cluster, template: &Template) -> Result<Self> {
        for name in ["images", "health", "status"] {
            let port = template.port(name)?;
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
                .with_context(|| format!("the test needs port {port}"))?;
        }
        let account = template.0["serviceAccountName"].as_str();
        let account = account.context("expected a service account")?;
        let user = template.0["securityContext"]["runAsUser"].as_u64();
        let user = user.context("expected a user")?;
        let directory = tempfile::tempdir()?;
        let at = directory.path();
        fs::write(at.join("base.iso"), base_iso())?;
        fs::write(at.join("token"), token(cluster, account).await?)?;
        fs::copy(cluster.server.certificate()?, at.join("ca.crt"))?;
        fs::write(at.join("namespace"), NAMESPACE)?;
        let child = Command::new("unshare")
            .args(["--mount", "sh", "-c", IN_POD, "sh"])
            .arg(built_program()?)
            .arg(user.to_string())
            .args(template.arguments()?)
            // The program gets neither KUBECONFIG nor any other variable of this
            // machine.
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(template.variables()?)
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", cluster.server.port().to_string())
            .current_dir(at)
            .stdin(Stdio::null())
            .stderr(fs::File::create(at.join("log"))?)
            .spawn()
            .context("cannot run unshare")?;
        Ok(Self { child, directory })
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

/// Requests a token for the service account, as the kubelet does.
async fn token(cluster: &Cluster, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin.clone(), NAMESPACE);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let parameters = PostParams::default();
    let answer = accounts.create_token_request(account, &parameters, &request);
    let token = answer.await?.status.and_then(|status| status.token);
    token.context("the API server made no token")
}

#[tokio::test]
async fn the_deployment_of_a_site_starts_with_its_service_account() -> Result<()> {
    let cluster = Cluster::start_kustomization("site").await?;
    let template = Template::of_site()?;
    let pod = Pod::start(&cluster, &template).await?;
    cluster
        .create_with(
            "host",
            json!({"architecture": "x86_64", "acceptFormats": ["iso"]}),
        )
        .await?;
    let status = cluster.accepted("host").await.with_context(|| pod.log())?;
    for name in ["livenessProbe", "readinessProbe"] {
        let url = template.probe(name)?;
        wait_for(name, || async {
            let (status, _) = get(&url)?;
            Ok((status == 200).then_some(()))
        })
        .await
        .with_context(|| pod.log())?;
    }

    let variables = template.variables()?;
    let public = variables.iter().find(|(name, _)| name == "PUBLIC_URL");
    let (_, public) = public.context("expected PUBLIC_URL")?;
    let url = status["imageUrl"].as_str().context("no imageUrl")?;
    let path = url.strip_prefix(public.as_str());
    let path = path.with_context(|| format!("{url}: expected a URL below {public}"))?;
    let port = template.port("images")?;
    let (status, image) = get(&format!("http://127.0.0.1:{port}{path}"))?;
    assert_eq!(status, 200, "{url}");
    assert!(image == base_iso(), "{url}: another image");
    let port = template.port("status")?;
    assert_eq!(get(&format!("http://127.0.0.1:{port}/"))?.0, 200);

    let leases: Api<Lease> = Api::namespaced(cluster.admin.clone(), NAMESPACE);
    let lease = leases.get("landfall-controller").await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    assert_eq!(holder.as_deref(), Some(POD), "{}", pod.log());
    Ok(())
}
