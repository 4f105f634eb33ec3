//! The builder in a container, for sites without Debian.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::podman::Podman;
use crate::{PACKAGE, release, repository, run};

const IMAGE: &str = concat!("localhost/landfall-image:", env!("CARGO_PKG_VERSION"));

/// A kernel package. Any package is suitable, because the test gives the same package to
/// the container and to the program of the Debian package. The release itself has the
/// kernel of `out/packages/generic`.
pub fn kernel() -> PathBuf {
    let directory = repository().join("out/packages");
    let mut files = fs::read_dir(directory).unwrap();
    let kernel = files.find_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?.to_owned();
        (name.starts_with("linux-image-") && name.ends_with(".deb")).then_some(path)
    });
    kernel.unwrap()
}

/// Unpacks the builder's Debian package. Returns the directory with its files.
fn package(work: &Path) -> PathBuf {
    let file = release().join(PACKAGE);
    run(Command::new("dpkg-deb")
        .arg("-x")
        .arg(file)
        .arg(work.join("deb")));
    work.join("deb")
}

#[test]
fn the_container_makes_the_same_iso_as_the_package() {
    let podman = Podman::with_image("landfall-image.tar", IMAGE);
    let work = tempfile::tempdir().unwrap();
    let kernel_name = "kernel.deb";
    fs::copy(kernel(), work.path().join(kernel_name)).unwrap();
    let options = [
        "--kernel-deb",
        kernel_name,
        "--compress",
        "zstd:1",
        "--ca-bundle",
        "none",
        "--karg",
        "ipa-api-url=http://192.0.2.1:6385",
    ];
    let mut container = podman.run(work.path(), "/work");
    container.args([IMAGE, "iso", "--agent", "/usr/lib/landfall/landfall-agent"]);
    run(container.args(options).args(["-o", "container.iso"]));

    let installed = package(work.path());
    let mut program = Command::new(installed.join("usr/bin/landfall-image"));
    program.current_dir(work.path()).args(["iso", "--agent"]);
    program.arg(installed.join("usr/lib/landfall/landfall-agent"));
    run(program.args(options).args(["-o", "package.iso"]));
    let read = |name: &str| fs::read(work.path().join(name)).unwrap();
    assert!(read("container.iso") == read("package.iso"));
}

/// The maintainer scripts of the Debian packages did not run in the container, so
/// `landfall-image release` makes the bundle of authorities.
#[test]
fn the_container_has_public_authorities() {
    let podman = Podman::with_image("landfall-image.tar", IMAGE);
    let work = tempfile::tempdir().unwrap();
    fs::copy(kernel(), work.path().join("kernel.deb")).unwrap();
    let mut container = podman.run(work.path(), "/work");
    container.args([
        IMAGE,
        "initramfs",
        "--agent",
        "/usr/lib/landfall/landfall-agent",
    ]);
    container.args(["--kernel-deb", "kernel.deb", "--compress", "none"]);
    run(container.args(["-o", "initrd.img"]));
    let mut inspect = podman.run(work.path(), "/work");
    let inspected = run(inspect.args([IMAGE, "inspect", "--json", "initrd.img"]));
    let inspected: serde_json::Value = serde_json::from_str(&inspected).unwrap();
    let authorities = &inspected["ramdisk"]["authorities"][0];
    assert_eq!(authorities["path"], "etc/landfall/ca-bundle.pem");
    assert!(authorities["certificates"].as_u64().unwrap() > 100);
}
