//! Erases the crash records that earlier kernels left in the firmware's memory.
//!
//! Kernels keep such records in UEFI variables or in the firmware's error record store
//! (ERST, ACPI 6.5, 18.5). pstore shows the records of one backend only, and on a machine
//! with an ERST that backend is the ERST, not the UEFI variables. So the agent deletes
//! the UEFI variables through efivarfs, and mounts pstore for the other records. The
//! agent loads no module for this: pstore and ERST cannot be built as modules.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Failure, Result};
use landfall_sys::mount::Mounted;
use nix::mount::MsFlags;

use crate::efi_entry::booted_by_uefi;
use crate::efi_variables::Variables;

/// `LINUX_EFI_CRASH_GUID` of <linux/efi.h>.
const CRASH_RECORDS: &str = "cfc8fc79-be2e-4ddc-97f0-9f98bfe302a0";
/// Where the kernel reports the backend of pstore.
const BACKEND: &str = "/sys/module/pstore/parameters/backend";
const ERST_TABLE: &str = "/sys/firmware/acpi/tables/ERST";
const ERST: &str = "erst";
const MOUNT_POINT: &str = "/sys/fs/pstore";

/// Deletes all crash records.
///
/// # Errors
/// If a store of records cannot be read, or a record cannot be deleted.
pub fn erase(_permission: &WritePermission) -> Result<()> {
    let mut deleted = 0;
    if booted_by_uefi() {
        deleted += Variables::of_firmware()?.remove_all_of(CRASH_RECORDS)?;
    }
    let backend = backend(&fs::read_to_string(BACKEND).unwrap_or_default()).map(str::to_owned);
    if Path::new(ERST_TABLE).exists() && backend.as_deref() != Some(ERST) {
        return Err(Failure::other(format!(
                "cannot erase pstore: the firmware has an error record store, expected the kernel to use it, found backend {}",
                backend.as_deref().unwrap_or("none")
            ),
        )
        .hint("the kernel needs CONFIG_ACPI_APEI and CONFIG_PSTORE; remove erst_disable, hest_disable and pstore.backend from the kernel command line"));
    }
    if let Some(backend) = backend {
        deleted += in_mounted_pstore(empty).map_err(|error| {
            Failure::other(format!("cannot erase pstore (backend {backend}): {error}"))
        })?;
    }
    tracing::info!("{deleted} crash records deleted");
    Ok(())
}

/// The kernel shows an unset string parameter as `(null)`.
fn backend(parameter: &str) -> Option<&str> {
    Some(parameter.trim()).filter(|name| !matches!(*name, "" | "(null)"))
}

/// Mounts pstore while `work` runs, unless a live system has mounted it already.
fn in_mounted_pstore(work: impl FnOnce(&Path) -> io::Result<usize>) -> io::Result<usize> {
    if let Some(directory) = mounted_pstore(&fs::read_to_string("/proc/mounts")?) {
        return work(&directory);
    }
    let directory = Path::new(MOUNT_POINT);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let mounted = Mounted::new(Path::new("pstore"), directory, "pstore", flags)
        .map_err(|error| io::Error::other(format!("cannot mount it on {MOUNT_POINT}: {error}")))?;
    let deleted = work(directory)?;
    mounted.unmount()?;
    Ok(deleted)
}

/// A line of /proc/mounts is `device mount-point type options ...`.
fn mounted_pstore(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let place = fields.nth(1)?;
        (fields.next()? == "pstore").then(|| place.into())
    })
}

/// Deletes all records and returns their number.
fn empty(directory: &Path) -> io::Result<usize> {
    let mut deleted = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        fs::remove_file(&path).map_err(|error| {
            io::Error::other(format!("cannot delete {}: {error}", path.display()))
        })?;
        tracing::info!("{}: deleted", path.display());
        deleted += 1;
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_backend_is_none() {
        for (text, expected) in [
            ("erst\n", Some("erst")),
            ("efi_pstore\n", Some("efi_pstore")),
            ("(null)\n", None),
            ("\n", None),
            ("", None),
        ] {
            assert_eq!(backend(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_a_pstore_is_emptied() {
        let mounts = "sysfs /sys sysfs rw 0 0\npstore /sys/fs/pstore pstore rw 0 0\n";
        assert_eq!(mounted_pstore(mounts), Some("/sys/fs/pstore".into()));
        assert_eq!(mounted_pstore("pstore /x tmpfs rw 0 0\n"), None);
        let dir = tempfile::tempdir().unwrap();
        for name in ["dmesg-erst-1", "dmesg-erst-2"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        assert_eq!(empty(dir.path()).unwrap(), 2);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
