//! Runs the builder's commands of README and docs as they are written, and compares
//! their output with the pages.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use landfall_documentation::blocks;
#[cfg(feature = "controller")]
use landfall_documentation::options_page;
use landfall_documentation::page::pages;
use landfall_documentation::run::Reader;

use crate::fixture::Fixture;
use crate::kargs;

/// A directory like the repository after `make build`, with the files that the
/// builder reads.
fn repository() -> Fixture {
    let fixture = Fixture::new();
    let agent = fs::read(fixture.path("agent")).unwrap();
    let release = "target/x86_64-unknown-linux-gnu/release";
    fixture.put(&format!("{release}/landfall-agent"), &agent);
    let live = [&agent[..], b"org.freedesktop.NetworkManager"].concat();
    fixture.put("out/live-system/landfall-agent", &live);
    symlink(
        env!("CARGO_BIN_EXE_landfall-image"),
        fixture.path(release).join("landfall-image"),
    )
    .unwrap();
    fixture.put(
        "kernel/DEBIAN/control",
        b"Package: linux-image-6.1-test\nVersion: 1\nArchitecture: amd64\n\
          Maintainer: a <a@b>\nDescription: a kernel\n",
    );
    fs::create_dir_all(fixture.path("out/packages")).unwrap();
    let built = Command::new("dpkg-deb")
        .args([
            "--build",
            "kernel",
            "out/packages/linux-image-6.1-test_1_amd64.deb",
        ])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(built.status.success());
    // The complete kernel, which most pages use.
    fs::create_dir_all(fixture.path("out/packages/generic")).unwrap();
    fs::copy(
        fixture.path("out/packages/linux-image-6.1-test_1_amd64.deb"),
        fixture.path("out/packages/generic/linux-image-6.1-test_1_amd64.deb"),
    )
    .unwrap();
    fixture.put("rhcos-qemu.x86_64.qcow2.gz", &coreos_image());
    fixture
}

/// A small disk image with the partitions of CoreOS, as qcow2 in gzip, the format of
/// CoreOS' image for virtual machines.
fn coreos_image() -> Vec<u8> {
    let work = Fixture::new();
    kargs::disk(&work, &["-b", "1024"]);
    let path = |name: &str| work.path(name).to_str().unwrap().to_owned();
    let (raw, qcow2) = (path("disk.raw"), path("disk.qcow2"));
    kargs::run("qemu-img", &["convert", "-O", "qcow2", &raw, &qcow2]);
    kargs::pack(&work, "gzip", "disk.qcow2", "disk.qcow2.gz");
    fs::read(path("disk.qcow2.gz")).unwrap()
}

#[test]
fn the_builders_commands_run_as_the_pages_show_them() {
    let fixture = repository();
    let path = format!(
        "{}:{}",
        fixture
            .path("target/x86_64-unknown-linux-gnu/release")
            .display(),
        std::env::var("PATH").unwrap()
    );
    let (mut count, mut differences) = (0, Vec::new());
    for page in pages().unwrap() {
        let reader = Reader {
            directory: &fixture.path("."),
            program: "landfall-image",
            path: path.clone(),
        };
        let (ran, found) = reader.follow(&blocks(&page)).unwrap();
        count += ran;
        differences.extend(found);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(count >= 20, "found {count} commands");
}

/// The page lists the command `controller`, which the program has only with this feature.
#[cfg(feature = "controller")]
#[test]
fn the_page_of_options_is_the_help() {
    let introduction = "The [guide](guide.md) shows the commands at work. The services have pages \
        of their own: [serve](image-service.md), [controller](controller.md). So has \
        [release](release.md).";
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_landfall-image"));
    options_page::check("docs/landfall-image.md", program, introduction).unwrap();
}
