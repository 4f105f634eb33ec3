//! `esp.img`: the EFI system partition for Ironic's setting `bootloader`. Ironic
//! puts it on the ISOs that it makes of kernel and ramdisk for virtual media.
//!
//! The image holds Debian's shim and signed GRUB, which start Debian's signed kernel
//! also with Secure Boot. The GRUB for media has the prefix /boot/grub, the default of
//! Ironic's `grub_config_path`.

use std::fs;

use anyhow::{Context as _, Result};
use landfall_initramfs::digest_writer;

use crate::boot_parts::{self, Part};
use crate::{grub_cfg, iso_image};

/// The parts that must be installed.
pub(super) const PARTS: [Part; 2] = [boot_parts::SHIM, boot_parts::SIGNED_GRUB_CD];

pub(super) fn build() -> Result<Vec<u8>> {
    let read =
        |part: Part| fs::read(part.what).with_context(|| format!("cannot read {}", part.what));
    let [shim, grub] = PARTS;
    let files = [
        ("EFI/BOOT/BOOTX64.EFI", read(shim)?),
        ("EFI/BOOT/grubx64.efi", read(grub)?),
        (
            "boot/grub/grub.cfg",
            grub_cfg::find_ironics_medium().as_bytes().to_vec(),
        ),
    ];
    let content: Vec<u8> = files.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let digest = digest_writer::sha256(&content);
    // Eight digits of a SHA-256 are a 32-bit number.
    let serial = u32::from_str_radix(&digest[..8], 16).unwrap_or_default();
    iso_image::fat_image(&files, serial)
}
