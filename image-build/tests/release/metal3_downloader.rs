//! The web server and the conductor of Ironic's pod, with what the downloader made.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use crate::podman::Podman;
use crate::web_server::{Apache, get};
use crate::{output, release, repository, run};

const IMAGE: &str = concat!("localhost/landfall-downloader:", env!("CARGO_PKG_VERSION"));
/// What the probes of ironic-standalone-operator ask for (`knownExistingPath` in its
/// pkg/ironic/containers.go), whatever IPA_ARCH says.
const PROBED: &str = "/images/ironic-python-agent.kernel";

/// A file of the release under upstream's name.
fn upstream(ending: &str) -> Vec<u8> {
    fs::read(release().join(format!("dib/files/ipa-centos9-master.{ending}"))).unwrap()
}

/// ironic-standalone-operator's probe of httpd, as it is in the pod.
fn probe(address: &str) -> bool {
    let mut curl = Command::new("curl");
    curl.args([
        "--head",
        "--insecure",
        "--location",
        "--silent",
        "--show-error",
    ])
    .args(["--output", "/dev/null", "--fail"])
    .arg(format!("http://{address}{PROBED}"));
    output(&mut curl).status.success()
}

#[test]
fn the_pod_becomes_ready_without_an_architecture() {
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    for (architecture, is_ready) in [(None, true), (Some("x86_64"), false)] {
        let shared = tempfile::tempdir().unwrap();
        chown(shared.path(), Some(997), Some(994)).unwrap();
        fs::create_dir(shared.path().join("html")).unwrap();
        chown(shared.path().join("html"), Some(997), Some(994)).unwrap();
        run(Command::new("chmod").arg("a+rx").arg(shared.path()));
        let work = tempfile::tempdir().unwrap();
        let pod = Apache::serve(&shared.path().join("html"), work.path());
        // The web server runs, and the downloader has not ended.
        assert!(!probe(&pod.address));
        let mut run_it = podman.run(shared.path(), "/shared");
        run_it.args(["--cap-drop=all", "--user=997:994"]);
        run_it.arg("--env=IPA_BRANCH=master");
        if let Some(architecture) = architecture {
            run_it.arg(format!("--env=IPA_ARCH={architecture}"));
        }
        run(run_it.arg(IMAGE));
        assert_eq!(probe(&pod.address), is_ready, "{architecture:?}");
        // What Ironic's conductor and iPXE fetch.
        let suffix = architecture.map_or_else(String::new, |name| format!("_{name}"));
        for ending in ["kernel", "initramfs"] {
            let path = format!("/images/ironic-python-agent{suffix}.{ending}");
            let (status, body) = get(&pod.address, &path);
            assert_eq!(status, 200, "{path}");
            assert!(body == upstream(ending), "{path}");
        }
    }
}

/// `spec.overrides.agentImages` with `file://`, which becomes DEPLOY_KERNEL_URL: the conductor
/// takes the file out of the volume.
#[test]
fn ironic_takes_both_from_the_volume() {
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    let shared = tempfile::tempdir().unwrap();
    chown(shared.path(), Some(997), Some(994)).unwrap();
    let mut downloader = podman.run(shared.path(), "/shared");
    downloader.args(["--cap-drop=all", "--user=997:994", IMAGE]);
    run(&mut downloader);
    for ending in ["kernel", "initramfs"] {
        let link = format!("html/images/ironic-python-agent.{ending}");
        let link = shared.path().join(link);
        let fetched = shared.path().join("fetched");
        let mut ironic = Command::new(repository().join("out/ironic/venv/bin/python"));
        ironic
            .arg(repository().join("tests/release/fetch_file_with_ironic.py"))
            .arg(shared.path())
            .arg(format!("file://{}", link.display()))
            .arg(&fetched);
        run(&mut ironic);
        assert!(fs::read(&fetched).unwrap() == upstream(ending), "{ending}");
        fs::remove_file(fetched).unwrap();
    }
}
