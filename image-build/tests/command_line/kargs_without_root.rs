//! Changes disk images as a user without rights.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::fixture::Fixture;
use crate::kargs::{CHANGES, assert_changed, disk, pack, run};

/// The program can write only in the directory of its image, and not even in TMPDIR.
#[test]
fn no_root_is_needed() {
    const NOBODY: u32 = 65_534;
    // The fixture is not in TMPDIR, which may be in a home directory that the user nobody
    // cannot enter.
    let fixture = Fixture::in_directory(tempfile::tempdir_in("/var/tmp").unwrap());
    let original = disk(&fixture, &["-b", "1024"]);
    let path = |name: &str| fixture.path(name).to_str().unwrap().to_owned();
    let (raw, qcow2) = (path("disk.raw"), path("disk.qcow2"));
    run("qemu-img", &["convert", "-O", "qcow2", &raw, &qcow2]);
    pack(&fixture, "zstd", "disk.qcow2", "disk.qcow2.zst");
    // Copy the program into the directory of the fixture, because cargo's directory may
    // be in a home that others cannot enter. Another process makes the copy: if this
    // process did, the child of another test could have the copy open for writing, and
    // the program could not start (ETXTBSY).
    let program = path("landfall-image");
    run("cp", &[env!("CARGO_BIN_EXE_landfall-image"), &program]);
    // The mode forbids writing even for the owner, because the program runs as the owner
    // of this directory.
    let closed = path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        run("chown", &["-R", &format!("{NOBODY}:{NOBODY}"), &path("")]);
    }
    for arguments in [
        &["disk.raw", "-o", "out.raw"][..],
        &["disk.raw", "--in-place"],
        &["disk.qcow2", "--in-place"],
        &["disk.qcow2.zst", "--in-place"],
    ] {
        let mut command = Command::new(&program);
        command.arg("kargs").args(arguments).args(CHANGES);
        command.current_dir(fixture.path("")).env("TMPDIR", &closed);
        if is_root {
            // Set the group too: with `uid` alone, the program would keep the group of
            // root.
            command.uid(NOBODY).gid(NOBODY);
        }
        let result = command.output().unwrap();
        assert!(result.status.success(), "{arguments:?}: {result:?}");
    }
    run(
        "zstd",
        &[
            "-d",
            "-q",
            &path("disk.qcow2.zst"),
            "-o",
            &path("unpacked.qcow2"),
        ],
    );
    for name in ["disk.qcow2", "unpacked.qcow2"] {
        run("qemu-img", &["check", &path(name)]);
        let out = path(&format!("{name}.raw"));
        run("qemu-img", &["convert", "-O", "raw", &path(name), &out]);
    }
    for raw in [
        "out.raw",
        "disk.raw",
        "disk.qcow2.raw",
        "unpacked.qcow2.raw",
    ] {
        assert_changed(&fixture, raw, &original, raw);
    }
    if is_root {
        let owner = fs::metadata(fixture.path("out.raw")).unwrap().uid();
        assert_eq!(owner, NOBODY);
    }
}
