//! `esp.img`: the EFI system partition for Ironic's setting `bootloader`. Ironic
//! puts it on the ISOs that it makes of kernel and ramdisk for virtual media.
//!
//! The image holds Debian's shim and signed GRUB, which start Debian's signed kernel also
//! with Secure Boot. The signed GRUB for CDs reads /boot/grub/grub.cfg, the default of
//! Ironic's `grub_config_path`.

use anyhow::Result;
use landfall_initramfs::digest_writer;

use crate::boot_parts::Loaders;
use crate::{grub_cfg, iso_image};

/// Builds the image from Debian's files that an ISO with Secure Boot needs too, so they
/// exist.
pub(super) fn build(loaders: &Loaders) -> Result<Vec<u8>> {
    let efi = loaders.efi();
    let grub = format!("EFI/BOOT/{}", efi.grub_name);
    let files = [
        (loaders.arch.removable_loader(), loaders.read(efi.shim)?),
        (grub.as_str(), loaders.read(efi.signed_grub_cd)?),
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
