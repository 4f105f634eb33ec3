//! The container with the image service and its base ISO, started with the security
//! context of the manifests (`image-build/controller/manifests/base/deployment.yaml`).

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::http_get::get;
use crate::podman::Podman;
use crate::web_server::{TIMEOUT, free_address, wait_until_ready};
use crate::{output, release, run};

const IMAGE: &str = concat!(
    "localhost/landfall-image-service:",
    env!("CARGO_PKG_VERSION")
);
const ISO: &str = "--iso=/usr/share/landfall/landfall.iso";
const CONTEXT: [&str; 5] = [
    "--user=65532",
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
];
const NMSTATE: &str = "\
interfaces:
- name: eno1
  type: ethernet
  state: up
  ipv4:
    enabled: true
    dhcp: false
    address:
    - ip: 192.0.2.50
      prefix-length: 24
";

/// A running `podman run` with its container. Dropping the value kills both. If the test
/// has failed, it also prints their standard error.
struct Running<'a> {
    podman: &'a Podman,
    name: String,
    child: Child,
    stderr: PathBuf,
}

impl Running<'_> {
    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Running<'_> {
    #[allow(clippy::print_stderr, reason = "the harness shows it with the test")]
    fn drop(&mut self) {
        let mut kill = self.podman.command();
        let _ = kill.args(["kill", &self.name]).output();
        // podman itself may hang, before or after its container.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = fs::read(&self.stderr).unwrap_or_default();
            eprintln!("{}: {}", self.name, String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn it_serves_each_host_its_iso() {
    let podman = Podman::with_image("landfall-image-service.tar", IMAGE);
    let work = tempfile::tempdir().unwrap();
    let hosts = work.path().join("hosts");
    fs::create_dir(&hosts).unwrap();
    fs::write(hosts.join("node1.yaml"), NMSTATE).unwrap();
    // The container's user must be able to read the files.
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(work.path()));
    let address = free_address();
    let mut start = podman.run_on(&hosts, "/hosts:ro", "host");
    let name = format!("landfall-image-service-test-{}", std::process::id());
    start.args(["--name", &name]).args(CONTEXT);
    start.args([IMAGE, "serve", ISO, "--hosts=/hosts", "--listen", &address]);
    let stderr = work.path().join("stderr");
    start.stdout(Stdio::null());
    start.stderr(File::create(&stderr).unwrap());
    let mut running = Running {
        podman: &podman,
        name,
        child: start.spawn().unwrap(),
        stderr,
    };
    wait_until_ready(&address);

    let (status, served) = get(&address, "/node1.iso");
    assert_eq!(status, 200);
    // The service must serve what a customization of the release's ISO gives.
    let expected = work.path().join("node1.iso");
    run(Command::new(release().join("landfall-image"))
        .arg("customize")
        .arg(release().join("landfall.iso"))
        .arg("-o")
        .arg(&expected)
        .arg("--hosts")
        .arg(&hosts));
    assert!(served == fs::read(expected).unwrap());
    let (status, script) = get(&address, "/node1.ipxe");
    assert_eq!(status, 200);
    assert!(script.starts_with(b"#!ipxe\n"));
    assert_eq!(get(&address, "/node2.iso").0, 404);

    // Stop the container as Kubernetes ends a pod.
    run(podman
        .command()
        .args(["stop", "--time", "45", &running.name]));
    assert_eq!(running.wait().code(), Some(0));
}

/// Runs the command of the manifests. Without a cluster it ends with an error message.
#[test]
fn it_has_the_controller() {
    let podman = Podman::with_image("landfall-image-service.tar", IMAGE);
    let nothing = tempfile::tempdir().unwrap();
    let mut start = podman.run(nothing.path(), "/nothing");
    start.args(CONTEXT).args([IMAGE, "controller", ISO]);
    start.args([
        "--listen=0.0.0.0:8084",
        "--public-url=http://192.0.2.1:8084",
    ]);
    let ended = output(start.arg("--status-listen=0.0.0.0:8085"));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot find the API server: "), "{stderr}");
}
