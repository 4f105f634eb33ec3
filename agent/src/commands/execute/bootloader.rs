//! `image.install_bootloader`: makes the firmware's boot entry for the written
//! image.

use std::path::Path;

use landfall_devices::permission::WritePermission;
use landfall_disk::critical_section;
use landfall_handover::efi_entry;
use landfall_installation::BootEntry;
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

/// The prefix of a disk signature. For a whole-disk image, Ironic sends the disk
/// signature of the MBR where it otherwise sends the UUID of the root file system.
const SIGNATURE: &str = "0x";

/// On UEFI, makes a boot entry for the boot loader in the image. On BIOS it does
/// nothing, because the image contains its own boot code.
///
/// # Errors
/// If the agent has no write permission. Unless `ignore_failure` is set, also if the
/// entry cannot be made, and on BIOS if the agent would have to install a boot loader
/// into the image: that would run the image's programs with the agent's rights
/// (CVE-2026-43003). By default Ironic's agent no longer does this either.
pub(super) fn install(
    disk: &Path,
    root_uuid: &str,
    target_mode: &str,
    ignore_failure: bool,
) -> Result<Value> {
    let permission = WritePermission::by_boot()?;
    let is_file_system = !root_uuid.is_empty() && !root_uuid.starts_with(SIGNATURE);
    let needs_loader = is_file_system && !efi_entry::booted_by_uefi();
    if needs_loader && !ignore_failure {
        return Err(Failure::invalid_image(format!(
            "expected an image that contains a boot loader, found root {root_uuid}"
        )));
    }
    let entry = if ignore_failure {
        BootEntry::Optional
    } else {
        BootEntry::Required
    };
    // `&[]`: no command of Ironic keeps partitions of the disk.
    entry.carry_out(disk, &[], &permission, &critical_section::enter())?;
    tracing::debug!("install_bootloader for {target_mode} done");
    Ok(Value::Null)
}
