//! Removes boot entries from the firmware.

use landfall_devices::permission::WritePermission;
use landfall_report::failure::Result;
use regex_lite::Regex;

use crate::efi_device_path;
use crate::efi_entry::booted_by_uefi;
use crate::efi_load_option;
use crate::efi_variables::Variables;

/// Removes the entries whose device path, in the notation of efibootmgr, matches
/// one of the patterns. Does nothing on a host that was not booted by UEFI.
///
/// # Errors
/// If efivarfs is not mounted, or the firmware rejects a change.
pub fn remove_matching(patterns: &[Regex], _permission: &WritePermission) -> Result<()> {
    if !booted_by_uefi() {
        tracing::warn!("this host did not boot by UEFI, so no boot entry is removed");
        return Ok(());
    }
    remove(&Variables::of_firmware()?, patterns)
}

/// Changes the boot order before it removes an entry, so the order never names an
/// entry that no longer exists.
fn remove(variables: &Variables, patterns: &[Regex]) -> Result<()> {
    for entry in variables.entries()? {
        let content = variables.entry(entry.number)?.unwrap_or_default();
        let path = efi_load_option::device_path_of(&content).unwrap_or_default();
        let path = efi_device_path::to_text(path);
        if !patterns.iter().any(|pattern| pattern.is_match(&path)) {
            continue;
        }
        let before = variables.order()?;
        let mut after = before.clone();
        after.retain(|number| *number != entry.number);
        if after != before {
            variables.set_order(&after)?;
        }
        variables.remove_entry(entry.number)?;
        tracing::info!(
            "boot entry {:04X} {:?} removed: {path}",
            entry.number,
            entry.label
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::efi_load_option::{LoaderPath, PartitionId};

    #[test]
    fn only_matching_entries_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let variables = Variables::for_test(dir.path());
        let disk = efi_load_option::build(
            "RHEL",
            &LoaderPath {
                partition: 1,
                first_lba: 2048,
                sectors: 2048,
                id: PartitionId::Guid(uuid::Uuid::nil()),
                file: "\\EFI\\redhat\\shimx64.efi".into(),
            },
        );
        // An active entry with the label "USB", whose path has one USB node.
        let usb = b"\x01\0\0\0\x0a\0U\0S\0B\0\0\0\x03\x05\x06\0\x01\0\x7f\xff\x04\0";
        variables.set_entry(0, &disk).unwrap();
        variables.set_entry(1, usb).unwrap();
        variables.set_entry(2, b"broken").unwrap();
        variables.set_order(&[0, 1, 2]).unwrap();
        remove(&variables, &[Regex::new(r"(?i)^hd\(").unwrap()]).unwrap();
        assert_eq!(variables.order().unwrap(), [1, 2]);
        assert_eq!(variables.entry(0).unwrap(), None);
        remove(&variables, &[Regex::new(r"(?i)usb\(1,0\)").unwrap()]).unwrap();
        assert_eq!(variables.order().unwrap(), [2]);
        assert_eq!(variables.entries().unwrap().len(), 1);
    }
}
