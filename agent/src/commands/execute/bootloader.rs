//! `image.install_bootloader`, and the same at the end of `install_coreos`: the
//! firmware's boot entry for what was written.

use std::path::Path;

use serde_json::Value;

use crate::failure::Result;
use crate::handover::efi_entry;
use crate::permission::WritePermission;

/// On UEFI a boot entry for what the image brings; on BIOS the image's own boot
/// code is all there is to it.
pub(super) fn install(disk: &Path, target_mode: &str, ignore_failure: bool) -> Result<Value> {
    let permission = WritePermission::in_ramdisk()?;
    make_boot_entry(disk, &permission, ignore_failure)?;
    tracing::debug!("install_bootloader for {target_mode} done");
    Ok(Value::Null)
}

/// Makes the boot entry.
///
/// # Errors
/// If it cannot be made, unless that is to be ignored.
pub(super) fn make_boot_entry(
    disk: &Path,
    permission: &WritePermission,
    ignore_failure: bool,
) -> Result<()> {
    match efi_entry::make_boot_entry(disk, permission) {
        Ok(_) => Ok(()),
        Err(failure) if ignore_failure => {
            tracing::warn!("{failure}; ignored as asked");
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}
