//! Tests the Debian package, which apt installs with its dependencies.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::builder_container::kernel;
use crate::{PACKAGE, release, repository, run};

/// A minimal Debian root file system with the package installed.
struct Root(TempDir);

impl Root {
    fn install() -> Self {
        // Put the root on the disk, not into a tmpfs: it takes a gigabyte.
        let root = TempDir::with_prefix_in("package-", repository().join("out")).unwrap();
        run(
            Command::new(repository().join("tests/release/minimal_root.sh"))
                .arg(release().join(PACKAGE))
                .arg(root.path().join("root")),
        );
        Self(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("root").join(name)
    }

    /// Runs a program of the root in the root's /work, without a network.
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--net", "--fork", "--kill-child"])
            .args(["--propagation", "private", "sh", "-euc"])
            .arg("mount -t proc proc \"$1/proc\"; mount -t tmpfs tmpfs \"$1/tmp\"; exec chroot \"$@\"")
            .arg("run")
            .arg(self.path(""))
            .args(["env", "-i", "-C", "/work", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"])
            .arg(program)
            .args(arguments);
        run(&mut command)
    }
}

/// Every program that the builder calls is in a package on which the builder's package
/// depends.
#[test]
fn apt_installs_all_that_the_builder_needs() {
    let root = Root::install();
    fs::create_dir(root.path("work")).unwrap();
    fs::copy(kernel(), root.path("work/kernel.deb")).unwrap();
    let version = root.run("landfall-image", &["--version"]);
    assert_eq!(
        version.trim(),
        concat!("landfall-image ", env!("CARGO_PKG_VERSION"))
    );

    let agent = "/usr/lib/landfall/landfall-agent";
    let inputs = [
        "--agent",
        agent,
        "--kernel-deb",
        "kernel.deb",
        "--compress",
        "zstd:1",
    ];
    root.run(
        "landfall-image",
        &[&["iso", "-o", "a.iso"], &inputs[..]].concat(),
    );
    let inspected = root.run(
        "landfall-image",
        &["inspect", "--verify", "--json", "a.iso"],
    );
    let inspected: serde_json::Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(inspected["faults"], serde_json::json!([]));
    assert!(inspected["verified_files"].as_u64().unwrap() > 10);
    root.run(
        "landfall-image",
        &[&["pxe", "-o", "tree"], &inputs[..]].concat(),
    );
    root.run(
        "landfall-image",
        &["customize", "a.iso", "-o", "b.iso", "--karg", "a=1"],
    );
    let read = |name: &str| fs::read(root.path("work").join(name)).unwrap();
    assert!(read("a.iso") != read("b.iso"));
    // Build a release without containers from the programs of the package.
    let builder = ["--builder", "/usr/bin/landfall-image"];
    root.run(
        "landfall-image",
        &[&["release", "-o", "release"], &inputs[..], &builder].concat(),
    );
    assert!(read("release/landfall.iso") == read("a.iso"));

    // dpkg must list no file: it succeeds even if it has listed changed or missing
    // files.
    let changed = root.run("dpkg", &["--verify", "landfall-image"]);
    assert_eq!(changed, "");
    // No file remains after a purge.
    root.run("dpkg", &["--purge", "landfall-image"]);
    for path in [
        "usr/bin/landfall-image",
        "usr/lib/landfall",
        "usr/share/landfall",
    ] {
        assert!(!root.path(path).exists(), "{path}");
    }
}
