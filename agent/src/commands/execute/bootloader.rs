//! `image.install_bootloader`: the firmware's boot entry for what was written.

use std::path::Path;

use serde_json::Value;

use crate::critical_section;
use crate::failure::{Class, Failure, Result};
use crate::handover::efi_entry;
use crate::installation::BootEntry;
use crate::permission::WritePermission;

/// How Ironic calls the root of a whole disk image: by the signature in its MBR,
/// which names no file system.
const SIGNATURE: &str = "0x";

/// On UEFI a boot entry for what the image brings; on BIOS the image's own boot
/// code is all there is to it.
///
/// # Errors
/// If the entry cannot be made; on BIOS for an image that needs a boot loader to
/// be installed into it, which would run its programs with our rights
/// (CVE-2026-43003) and which the original, too, does no more by default.
pub(super) fn install(
    disk: &Path,
    root_uuid: &str,
    target_mode: &str,
    ignore_failure: bool,
) -> Result<Value> {
    let permission = WritePermission::in_ramdisk()?;
    let is_file_system = !root_uuid.is_empty() && !root_uuid.starts_with(SIGNATURE);
    let needs_loader = is_file_system && !efi_entry::booted_by_uefi();
    if needs_loader && !ignore_failure {
        return Err(Failure::new(
            Class::InvalidImage,
            format!("expected an image that brings its boot loader, found root {root_uuid}"),
        ));
    }
    let entry = if ignore_failure {
        BootEntry::Optional
    } else {
        BootEntry::Required
    };
    // Ironic's steps keep no partitions.
    entry.carry_out(disk, &[], &permission, &critical_section::enter())?;
    tracing::debug!("install_bootloader for {target_mode} done");
    Ok(Value::Null)
}
