//! The downloader image, run as metal3's manifests and scripts run it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use crate::podman::Podman;
use crate::{output, upstream};

const IMAGE: &str = concat!("localhost/landfall-downloader:", env!("CARGO_PKG_VERSION"));
const PROGRAM: &str = "/usr/local/bin/get-resource.sh";

/// Checks the files that Ironic's web server and conductor find, and that they belong to
/// `uid`.
fn published(shared: &Path, suffix: &str, uid: u32) {
    let images = shared.join("html/images");
    for ending in ["kernel", "initramfs"] {
        let link = images.join(format!("ironic-python-agent{suffix}.{ending}"));
        assert!(fs::read_link(&link).unwrap().is_relative());
        assert!(fs::read(&link).unwrap() == upstream(ending), "{ending}");
        assert_eq!(fs::metadata(&link).unwrap().uid(), uid);
    }
    let headers = images.join(format!("ironic-python-agent{suffix}.headers"));
    assert!(fs::read_to_string(headers).unwrap().contains("ETag: "));
}

#[test]
fn it_runs_as_every_platform_runs_it() {
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    for (name, uid, arguments, command, suffix) in [
        // baremetal-operator: `command` replaces the entry point. The pod sets uid and
        // group, and fsGroup gives the volume to the group.
        (
            "baremetal-operator",
            997,
            &["--user=997:994", "--entrypoint", PROGRAM][..],
            &[][..],
            "",
        ),
        // ironic-standalone-operator uses the entry point of the image.
        (
            "ironic-standalone-operator",
            997,
            &[
                "--user=997:994",
                "--env=IPA_BRANCH=master",
                "--env=IPA_ARCH=x86_64",
            ],
            &[],
            "_x86_64",
        ),
        // SUSE Edge.
        (
            "suse-edge",
            10475,
            &[
                "--user=10475:10475",
                "--entrypoint",
                PROGRAM,
                "--env=IPA_BASEURI=http://192.0.2.1/dib",
            ],
            &[],
            "",
        ),
        // run_local_ironic.sh runs the container as root, and with the path as an
        // argument.
        ("run_local_ironic.sh", 0, &[], &[PROGRAM], ""),
    ] {
        let shared = tempfile::tempdir().unwrap();
        if uid != 0 {
            chown(shared.path(), Some(uid), Some(uid)).unwrap();
        }
        let start = || {
            let mut run = podman.run(shared.path(), "/shared");
            run.args(["--read-only", "--read-only-tmpfs=false", "--cap-drop=all"]);
            run.args(["--security-opt=no-new-privileges"])
                .args(arguments);
            output(run.arg(IMAGE).args(command))
        };
        let first = start();
        let stderr = String::from_utf8_lossy(&first.stderr);
        assert!(first.status.success(), "{name}: {stderr}");
        assert!(
            stderr.contains(&format!(
                " are now those of landfall-{}-",
                env!("CARGO_PKG_VERSION")
            )),
            "{name}: {stderr}"
        );
        published(shared.path(), suffix, uid);
        let second = start();
        let stderr = String::from_utf8_lossy(&second.stderr);
        assert!(second.status.success(), "{name}: {stderr}");
        assert!(stderr.contains(" are still those of "), "{name}: {stderr}");
    }
}

#[test]
fn a_volume_of_another_user_is_named() {
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    let shared = tempfile::tempdir().unwrap();
    let mut run = podman.run(shared.path(), "/shared");
    run.args(["--cap-drop=all", "--user=997:994", IMAGE]);
    let failed = output(&mut run);
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("uid 997 cannot write to /shared"),
        "{stderr}"
    );
}
