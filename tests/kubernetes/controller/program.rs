//! Tests the program from its start to its end, for the hosts of all namespaces.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::Api;
use landfall_controller::PreprovisioningImage;
use landfall_kubernetes_tests::{Cluster, Conditions, base_iso, wait_for};
use serde_json::json;
use tempfile::TempDir;

const HOSTS: &str = "metal3";

/// A running program. It is killed when this value is dropped.
struct Program {
    child: Child,
    directory: TempDir,
    /// The ports of: the images over HTTP, the images over HTTPS, the probes, the
    /// status pages.
    ports: [u16; 4],
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    async fn start(cluster: &Cluster) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = directory.path();
        fs::write(at.join("base.iso"), base_iso())?;
        fs::write(
            at.join("kubeconfig"),
            cluster.server.kubeconfig("controller")?,
        )?;
        certificate(at, "first")?;
        let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0"));
        let mut ports = [0; 4];
        for (port, listener) in ports.iter_mut().zip(listeners) {
            *port = listener?.local_addr()?.port();
        }
        let [plain, secure, health, status] = ports;
        let log = fs::File::create(at.join("log"))?;
        let child = Command::new(built_program()?)
            .current_dir(at)
            .args([
                "controller",
                "--iso=base.iso",
                "--tls-cert=tls.crt",
                "--tls-key=tls.key",
                "--lease-namespace=baremetal-operator-system",
            ])
            .arg(format!("--listen=127.0.0.1:{plain}"))
            .arg(format!("--tls-listen=127.0.0.1:{secure}"))
            .arg(format!("--public-url=http://127.0.0.1:{plain}"))
            .arg(format!("--health-listen=127.0.0.1:{health}"))
            .arg(format!("--status-listen=127.0.0.1:{status}"))
            .env("KUBECONFIG", at.join("kubeconfig"))
            .env_remove("WATCH_NAMESPACE")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start the program")?;
        Ok(Self {
            child,
            directory,
            ports,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    fn signal(&self, name: &str) -> Result<()> {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status()?;
        ensure!(status.success(), "kill -s {name}: {status}");
        Ok(())
    }

    /// The subject of the certificate that a new client gets.
    fn subject(&self) -> Result<String> {
        let address = format!("127.0.0.1:{}", self.ports[1]);
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &address])
            .stdin(Stdio::null())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let subject = text.lines().find(|line| line.starts_with("subject="));
        Ok(subject.unwrap_or_default().to_owned())
    }
}

/// The program that `make test-controller` builds next to the tests.
pub(crate) fn built_program() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let target = test.parent().and_then(Path::parent);
    let program = target
        .context("a test without a folder")?
        .join("landfall-image");
    ensure!(
        program.exists(),
        "{}: expected the program; build it with `cargo build -p landfall-image --features controller`",
        program.display()
    );
    Ok(program)
}

/// Creates a self-signed certificate with this name and its key, as tls.crt and tls.key
/// in `at`.
fn certificate(at: &Path, name: &str) -> Result<()> {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-keyout", "new.key", "-out", "new.crt", "-subj"])
        .arg(format!("/CN={name}"))
        .current_dir(at)
        .output()?;
    ensure!(output.status.success(), "openssl req failed");
    fs::rename(at.join("new.key"), at.join("tls.key"))?;
    fs::rename(at.join("new.crt"), at.join("tls.crt"))?;
    Ok(())
}

/// Requests the URL with curl. Returns the status code, which is 0 if there is no
/// answer, and the body.
pub(crate) fn get(url: &str) -> Result<(u16, Vec<u8>)> {
    let output = Command::new("curl")
        .args(["-s", "-o", "-", "-w", "\n%{http_code}", url])
        .output()?;
    let end = output.stdout.iter().rposition(|byte| *byte == b'\n');
    let end = end.with_context(|| format!("{url}: no answer"))?;
    let status = String::from_utf8_lossy(&output.stdout[end + 1..]).parse()?;
    Ok((status, output.stdout[..end].to_vec()))
}

#[tokio::test]
async fn the_program_from_start_to_end() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    cluster
        .create_object(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOSTS}}),
        )
        .await?;
    let mut program = Program::start(&cluster).await?;
    cluster
        .create_object(&json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "PreprovisioningImage",
            "metadata": {"name": "host", "namespace": HOSTS},
            "spec": {"architecture": "x86_64", "acceptFormats": ["iso"]},
        }))
        .await?;
    let resources: Api<PreprovisioningImage> = Api::namespaced(cluster.admin.clone(), HOSTS);
    let url = wait_for("the image", || async {
        let status = resources.get("host").await?.status;
        let is_ready = Conditions::of(&status).ready.starts_with("True/");
        Ok(is_ready
            .then(|| status["imageUrl"].as_str().map(str::to_owned))
            .flatten())
    })
    .await
    .with_context(|| program.log())?;
    let (status, image) = get(&url)?;
    assert_eq!(status, 200);
    assert!(image == base_iso(), "{url}: another image");
    let [plain, _, health, status] = program.ports;
    let probe = |path: &str| format!("http://127.0.0.1:{health}{path}");
    assert_eq!(get(&probe("/readyz"))?.0, 200);
    // The port for the BMCs shows neither the other hosts nor an image whose URL lacks
    // the ID.
    let (_, name) = url.rsplit_once('/').unwrap();
    for path in ["", "status.json", "metrics", name] {
        let url = format!("http://127.0.0.1:{plain}/{path}");
        assert_eq!(get(&url)?.0, 404, "{url}");
    }
    for path in ["", "status.json", "metrics"] {
        let url = format!("http://127.0.0.1:{status}/{path}");
        assert_eq!(get(&url)?.0, 200, "{url}");
    }

    // A renewed certificate, as cert-manager writes it.
    assert!(program.subject()?.contains("first"));
    certificate(program.directory.path(), "second")?;
    program.signal("HUP")?;
    wait_for("the new certificate", || async {
        Ok(program.subject()?.contains("second").then_some(()))
    })
    .await
    .with_context(|| program.log())?;
    assert_eq!(program.child.try_wait()?, None, "{}", program.log());

    // The program must end even if the API server does not run.
    cluster.server.end();
    let begin = Instant::now();
    program.signal("TERM")?;
    let status = loop {
        if let Some(status) = program.child.try_wait()? {
            break status;
        }
        ensure!(
            begin.elapsed() < Duration::from_secs(40),
            "{}",
            program.log()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(status.success(), "{status}\n{}", program.log());
    println!("the program ended after {:.1?}", begin.elapsed());
    // Each line of the log has one of the forms of the program's own logger.
    for line in program.log().lines() {
        let forms = ["[", "warning: ", "error: "];
        assert!(forms.iter().any(|form| line.starts_with(form)), "{line}");
    }
    Ok(())
}
