//! Changes disk images like those of CoreOS. The real programs make and check them:
//! sgdisk, mke2fs, mkfs.vfat, qemu-img, and the packers.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fixture::Fixture;

const MIB: u64 = 1 << 20;
/// Size in MiB of each partition: BIOS-BOOT, EFI-SYSTEM, boot, root. The first partition
/// begins at 1 MiB.
const SIZES: [u64; 4] = [1, 8, 24, 4];
const BOOT: u64 = 10 * MIB;
const ENTRY: &str = "title CoreOS\noptions $ignition_firstboot rw ignition.platform.id=metal console=tty0 console=ttyS0,115200n8\nlinux /l\n";
const GRUB_CFG: &str = "set timeout=1\n# CONSOLE-SETTINGS-START\nserial --speed=115200\n# CONSOLE-SETTINGS-END\nblscfg\n";
const PLATFORMS: &str = r#"{
  "metal": {"grub_commands": ["serial --speed=115200"], "kernel_arguments": ["console=tty0", "console=ttyS0,115200n8"]},
  "qemu": {"grub_commands": ["terminal_input serial"], "kernel_arguments": ["console=ttyS0,115200n8"]}
}"#;
const KEYFILE: &str = "[connection]\nid=ens3\ntype=ethernet\n[ipv4]\nmethod=manual\naddress1=192.0.2.10/24,192.0.2.1\n";

pub fn run(program: &str, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    output.stdout
}

/// Makes `disk.raw`. Returns its bytes.
pub fn disk(fixture: &Fixture, mke2fs: &[&str]) -> Vec<u8> {
    for (path, text) in [
        ("boot/loader.1/entries/ostree-1.conf", ENTRY),
        ("boot/ignition.firstboot", ""),
        ("boot/coreos/platforms.json", PLATFORMS),
        ("boot/grub2/grub.cfg", GRUB_CFG),
    ] {
        fixture.put(path, text.as_bytes());
    }
    let _ = std::os::unix::fs::symlink("loader.1", fixture.path("boot/loader"));
    fixture.put("static/ens3.nmconnection", KEYFILE.as_bytes());
    let path = |name: &str| fixture.path(name).to_str().unwrap().to_owned();
    let raw = path("disk.raw");
    let size = (2 + SIZES.iter().sum::<u64>()) * MIB;
    let file = fs::File::create(&raw).unwrap();
    file.set_len(size).unwrap();
    let mut layout = vec!["-a".to_owned(), "2048".to_owned()];
    for (index, size) in SIZES.iter().enumerate() {
        let number = index + 1;
        layout.extend(["-n".to_owned(), format!("{number}:0:+{size}M")]);
    }
    layout.push(raw.clone());
    let layout: Vec<&str> = layout.iter().map(String::as_str).collect();
    run("sgdisk", &layout);
    let (esp, boot) = (path("esp.img"), path("boot.img"));
    fs::File::create(&esp).unwrap().set_len(8 * MIB).unwrap();
    run("mkfs.vfat", &["-n", "EFI-SYSTEM", &esp]);
    let _ = fs::remove_file(&boot);
    let tree = path("boot");
    let fixed = [
        "-q",
        "-t",
        "ext4",
        "-L",
        "boot",
        "-E",
        "root_owner=0:0",
        "-d",
        &tree,
    ];
    run("mke2fs", &[&fixed, mke2fs, &[&boot, "24M"]].concat());
    run(
        "debugfs",
        &[
            "-w",
            "-R",
            "ea_set / security.selinux system_u:object_r:boot_t:s0",
            &boot,
        ],
    );
    file.write_all_at(&fs::read(esp).unwrap(), 2 * MIB).unwrap();
    file.write_all_at(&fs::read(boot).unwrap(), BOOT).unwrap();
    file.write_all_at(&vec![0x55; 3 * MIB as usize], 34 * MIB)
        .unwrap();
    fs::read(raw).unwrap()
}

/// Checks a raw disk with sgdisk, fsck.fat and e2fsck. Copies its boot partition to a
/// file, and returns the path of the file.
fn judged(fixture: &Fixture, raw: &str) -> String {
    let path = |name: &str| fixture.path(name).to_str().unwrap().to_owned();
    let report = String::from_utf8(run("sgdisk", &["-v", &path(raw)])).unwrap();
    assert!(report.contains("No problems found"), "{report}");
    let bytes = fs::read(path(raw)).unwrap();
    for (name, offset, size) in [
        ("judged-esp", 2 * MIB, SIZES[1]),
        ("judged-boot", BOOT, SIZES[2]),
    ] {
        let at = offset as usize;
        fs::write(path(name), &bytes[at..at + (size * MIB) as usize]).unwrap();
    }
    run("fsck.fat", &["-n", &path("judged-esp")]);
    run("e2fsck", &["-fn", &path("judged-boot")]);
    path("judged-boot")
}

fn cat(boot: &str, file: &str) -> String {
    let request = format!("cat {file}");
    String::from_utf8(run("debugfs", &["-R", &request, boot])).unwrap()
}

pub fn assert_changed(fixture: &Fixture, raw: &str, original: &[u8], what: &str) {
    let boot = judged(fixture, raw);
    assert_eq!(
        cat(&boot, "/loader.1/entries/ostree-1.conf"),
        "title CoreOS\noptions $ignition_firstboot rw ignition.platform.id=qemu console=ttyS0,115200n8 nosmt\nlinux /l\n",
        "{what}"
    );
    assert_eq!(
        cat(&boot, "/grub2/grub.cfg"),
        GRUB_CFG.replace("serial --speed=115200", "terminal_input serial"),
        "{what}"
    );
    assert_eq!(
        cat(&boot, "/coreos-firstboot-network/ens3.nmconnection"),
        KEYFILE
    );
    assert_eq!(
        cat(&boot, "/ignition.firstboot"),
        "set ignition_network_kcmdline=\"rd.neednet=1\"\n"
    );
    for (file, expected) in [
        ("/coreos-firstboot-network", "Mode:  0755"),
        ("/coreos-firstboot-network/ens3.nmconnection", "Mode:  0600"),
        ("/coreos-firstboot-network/ens3.nmconnection", "boot_t:s0"),
    ] {
        let request = format!("stat {file}");
        let output = run("debugfs", &["-R", &request, &boot]);
        let output = String::from_utf8_lossy(&output).into_owned();
        assert!(output.contains(expected), "{what}: {file}: {output}");
    }
    let changed = fs::read(fixture.path(raw)).unwrap();
    assert_eq!(changed.len(), original.len(), "{what}");
    let end = (BOOT + SIZES[2] * MIB) as usize;
    assert!(
        changed[..BOOT as usize] == original[..BOOT as usize] && changed[end..] == original[end..],
        "{what}: something else than the boot partition changed"
    );
}

pub const CHANGES: &[&str] = &[
    "--append",
    "nosmt",
    "--delete",
    "console=tty0",
    "--platform",
    "qemu",
    "--firstboot-args",
    "rd.neednet=1",
    "--network-keyfile",
    "static/ens3.nmconnection",
];

pub fn pack(fixture: &Fixture, program: &str, from: &str, to: &str) {
    let output = Command::new(program)
        .args(["-c", fixture.path(from).to_str().unwrap()])
        .stdout(fs::File::create(fixture.path(to)).unwrap())
        .stderr(Stdio::inherit())
        .status()
        .unwrap();
    assert!(output.success());
}

fn sha256sum(path: &Path) -> String {
    let output = String::from_utf8(run("sha256sum", &[path.to_str().unwrap()])).unwrap();
    output[..64].to_owned()
}

#[test]
fn every_format_and_packing() {
    let fixture = Fixture::new();
    let original = disk(&fixture, &["-b", "1024"]);
    let path = |name: &str| fixture.path(name).to_str().unwrap().to_owned();
    let (raw, qcow2) = (path("disk.raw"), path("disk.qcow2"));
    run("qemu-img", &["convert", "-O", "qcow2", &raw, &qcow2]);
    run(
        "qemu-img",
        &["convert", "-c", "-O", "qcow2", &raw, &path("packed.qcow2")],
    );
    for (image, format, packer) in [
        ("disk.raw", "raw", None),
        ("disk.qcow2", "qcow2", None),
        ("packed.qcow2", "qcow2", None),
        ("disk.raw", "raw", Some("gzip")),
        ("disk.raw", "raw", Some("xz")),
        ("disk.raw", "raw", Some("zstd")),
        ("disk.qcow2", "qcow2", Some("gzip")),
        ("disk.qcow2", "qcow2", Some("xz")),
        ("disk.qcow2", "qcow2", Some("zstd")),
        ("packed.qcow2", "qcow2", Some("zstd")),
    ] {
        let what = format!("{image} {packer:?}");
        let input = match packer {
            Some(packer) => {
                pack(&fixture, packer, image, "input");
                "input"
            }
            None => image,
        };
        let before = sha256sum(&fixture.path(input));
        let arguments = [&["kargs", input, "-o", "out", "--force", "--json"], CHANGES].concat();
        let result = fixture.run(&arguments);
        let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
        assert!(result.status.success(), "{what}: {stderr}");
        assert_eq!(sha256sum(&fixture.path(input)), before, "{what}");
        let summary: Value = serde_json::from_slice(&result.stdout).unwrap();
        assert_eq!(summary["format"], format, "{what}");
        assert_eq!(summary["packing"], packer.unwrap_or("none"), "{what}");
        assert_eq!(summary["sha256"], sha256sum(&fixture.path("out")), "{what}");
        assert_eq!(summary["network_keyfiles"][0], "ens3.nmconnection");
        assert_eq!(
            summary["kernel_args"],
            "$ignition_firstboot rw ignition.platform.id=qemu console=ttyS0,115200n8 nosmt"
        );
        match packer {
            Some(packer) => {
                let out = run(packer, &["-dc", &path("out")]);
                fs::write(path("unpacked"), out).unwrap();
            }
            None => drop(fs::copy(path("out"), path("unpacked")).unwrap()),
        }
        let digest = sha256sum(&fixture.path("unpacked"));
        assert_eq!(summary["unpacked"]["sha256"], digest, "{what}");
        if format == "qcow2" {
            run("qemu-img", &["check", &path("unpacked")]);
            run(
                "qemu-img",
                &[
                    "convert",
                    "-O",
                    "raw",
                    &path("unpacked"),
                    &path("final.raw"),
                ],
            );
        } else {
            fs::copy(path("unpacked"), path("final.raw")).unwrap();
        }
        assert_changed(&fixture, "final.raw", &original, &what);
    }
}

#[test]
fn boot_partitions_of_other_layouts() {
    for options in [
        &["-b", "4096"][..],
        &["-b", "1024", "-O", "^metadata_csum,^64bit"],
        &["-b", "1024", "-I", "128"],
        &["-b", "2048", "-O", "^has_journal"],
    ] {
        let fixture = Fixture::new();
        let original = disk(&fixture, options);
        let arguments = [&["kargs", "disk.raw", "--in-place"], CHANGES].concat();
        let result = fixture.run(&arguments);
        assert!(result.status.success(), "{result:?}");
        assert_changed(&fixture, "disk.raw", &original, &format!("{options:?}"));
    }
}

#[test]
fn a_link_stays_a_link_and_a_private_image_private() {
    let fixture = Fixture::new();
    disk(&fixture, &["-b", "1024"]);
    std::os::unix::fs::symlink("disk.raw", fixture.path("link")).unwrap();
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(fixture.path("disk.raw"), private).unwrap();
    let result = fixture.run(&["kargs", "link", "--append", "a", "--in-place"]);
    assert!(result.status.success(), "{result:?}");
    assert!(fixture.path("link").is_symlink());
    let metadata = fs::metadata(fixture.path("disk.raw")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    // Without a change, the settings are shown.
    let result = fixture.run(&["kargs", "disk.raw"]);
    assert_eq!(
        String::from_utf8(result.stdout).unwrap(),
        "  kargs    $ignition_firstboot rw ignition.platform.id=metal console=tty0 console=ttyS0,115200n8 a\n  keyfiles none\n"
    );
    pack(&fixture, "gzip", "disk.raw", "disk.raw.gz");
    let result = fixture.run(&["kargs", "--json", "disk.raw.gz"]);
    let shown: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert_eq!(shown["network_keyfiles"], serde_json::json!([]));
}

#[test]
fn an_image_in_use_is_not_replaced_and_keeps_its_owner() {
    let fixture = Fixture::new();
    let original = disk(&fixture, &["-b", "1024"]);
    let file = fs::File::open(fixture.path("disk.raw")).unwrap();
    file.lock_shared().unwrap();
    let error = fixture.fails(&["kargs", "disk.raw", "--append", "a", "--in-place"]);
    assert!(
        error.contains("is in use by another landfall-image"),
        "{error}"
    );
    assert!(fs::read(fixture.path("disk.raw")).unwrap() == original);
    drop(file);
    let is_root = fs::metadata(fixture.path("disk.raw")).unwrap().uid() == 0;
    if is_root {
        chown(fixture.path("disk.raw"), Some(1234), Some(5678)).unwrap();
        let result = fixture.run(&["kargs", "disk.raw", "--append", "a", "--in-place"]);
        assert!(result.status.success(), "{result:?}");
        let metadata = fs::metadata(fixture.path("disk.raw")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 5678));
    }
}

#[test]
fn no_failure_changes_anything() {
    let fixture = Fixture::new();
    let original = disk(&fixture, &["-b", "1024"]);
    let spoil = |name: &str, at: u64, bytes: &[u8]| {
        fs::write(fixture.path(name), &original).unwrap();
        let file = OpenOptions::new().write(true).open(fixture.path(name));
        file.unwrap().write_all_at(bytes, at).unwrap();
    };
    // Damage the state, the checksum, the label and the magic number of the superblock,
    // and the signature of the GPT.
    spoil("unclean", BOOT + 1024 + 0x3a, &[0]);
    // A byte of the time of the last check: any fixed value may be the right one.
    let time = BOOT + 1024 + 0x40;
    spoil("checksum", time, &[!original[time as usize]]);
    spoil("no-label", BOOT + 1024 + 0x78, b"x");
    spoil("no-ext4", BOOT + 1024 + 0x38, &[0, 0]);
    spoil("no-table", 512, b"x");
    fs::write(fixture.path("short"), &original[..12 * MIB as usize]).unwrap();
    pack(&fixture, "gzip", "disk.raw", "disk.raw.gz");
    let packed = fs::read(fixture.path("disk.raw.gz")).unwrap();
    fs::write(fixture.path("cut.gz"), &packed[..packed.len() / 2]).unwrap();
    pack(&fixture, "bzip2", "disk.raw", "disk.bz2");
    fixture.put("text", b"no image");
    fixture.put("eth0.conf", b"[connection]\n");
    fixture.put("exists", b"old");
    fixture.put("big.nmconnection", &vec![b'#'; MIB as usize + 1]);
    let names = fixture.list(".");
    for (arguments, expected) in [
        ("unclean --append a -o out", "checksum"),
        ("checksum --append a -o out", "superblock: wrong checksum"),
        ("no-label --append a -o out", "couldn't find boot device"),
        ("no-ext4 --append a -o out", "couldn't find boot device"),
        (
            "no-table --append a -o out",
            "expected a disk image with a GPT",
        ),
        ("short --append a -o out", "short: partition 4: "),
        ("cut.gz --append a -o out", "cannot read cut.gz"),
        ("disk.bz2 --append a -o out", "found bzip2"),
        ("text --append a -o out", "expected a disk image with a GPT"),
        ("none --append a -o out", "cannot read none"),
        ("boot --append a -o out", "expected a regular file"),
        ("disk.raw --append a", "expected -o FILE"),
        ("disk.raw -o out", "expected a change"),
        ("disk.raw --append a;b -o out", "quote it"),
        ("disk.raw --append a -o exists", "--force replaces it"),
        (
            "disk.raw --platform a=b --in-place",
            "expected a name like metal",
        ),
        (
            "disk.raw --firstboot-args a$b --in-place",
            "expected none of",
        ),
        (
            "disk.raw.gz --network-keyfile eth0.conf --in-place",
            "ends in .nmconnection",
        ),
        (
            "disk.raw.gz --network-keyfile big.nmconnection --in-place",
            "at most 262144 bytes, found 1048576",
        ),
    ] {
        let words: Vec<&str> = ["kargs"].into_iter().chain(arguments.split(' ')).collect();
        let error = fixture.fails(&words);
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert_eq!(fixture.list("."), names, "{arguments:?}");
    }
    assert!(fs::read(fixture.path("disk.raw")).unwrap() == original);
    assert!(fs::read(fixture.path("disk.raw.gz")).unwrap() == packed);
    // A second keyfile with the same name fails, and so does a second change of the
    // platform.
    for changes in [
        &["--network-keyfile", "static/ens3.nmconnection"][..],
        &["--platform", "qemu"],
    ] {
        let arguments = [&["kargs", "disk.raw", "--in-place"], changes].concat();
        assert!(fixture.run(&arguments).status.success());
        let before = fs::read(fixture.path("disk.raw")).unwrap();
        let error = fixture.fails(&arguments);
        assert!(
            error.contains("holds a keyfile of this name already")
                || error.contains("couldn't locate platform ID"),
            "{error}"
        );
        assert!(fs::read(fixture.path("disk.raw")).unwrap() == before);
    }
}
