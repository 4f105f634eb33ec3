use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Output};

use landfall_devices::disk_sets::md_superblock::{Version, superblock};
use landfall_devices::permission::WritePermission;
use landfall_sys::skip::skip;

use super::*;
use crate::fixtures::loop_device;

const MIB: u64 = 1 << 20;

/// Returns `None`, with a printed reason, if the program is not installed.
fn run(program: &str, arguments: &[&str], path: &Path) -> Option<Output> {
    let output = Command::new(program)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(arguments)
        .arg(path)
        .output();
    output
        .map_err(|e| skip(format_args!("{program}: {e}")))
        .ok()
}

/// What wipefs and blkid print about the content of the file; empty if they
/// recognise nothing.
fn recognised(path: &Path) -> Option<String> {
    let wipefs = run("wipefs", &["--no-act", "--noheadings"], path)?;
    assert!(wipefs.status.success(), "{wipefs:?}");
    let blkid = run("blkid", &["--probe"], path)?;
    let mut text = String::from_utf8_lossy(&wipefs.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&blkid.stdout));
    Some(text)
}

fn disk_file(size: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(size).unwrap();
    file
}

fn erase(path: &Path) -> Vec<&'static str> {
    let target = Target::open_file(path, 512, &WritePermission::by_operator()).unwrap();
    erase_metadata(&target).unwrap()
}

#[test]
fn nothing_that_the_real_programs_make_is_recognised_afterwards() {
    for (program, arguments, size, kind) in [
        ("mke2fs", &["-q", "-F", "-t", "ext4"][..], 16 * MIB, "ext"),
        ("mkfs.xfs", &["-q"], 320 * MIB, "xfs"),
        ("mkfs.btrfs", &["-q"], 300 * MIB, "btrfs"),
        ("mkfs.vfat", &[], 16 * MIB, "vfat"),
        ("mkfs.vfat", &["-F", "32"], 64 * MIB, "vfat"),
        ("mkfs.vfat", &["-F", "32", "-S", "4096"], 512 * MIB, "vfat"),
        ("mkfs.exfat", &[], 16 * MIB, "exfat"),
        ("mkfs.ntfs", &["-Q", "-F", "-q"], 16 * MIB, "ntfs"),
        ("mkfs.f2fs", &["-q"], 64 * MIB, "f2fs"),
        ("mkfs.nilfs2", &["-q"], 256 * MIB, "nilfs2"),
        (
            "mkfs.gfs2",
            &["-q", "-O", "-p", "lock_nolock"],
            256 * MIB,
            "gfs2",
        ),
        ("mkfs.udf", &["--media-type=hd"], 16 * MIB, "udf"),
        ("mkfs.udf", &["--blocksize=4096"], 16 * MIB, "udf"),
        ("mkfs.minix", &[], 16 * MIB, "minix"),
        ("mkfs.bfs", &[], MIB, "bfs"),
        ("mkfs.erofs", &[], 16 * MIB, "erofs"),
        ("mkswap", &["-q"], 16 * MIB, "swap"),
        ("mkswap", &["-q", "--pagesize", "65536"], 16 * MIB, "swap"),
        ("make-bcache", &["-B"], 16 * MIB, "bcache"),
        ("make-bcache", &["-C"], 64 * MIB, "bcache"),
        ("sgdisk", &["-n", "1:0:+1M"], 16 * MIB, "gpt"),
    ] {
        let file = disk_file(size);
        let path = file.path();
        // mkfs.erofs takes a source directory after the image; the other programs
        // only take the image.
        let made = match program {
            "mkfs.erofs" => {
                let source = tempfile::tempdir().unwrap();
                let path = path.to_str().unwrap();
                run(program, &[path], source.path())
            }
            _ => run(program, arguments, path),
        };
        let Some(made) = made else { continue };
        assert!(made.status.success(), "{program}: {made:?}");
        let Some(before) = recognised(path) else {
            return;
        };
        assert!(!before.is_empty(), "{program} {arguments:?} made nothing");
        let found = erase(path);
        assert!(found.contains(&kind), "{program}: found only {found:?}");
        assert_eq!(
            recognised(path).unwrap(),
            "",
            "{program} {arguments:?}, was {before}"
        );
        assert_eq!(erase(path), [""; 0], "a second time there is nothing");
    }
}

#[test]
fn luks_and_its_second_header() {
    for kind in ["luks1", "luks2"] {
        let file = disk_file(32 * MIB);
        let arguments = [
            "luksFormat",
            "--batch-mode",
            "--type",
            kind,
            "--pbkdf",
            "pbkdf2",
            "--pbkdf-force-iterations",
            "1000",
            "--key-file",
            "/etc/hostname",
        ];
        let Some(made) = run("cryptsetup", &arguments, file.path()) else {
            return;
        };
        assert!(made.status.success(), "{made:?}");
        // Wipes the first header of LUKS2: the second one is enough to open the
        // volume.
        if kind == "luks2" {
            file.as_file().write_all_at(&[0; 4096], 0).unwrap();
        }
        assert!(erase(file.path()).contains(&"crypto_LUKS"), "{kind}");
        assert_eq!(recognised(file.path()).unwrap_or_default(), "", "{kind}");
        let dump = run("cryptsetup", &["luksDump"], file.path()).unwrap();
        assert!(!dump.status.success(), "{dump:?}");
    }
}

#[test]
fn a_volume_of_lvm() {
    let file = disk_file(32 * MIB);
    let Some(device) = loop_device(file.path(), 512) else {
        return;
    };
    let config = "devices { use_devicesfile=0 filter=[\"a|.*|\"] scan=[\"/dev\"] }";
    let Some(made) = run("pvcreate", &["-q", "--config", config], device.path()) else {
        return;
    };
    assert!(made.status.success(), "{made:?}");
    drop(device);
    assert!(recognised(file.path()).unwrap().contains("LVM2_member"));
    assert!(erase(file.path()).contains(&"LVM2_member"));
    assert_eq!(recognised(file.path()).unwrap(), "");
}

#[test]
fn members_of_a_software_raid() {
    for version in [Version::V0_90, Version::V1_0, Version::V1_1, Version::V1_2] {
        let size = 16 * MIB;
        let file = disk_file(size);
        let offset = version.offset(size).unwrap();
        file.as_file()
            .write_all_at(&superblock(version, size, "host:root"), offset)
            .unwrap();
        let Some(before) = recognised(file.path()) else {
            return;
        };
        assert!(
            before.contains("linux_raid_member"),
            "{version:?}: {before}"
        );
        assert_eq!(erase(file.path()), ["linux_raid_member"]);
        assert_eq!(recognised(file.path()).unwrap(), "");
    }
}

/// Writes each signature alone, at its possible positions, and erases it.
#[test]
fn every_signature_of_the_table_is_erased() {
    // Not a multiple of 4096, so that a wrong alignment makes the test fail.
    let size = 68 * MIB + 5 * 512;
    let file = disk_file(size);
    for signature in SIGNATURES {
        for offset in signature.place.offsets(size, signature.magic.len()) {
            file.as_file()
                .write_all_at(signature.magic, offset)
                .unwrap();
            let mut block = vec![0; signature.magic.len()];
            let kinds = erase(file.path());
            assert!(kinds.contains(&signature.kind), "{signature:?}: {kinds:?}");
            file.as_file().read_exact_at(&mut block, offset).unwrap();
            assert!(block.iter().all(|&byte| byte == 0), "{signature:?}");
            if offset > 4096
                && matches!(
                    signature.place,
                    super::super::signatures::Place::Every { .. }
                )
            {
                break;
            }
        }
    }
}

#[test]
fn the_data_between_stay() {
    let size = 32 * MIB;
    let file = disk_file(size);
    let data = vec![0xa5; 8192];
    file.as_file().write_all_at(&data, 10 * MIB).unwrap();
    erase(file.path());
    let mut after = vec![0; 8192];
    file.as_file().read_exact_at(&mut after, 10 * MIB).unwrap();
    assert_eq!(after, data);
}

#[test]
fn the_smallest_devices() {
    // The kernel shows an extended partition as a device of two sectors.
    for size in [512, 1024, 4096, 100 * 512, MIB, MIB + 512] {
        let file = disk_file(size);
        file.as_file()
            .write_all_at(&vec![0xff; size as usize], 0)
            .unwrap();
        erase(file.path());
        let mut bytes = vec![1; size as usize];
        OpenOptions::new()
            .read(true)
            .open(file.path())
            .unwrap()
            .read_exact_at(&mut bytes, 0)
            .unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0), "{size}");
    }
}
