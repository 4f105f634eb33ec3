//! Starts and stops the programs that `make kube-apiserver` built.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;

/// The user name of the manifests' service account.
pub const CONTROLLER_USER: &str =
    "system:serviceaccount:baremetal-operator-system:landfall-controller";
/// The time limit for a start. A busy machine needs a minute.
const START: Duration = Duration::from_secs(240);

/// etcd and kube-apiserver on free ports of the loopback address. They end when this
/// value is dropped.
pub struct ApiServer {
    directory: TempDir,
    program: PathBuf,
    etcd: Child,
    server: Option<Child>,
    etcd_port: u16,
    port: u16,
}

/// The directory that `make kube-apiserver` makes.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../out/kubernetes")
}

/// The path of `kube-apiserver`, `etcd` or `kubectl`.
///
/// # Errors
/// If it has not been built.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = root().join("bin").join(name);
    ensure!(
        path.exists(),
        "{}: expected {name}; get it with `make kube-apiserver`",
        path.display()
    );
    Ok(path)
}

impl ApiServer {
    /// Starts etcd and an API server without any objects.
    ///
    /// # Errors
    /// If the programs have not been built or do not start.
    pub async fn start() -> Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let program_of_server = program("kube-apiserver")?;
        // On the disk, not in memory: the time of etcd's writes is a part of what the
        // benchmark measures.
        let directory = TempDir::with_prefix_in("run-", root())?;
        let at = directory.path();
        let [etcd_port, peer_port, port] = free_ports()?;
        let key = Command::new("openssl")
            .args(["genrsa", "-out", "sa.key", "2048"])
            .current_dir(at)
            .output()
            .context("cannot run openssl")?;
        ensure!(key.status.success(), "openssl genrsa failed");
        let tokens = format!(
            "admin,admin,1,\"system:masters\"\n\
             controller,{CONTROLLER_USER},2,\"system:serviceaccounts\"\n\
             nobody,nobody,3\n"
        );
        fs::write(at.join("tokens.csv"), tokens)?;
        let etcd = spawn(
            &program("etcd")?,
            at,
            &[
                "--data-dir=etcd".to_owned(),
                format!("--listen-client-urls=http://127.0.0.1:{etcd_port}"),
                format!("--advertise-client-urls=http://127.0.0.1:{etcd_port}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}"),
                format!("--initial-cluster=default=http://127.0.0.1:{peer_port}"),
            ],
        )?;
        let mut this = Self {
            directory,
            program: program_of_server,
            etcd,
            server: None,
            etcd_port,
            port,
        };
        this.begin().await?;
        Ok(this)
    }

    /// Starts kube-apiserver (again) and waits until it is ready.
    ///
    /// # Errors
    /// If it does not become ready.
    pub async fn begin(&mut self) -> Result<()> {
        let at = self.directory.path();
        let arguments = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            // Without this option, kube-apiserver uses the address of the default
            // route, and the lab has none. No client uses the address.
            "--advertise-address=192.0.2.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--cert-dir=certificates".to_owned(),
            "--service-account-key-file=sa.key".to_owned(),
            "--service-account-signing-key-file=sa.key".to_owned(),
            "--service-account-issuer=https://127.0.0.1".to_owned(),
            "--token-auth-file=tokens.csv".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ];
        self.server = Some(spawn(&self.program, at, &arguments)?);
        let begin = Instant::now();
        loop {
            if let Some(server) = &mut self.server
                && let Some(status) = server.try_wait()?
            {
                bail!("kube-apiserver ended with {status}:\n{}", self.log());
            }
            if self.is_ready().await {
                return Ok(());
            }
            if begin.elapsed() > START {
                bail!(
                    "kube-apiserver is not ready after {START:?}:\n{}",
                    self.log()
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let Ok(client) = self.client("admin").await else {
            return false;
        };
        let request = axum::http::Request::get("/readyz").body(Vec::new());
        match request {
            Ok(request) => client
                .request_text(request)
                .await
                .is_ok_and(|text| text == "ok"),
            Err(_) => false,
        }
    }

    /// Kills kube-apiserver. etcd keeps the objects.
    pub fn end(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// The port of kube-apiserver on the loopback address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file with the certificate of kube-apiserver and of its authority, in PEM.
    ///
    /// # Errors
    /// If kube-apiserver has not created it yet.
    pub fn certificate(&self) -> Result<PathBuf> {
        let certificate = self.directory.path().join("certificates/apiserver.crt");
        ensure!(certificate.exists(), "no certificate yet");
        Ok(certificate)
    }

    /// The content of the kubeconfig file of a user: `admin`, `controller` or `nobody`.
    ///
    /// # Errors
    /// As [`ApiServer::certificate`].
    pub fn kubeconfig(&self, user: &str) -> Result<String> {
        let certificate = self.certificate()?;
        let file = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port),
                "certificate-authority": certificate,
            }}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        });
        Ok(file.to_string())
    }

    /// The configuration of a user.
    ///
    /// # Errors
    /// As [`ApiServer::kubeconfig`].
    pub async fn config(&self, user: &str) -> Result<Config> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig(user)?)?;
        let options = KubeConfigOptions::default();
        Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
    }

    /// A client of this user.
    ///
    /// # Errors
    /// As [`ApiServer::config`].
    pub async fn client(&self, user: &str) -> Result<Client> {
        Ok(Client::try_from(self.config(user).await?)?)
    }

    /// The last lines of kube-apiserver's log.
    #[must_use]
    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("kube-apiserver.log"));
        let text = text.unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.end();
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
    }
}

fn spawn(program: &Path, at: &Path, arguments: &[String]) -> Result<Child> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(at.join(format!("{name}.log")))?;
    let program_path = program.display().to_string();
    Command::new(program)
        .args(arguments)
        .current_dir(at)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot run {program_path}"))
}

/// Ports of 127.0.0.1 that are free now.
fn free_ports() -> Result<[u16; 3]> {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
