//! Tests what the program says about wrong inputs.

use std::fs;

use crate::fixture::{Fixture, module};

const INPUT: [&str; 4] = ["--agent", "agent", "--kernel-dir", "kernel"];

#[test]
fn inputs_are_checked_before_any_work() {
    let fixture = Fixture::new();
    fixture.put("image.txt", b"apiVersion: v1\n");
    let other = env!("CARGO_BIN_EXE_landfall-image");
    for (arguments, expected) in [
        (
            &["iso", "--agent", "agent", "--coreos-image", "image.txt"][..],
            "image.txt: expected a disk image (raw or qcow2; plain or in gzip, xz, zstd, lz4 or bzip2), found a file without a partition table that begins with `apiVersion: v1\\n`",
        ),
        (
            &["initramfs", "--agent", other],
            ": expected landfall-agent, a static x86-64 program, found another program",
        ),
        (
            &["pxe", "--agent", "/bin/sh"],
            "agent /bin/sh: expected landfall-agent, a static x86-64 program, found a dynamically linked one",
        ),
        (
            &["pxe", "--agent", "agent", "--firmware", "no/such"],
            "--firmware: cannot list the firmware in no/such: No such file or directory (os error 2) -- give none, debian, or a directory with firmware files or .deb files",
        ),
        (
            &["pxe", "--agent", "agent", "--cache-dir", "broken.deb"],
            "--cache-dir broken.deb: expected a directory of your own that only you can write, found a file, ",
        ),
        (
            &["pxe", "--agent", "agent", "--coreos-image-url", "rhcos.raw"],
            "--coreos-image-url rhcos.raw: expected a URL, found a file",
        ),
    ] {
        let rest = ["--kernel-deb", "broken.deb", "-o", "x"];
        fixture.put("broken.deb", b"never looked at");
        let error = fixture.fails(&[arguments, &rest].concat());
        assert!(error.contains(expected), "{error}");
        assert!(!fixture.path("x").exists());
    }
}

#[test]
fn firmware_that_a_driver_needs_must_be_there() {
    let fixture = Fixture::new();
    fixture.put(
        "kernel/lib/modules/6.1-test/kernel/drivers/net/ethernet/broadcom/bnx2.ko",
        &module(b"vermagic=6.1-test SMP \0firmware=bnx2/bnx2-mips-06-6.2.3.fw\0"),
    );
    let command = ["initramfs", "--module-set", "server", "-o", "x"];
    assert_eq!(
        fixture.fails(&[&command[..], &INPUT].concat()),
        "landfall-image: FAILED firmware is missing that these drivers cannot work without: bnx2 \
         (firmware-bnx2) -- install these packages and give --firmware debian, or give --firmware \
         DIR, or --allow-missing-firmware if no host has these cards"
    );
    assert!(!fixture.path("x").exists());
    fixture.put("firmware/bnx2/bnx2-mips-06-6.2.3.fw", b"blob");
    for (options, files) in [
        (&["--firmware", "firmware"][..], 1),
        (&["--firmware-dir", "firmware"], 1),
        (&["--allow-missing-firmware"], 0),
    ] {
        let options = [&["--module-set", "server", "--force"], options].concat();
        let summary = fixture.build("initramfs", "x", &options);
        assert_eq!(summary["firmware_files"], files, "{options:?}");
    }
}

#[test]
fn only_a_remedy_that_helps_is_named() {
    let fixture = Fixture::new();
    let command = [&["iso"], &INPUT[..], &["-o", "x.iso"]].concat();
    let output = fixture.command(&command).env("PATH", "").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "FAILED missing xorriso, grub-mkimage -- apt-get install grub-common xorriso\n";
    assert!(stderr.ends_with(expected), "{stderr}");
}

#[test]
fn a_package_without_a_kernel_is_named() {
    let fixture = Fixture::new();
    fixture.put(
        "meta/DEBIAN/control",
        b"Package: linux-image-amd64\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b>\n\
          Depends: linux-image-6.1.0-56-amd64 (= 1)\nDescription: meta\n",
    );
    let built = std::process::Command::new("dpkg-deb")
        .args(["--build", "meta", "meta.deb"])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(built.status.success());
    let command = ["initramfs", "--agent", "agent", "-o", "x", "--kernel-deb"];
    let error = fixture.fails(&[&command[..], &["meta.deb"]].concat());
    assert_eq!(
        error,
        "landfall-image: FAILED meta.deb: expected a module tree (lib/modules/VERSION), found none \
         -- it only depends on linux-image-6.1.0-56-amd64; fetch that one \
         (apt-get download linux-image-6.1.0-56-amd64)"
    );
    fs::write(fixture.path("text.deb"), "text").unwrap();
    let error = fixture.fails(&[&command[..], &["text.deb"]].concat());
    assert!(error.contains("FAILED cannot unpack text.deb: "), "{error}");
}

/// The Kubernetes manifests set both variables in every pod.
#[cfg(feature = "controller")]
#[test]
fn the_names_of_a_pod_are_no_wish_for_a_lease() {
    let fixture = Fixture::new();
    let iso = ["--iso", "missing.iso", "--public-url", "http://192.0.2.1"];
    let command = [&["controller", "--no-lease"], &iso[..]].concat();
    let mut command = fixture.command(&command);
    command.env("POD_NAME", "a").env("POD_NAMESPACE", "b");
    let stderr = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(stderr.contains("FAILED missing.iso: "), "{stderr}");
}
