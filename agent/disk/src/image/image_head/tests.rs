use std::process::Command;

use landfall_report::failure::Class;
use landfall_sys::skip::skip;
use uuid::Uuid;

use super::*;
use crate::fixtures::{gpt_image, put_mbr, used_disk};
use crate::tables::gpt::HEAD_LEN;

const DISK: Geometry = Geometry {
    size: 64 << 20,
    sector: 512,
};

fn mbr(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut head = vec![0; 4096];
    put_mbr(&mut head, entries);
    head
}

#[test]
fn the_size_of_an_image_is_read_from_its_gpt() {
    let image = gpt_image(16 << 20, 512);
    let facts = inspect(&image[..HEAD_LEN], DISK, Promise::default()).unwrap();
    assert_eq!(facts.end, 16 << 20);
    assert_eq!(facts.gpt.unwrap().partitions().len(), 2);
}

#[test]
fn an_image_for_uefi_has_an_efi_system_partition() {
    let bios_only = used_disk(16 << 20, 512, &[(1, "boot", Uuid::from_u128(1), 2, 4)]);
    for (head, expected) in [
        (&gpt_image(16 << 20, 512)[..HEAD_LEN], true),
        (&bios_only[..HEAD_LEN], false),
        (&mbr(&[(0x83, 2048, 2048), (0xef, 4096, 2048)])[..], true),
        (&mbr(&[(0x83, 2048, 2048)])[..], false),
    ] {
        let image = inspect(head, DISK, Promise::default()).unwrap();
        let judged = refuse_without_efi(head, &image);
        assert_eq!(judged.is_ok(), expected, "{judged:?}");
    }
}

#[test]
fn larger_than_the_disk_by_any_sign() {
    let image = gpt_image(16 << 20, 512);
    let small = Geometry {
        size: 8 << 20,
        sector: 512,
    };
    let one_mib = mbr(&[(0x83, 2048, 2048)]);
    let exact = |exact| Promise {
        exact: Some(exact),
        at_least: None,
    };
    let at_least = |at_least| Promise {
        exact: None,
        at_least: Some(at_least),
    };
    for (head, promise, disk) in [
        (&image[..HEAD_LEN], Promise::default(), small),
        (&mbr(&[(0x83, 2048, 1 << 20)]), Promise::default(), DISK),
        (&one_mib, exact(DISK.size + 1), DISK),
        (&one_mib, at_least(1 << 40), DISK),
    ] {
        let failure = inspect(head, disk, promise).unwrap_err();
        assert_eq!(failure.class, Class::ImageWriteError, "{failure}");
        assert!(
            failure.details.contains("larger than the disk"),
            "{failure}"
        );
    }
    assert!(inspect(&one_mib, DISK, exact(DISK.size)).is_ok());
}

#[test]
fn a_table_without_partitions_is_refused() {
    let mut device = std::io::Cursor::new(vec![0; 4 << 20]);
    let disk = ::gpt::GptConfig::new()
        .writable(true)
        .logical_block_size(512.try_into().unwrap())
        .create_from_device(&mut device, None)
        .unwrap();
    disk.write().unwrap();
    let head = &device.get_ref()[..HEAD_LEN];
    let failure = inspect(head, DISK, Promise::default()).unwrap_err();
    assert_eq!(failure.class, Class::DeploymentError);
    assert!(failure.details.starts_with("No partitions found"));
}

#[test]
fn the_other_sector_size_is_refused() {
    let image = gpt_image(16 << 20, 4096);
    let failure = inspect(&image[..HEAD_LEN], DISK, Promise::default()).unwrap_err();
    assert_eq!(
        failure.details,
        "source has sector size 4096 but destination has sector size 512"
    );
    let image = gpt_image(16 << 20, 512);
    let disk = Geometry {
        sector: 4096,
        ..DISK
    };
    let failure = inspect(&image[..HEAD_LEN], disk, Promise::default()).unwrap_err();
    assert!(failure.details.starts_with("source has sector size 512"));
}

#[test]
fn the_error_names_the_format_of_another_file() {
    let at = |offset: usize, magic: &[u8]| {
        // The MBR is valid, as in hybrid images.
        let mut head = mbr(&[(0x83, 1, 1)]);
        head.resize(40_000, 0);
        head[offset..offset + magic.len()].copy_from_slice(magic);
        head
    };
    let mut fat = mbr(&[]);
    fat[446..450].copy_from_slice(b"NTLD");
    let mut ext4 = vec![0; 4096];
    ext4[1080..1082].copy_from_slice(&[0x53, 0xef]);
    for (head, expected) in [
        (at(0, b"QFI\xfb\0\0\0\x03"), "qcow2"),
        (at(0, b"KDMV"), "VMDK"),
        (at(0x40, b"\x7f\x10\xda\xbe"), "VDI"),
        (at(32769, b"CD001"), "ISO 9660"),
        (at(32769, b"NSR02"), "UDF"),
        (at(257, b"ustar"), "tar"),
        (b"\n<!DOCTYPE html><html>".to_vec(), "web page"),
        (b"\x1f\x8b\x08\0".to_vec(), "packed twice"),
        (vec![0; 4096], "no GPT and no MBR"),
        (Vec::new(), "empty"),
        (fat, "no GPT and no MBR"),
        (ext4, "one file system (ext4)"),
    ] {
        let failure = inspect(&head, DISK, Promise::default()).unwrap_err();
        assert_eq!(failure.class, Class::InvalidImage);
        assert!(failure.details.contains(expected), "{failure}");
        assert!(failure.hint.is_some());
    }
}

#[test]
fn the_error_names_the_format_of_each_file_of_qemu_img() {
    let directory = tempfile::tempdir().unwrap();
    for (format, options, expected) in [
        ("qed", "", "QED"),
        ("vmdk", "subformat=monolithicSparse", "VMDK"),
        ("vmdk", "subformat=streamOptimized", "VMDK"),
        ("vmdk", "subformat=monolithicFlat", "VMDK"),
        ("vhdx", "", "VHDX"),
        ("vpc", "subformat=dynamic", "VHD image"),
        ("vdi", "", "VDI"),
        ("parallels", "", "Parallels"),
    ] {
        let file = directory.path().join(format);
        let mut create = Command::new("qemu-img");
        create.args(["create", "-q", "-f", format]);
        if !options.is_empty() {
            create.args(["-o", options]);
        }
        match create.arg(&file).arg("8M").output() {
            Ok(output) => assert!(output.status.success(), "{format}: {output:?}"),
            Err(error) => return skip(format_args!("qemu-img: {error}")),
        }
        let mut head = std::fs::read(&file).unwrap();
        head.truncate(HEAD_LEN);
        let failure = inspect(&head, DISK, Promise::default()).unwrap_err();
        assert_eq!(failure.class, Class::InvalidImage);
        assert!(failure.details.contains(expected), "{format}: {failure}");
    }
}
