//! Checks the first MiB of an unpacked image before anything is written to the disk:
//! whether it is a disk image, and whether it suits the disk. No I/O.

use std::ops::Range;

use landfall_download::web_page::is_web_page;
use landfall_report::failure::{Failure, Result};

use crate::tables::file_system;
use crate::tables::gpt::{self, BIOS_BOOT, EFI_SYSTEM, Table};
use crate::tables::mbr;

/// The properties of a disk that an image must fit.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// Size in bytes.
    pub size: u64,
    /// Logical sector size in bytes.
    pub sector: u32,
}

/// What is known about the size of the image, in bytes, before the image is unpacked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Promise {
    /// The exact size: the length of a download that is not compressed, or the size
    /// in a qcow2 header.
    pub exact: Option<u64>,
    /// A lower bound from the header of a compressed stream.
    pub at_least: Option<u64>,
}

/// What [`inspect`] found out about the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The GPT; `None` if the image has only an MBR.
    pub gpt: Option<Table>,
    /// The byte where the last partition ends. A shorter image is truncated.
    pub partitions_end: u64,
    /// A lower bound of the image's size in bytes, from its table and the promises.
    pub end: u64,
}

/// Formats that must not be written to a disk: the offset of their magic bytes, the
/// magic bytes, the name, and advice for the operator.
const FOREIGN: &[(usize, &[u8], &str, &str)] = &[
    (0, b"QFI\xfb", "a qcow2 image", CONVERT),
    (0, b"QED\0", "a QED image", CONVERT),
    (0, b"KDMV", "a VMDK image", CONVERT),
    (0, b"COWD", "a VMDK image", CONVERT),
    (0, b"# Disk DescriptorFile", "a VMDK descriptor", CONVERT),
    (0, b"vhdxfile", "a VHDX image", CONVERT),
    (0, b"conectix", "a VHD image", CONVERT),
    (0x40, b"\x7f\x10\xda\xbe", "a VDI image", CONVERT),
    (0, b"WithoutFreeSpace", "a Parallels image", CONVERT),
    (0, b"WithouFreSpacExt", "a Parallels image", CONVERT),
    (0, b"Bochs Virtual HD Image", "a Bochs image", CONVERT),
    (0, b"#!/bin/sh\n#V2.0 Format\n", "a cloop image", CONVERT),
    (0, b"\x3a\xff\x26\xed", "an Android sparse image", SPARSE),
    (0, b"LUKS\xba\xbe", "an encrypted (LUKS) volume", OTHER),
    (0, b"hsqs", "a squashfs file system", OTHER),
    (0, b"MSWIM\0\0\0", "a WIM archive", OTHER),
    (0, b"070701", "a cpio archive", OTHER),
    (0, b"\x1f\x8b\x08", "packed twice (gzip)", UNPACK),
    (0, b"\xfd7zXZ\0", "packed twice (xz)", UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "packed twice (zstd)", UNPACK),
    (0, b"\x04\x22\x4d\x18", "packed twice (lz4)", UNPACK),
    (0, b"BZh", "packed twice (bzip2)", UNPACK),
    (0, b"LZIP", "packed with lzip", UNPACK),
    (0, b"\x89LZO\0", "packed with lzop", UNPACK),
    (0, b"\x5d\0\0", "packed with lzma", UNPACK),
    (0, b"\x1f\x9d", "packed with compress", UNPACK),
    (0, b"PK\x03\x04", "a ZIP archive", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
    // An OVA is a tar archive, too.
    (257, b"ustar", "a tar archive", UNPACK),
    // The volume descriptors start at sector 16 (ISO 9660, 6.7.1; for UDF, ECMA-167
    // 3, 9.1).
    (32769, b"CD001", "an ISO 9660 image", ISO),
    (32769, b"NSR02", "a UDF image", ISO),
    (32769, b"NSR03", "a UDF image", ISO),
];

const CONVERT: &str = "convert it: qemu-img convert -O raw IMAGE image.raw";
const SPARSE: &str = "convert it: simg2img IMAGE image.raw";
const UNPACK: &str =
    "serve the raw disk image, plain or packed once with gzip, xz, zstd, lz4 or bzip2";
const OTHER: &str = "serve a raw image of a whole disk";
const ISO: &str = "an ISO boots from a CD or a stick; give the disk image (metal.raw)";

/// Checks the image by its first MiB, or by all of it if it is shorter.
///
/// # Errors
/// If this is not a disk image, or if the image has an invalid GPT or no partitions, is
/// made for another sector size, or is larger than the disk.
pub fn inspect(head: &[u8], disk: Geometry, promise: Promise) -> Result<Image> {
    refuse_foreign(head)?;
    let gpt = find_gpt(head, disk.sector)?;
    if gpt.is_none() && !mbr::has_partitions(head) {
        return Err(Failure::invalid_image(format!(
            "the image is no disk image: no GPT and no MBR in its first sectors, {}",
            preview(head)
        ))
        .hint(OTHER));
    }
    if gpt
        .as_ref()
        .is_some_and(|table| table.partitions().is_empty())
    {
        // The wording stays fixed, because people search for it.
        return Err(Failure::deployment(
            "No partitions found on the device: the image's GPT has none",
        ));
    }
    let (partitions_end, table_end) = match &gpt {
        Some(table) => (table.partitions_end(), table.image_size()),
        None => (mbr_end(head), mbr_end(head)),
    };
    let end = table_end
        .max(promise.exact.unwrap_or(0))
        .max(promise.at_least.unwrap_or(0));
    if end > disk.size {
        return Err(too_large(end, disk.size));
    }
    Ok(Image {
        gpt,
        partitions_end,
        end,
    })
}

/// Fails if UEFI firmware would find nothing to boot in the image.
///
/// # Errors
/// If the image's table has no EFI system partition.
pub fn refuse_without_efi(head: &[u8], image: &Image) -> Result<()> {
    let has_partition = match &image.gpt {
        Some(table) => table
            .partitions()
            .iter()
            .any(|part| part.kind == EFI_SYSTEM),
        None => {
            let mut entries = mbr::entries(head).into_iter().flatten();
            entries.any(|entry| entry.kind == mbr::EFI_SYSTEM)
        }
    };
    if has_partition {
        return Ok(());
    }
    Err(Failure::invalid_image(
        "expected an EFI system partition, because this machine booted by UEFI; found none in the image",
    )
    .hint("choose an image for UEFI or boot the machine in BIOS (legacy) mode; ipa-ignore-bootloader-failure=1 writes the image anyway"))
}

/// Fails if the kernel cannot use the image's partitions before the first MiB is on
/// the disk.
///
/// # Errors
/// If the image has no GPT, or if a partition other than BIOS boot begins in the
/// first MiB.
pub fn refuse_without_partitions(image: &Image) -> Result<()> {
    let Some(table) = &image.gpt else {
        return Err(Failure::invalid_image(
            "expected an image with a GPT, because the agent has to change its boot partition; found one with an MBR",
        )
        .hint("use a CoreOS image; for other images leave out Ignition config, kernel arguments and network settings (Ironic: use write_image and a config drive)"));
    };
    // In many images the BIOS boot partition is in the first MiB. That is allowed,
    // because the agent changes nothing in this partition.
    let mut shown = table.partitions().iter();
    shown
        .try_for_each(|partition| match partition.kind {
            BIOS_BOOT => Ok(()),
            _ => partition.refuse_in_head(),
        })
        .map_err(|reason| Failure::invalid_image(reason.to_string()))
}

/// A second format that the bytes match, in addition to the format that they start
/// with.
pub fn second_format(head: &[u8]) -> Option<&'static str> {
    let foreign = FOREIGN.iter().find(|(offset, magic, ..)| {
        *offset > 0
            && head
                .get(*offset..)
                .is_some_and(|rest| rest.starts_with(magic))
    });
    match foreign {
        Some((_, _, name, _)) => Some(name),
        // A GPT counts only if there is an MBR, because no program reads a GPT
        // without an MBR. In a qcow2 file with small clusters, the GPT of the disk
        // inside may happen to be at this place.
        None if mbr::entries(head).is_some()
            && [512, 4096]
                .iter()
                .any(|&size| gpt::has_signature(head, size)) =>
        {
            Some("a disk with a GPT")
        }
        None => mbr::has_partitions(head).then_some("a disk with an MBR"),
    }
}

/// The failure if the image is larger than the disk. Both sizes are in bytes. The agent
/// may detect this only while it writes.
pub fn too_large(image: u64, disk: u64) -> Failure {
    Failure::image_write(format!(
        "the image is larger than the disk: image at least {image} bytes, disk {disk} bytes"
    ))
    .hint("choose a larger root disk (root device hints) or a smaller image")
}

/// Finds the header of an old backup GPT in a piece of the image, if it would be
/// written to the disk's last sector. `offset` is the place of the piece on the disk.
/// The result is a range in `bytes`.
///
/// Such a header is left over from a table that the image had before its MBR. It is not
/// the backup of a current GPT, because the commit writes that backup. Some firmware
/// uses a backup if it finds no other table (UEFI 2.10, 5.3.2), which is the case while
/// the image is being written.
pub fn stale_backup(bytes: &[u8], offset: u64, disk: Geometry) -> Option<Range<usize>> {
    let sector = u64::from(disk.sector);
    let start = (disk.size - sector).checked_sub(offset)?;
    let header = usize::try_from(start).ok()?..usize::try_from(start + sector).ok()?;
    let found = bytes.get(header.clone())?.starts_with(gpt::SIGNATURE);
    found.then_some(header)
}

/// Fails if the image has a format that must not be written to a disk, or is a web page.
///
/// # Errors
/// The message has the name of the format, and the hint says what to do.
pub fn refuse_foreign(head: &[u8]) -> Result<()> {
    for (offset, magic, name, advice) in FOREIGN {
        if head
            .get(*offset..)
            .is_some_and(|rest| rest.starts_with(magic))
        {
            return Err(Failure::invalid_image(format!(
                "the image is no raw disk image: it is {name}"
            ))
            .hint(*advice));
        }
    }
    if is_web_page(head) {
        return Err(
            Failure::invalid_image("the image is no disk image: it is a web page")
                .hint("open the image URL in a browser: it may ask for a login"),
        );
    }
    Ok(())
}

/// The GPT for this sector size. A GPT for the other sector size is an error, because
/// the image is made for another kind of disk.
fn find_gpt(head: &[u8], sector: u32) -> Result<Option<Table>> {
    let other = if sector == 512 { 4096 } else { 512 };
    if gpt::has_signature(head, sector) {
        return Table::parse(head, sector)
            .map(Some)
            .map_err(|reason| Failure::invalid_image(format!("the image's GPT: {reason}")));
    }
    if gpt::has_signature(head, other) {
        // The words of coreos-installer, because people search for them.
        return Err(Failure::invalid_image(format!(
            "source has sector size {other} but destination has sector size {sector}"
        ))
        .hint(if sector == 4096 {
            "use the metal4k image on this disk"
        } else {
            "use the metal image on this disk, not metal4k"
        }));
    }
    Ok(None)
}

/// The byte at which the last partition of an MBR ends. Always assumes sectors of 512
/// bytes. On a 4K disk the result is too small, so the agent does not detect an image
/// that is too large until it writes the image.
fn mbr_end(head: &[u8]) -> u64 {
    let entries = mbr::entries(head).into_iter().flatten();
    entries
        .filter(|entry| entry.kind != 0)
        .map(|entry| (entry.first + entry.count) * 512)
        .max()
        .unwrap_or(0)
}

fn preview(head: &[u8]) -> String {
    if let Some(found) = file_system::identify(head) {
        return format!(
            "it holds one file system ({}), as a partition does",
            found.kind
        );
    }
    if head.is_empty() {
        return "it is empty".to_owned();
    }
    let bytes: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("it starts with {}", bytes.join(" "))
}

#[cfg(test)]
mod tests;
