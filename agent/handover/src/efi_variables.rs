//! Reads and writes the firmware's boot variables `Boot####` and `BootOrder`
//! through efivarfs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use landfall_media_formats::little_endian::all_u16;
use landfall_report::failure::{Failure, Result};
use landfall_sys::file_flags;
use nix::libc;
use nix::sys::statfs::{FsType, statfs};

use crate::efi_load_option;

/// The mount point of efivarfs. If efivarfs is not mounted, this is an empty directory
/// of sysfs.
const MOUNT_POINT: &str = "/sys/firmware/efi/efivars";
/// `EFIVARFS_MAGIC` of <linux/magic.h>, which nix does not define.
const EFIVARFS: FsType = FsType(0xde5e_81e4);
/// The GUID EFI_GLOBAL_VARIABLE, as it appears in the file names of efivarfs.
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// NON_VOLATILE, BOOTSERVICE_ACCESS and RUNTIME_ACCESS: the specification requires
/// them for these variables (UEFI 2.10, table 3.1).
const ATTRIBUTES: u32 = 7;
/// In bytes. The limit of most firmware is 32 KiB.
const SIZE_LIMIT: u64 = 1 << 20;

/// An existing boot entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number in the name `Boot####`.
    pub number: u16,
    /// The label of the entry; empty if the entry is broken.
    pub label: String,
}

/// Access to the variables; holds the directory where efivarfs is mounted.
#[derive(Debug, Clone)]
pub struct Variables {
    directory: PathBuf,
}

impl Variables {
    /// The variables of this machine's firmware.
    ///
    /// # Errors
    /// If efivarfs is not mounted. Files written to the directory below the mount
    /// point would never reach the firmware.
    pub fn of_firmware() -> Result<Self> {
        let directory = Path::new(MOUNT_POINT);
        refuse_other_file_system(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    /// Simulates firmware variables with plain files in a directory.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn for_test(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// All boot entries, sorted by number.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let failed = |e: io::Error| error(&self.directory.display().to_string(), &e);
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.directory).map_err(failed)? {
            let file = file.map_err(failed)?;
            let Some(number) = file.file_name().to_str().and_then(entry_number) else {
                continue;
            };
            // If a name exists in upper and in lower case, use only the upper case, as
            // the specification requires.
            if file.path() != self.path(&entry_name(number)) {
                continue;
            }
            let content = read_file(&file.path()).map_err(|e| error(&entry_name(number), &e))?;
            let content = content.unwrap_or_default();
            entries.push(Entry {
                number,
                label: efi_load_option::label(&content).unwrap_or_default(),
            });
        }
        entries.sort_by_key(|entry| entry.number);
        Ok(entries)
    }

    /// The content of an entry; `None` if there is no such entry.
    pub fn entry(&self, number: u16) -> Result<Option<Vec<u8>>> {
        self.read(&entry_name(number))
    }

    /// Creates or replaces an entry.
    pub fn set_entry(&self, number: u16, content: &[u8]) -> Result<()> {
        self.write(&entry_name(number), content)
    }

    pub fn remove_entry(&self, number: u16) -> Result<()> {
        let name = entry_name(number);
        let path = self.path(&name);
        make_mutable(&path)
            .and_then(|()| fs::remove_file(&path))
            .map_err(|e| error(&name, &e))
    }

    /// The order in which the firmware tries the entries; empty if the machine has no
    /// boot order.
    pub fn order(&self) -> Result<Vec<u16>> {
        let content = self.read("BootOrder")?.unwrap_or_default();
        Ok(all_u16(&content).collect())
    }

    pub fn set_order(&self, order: &[u16]) -> Result<()> {
        let content: Vec<u8> = order.iter().copied().flat_map(u16::to_le_bytes).collect();
        self.write("BootOrder", &content)
    }

    /// Deletes all variables of this vendor GUID, and returns their number.
    pub fn remove_all_of(&self, vendor: &str) -> Result<usize> {
        let failed = |e: io::Error| error(&self.directory.display().to_string(), &e);
        let mut removed = 0;
        for file in fs::read_dir(&self.directory).map_err(failed)? {
            let file = file.map_err(failed)?;
            let name = file.file_name().to_string_lossy().into_owned();
            let is_vendors = name
                .strip_suffix(vendor)
                .is_some_and(|name| name.ends_with('-'));
            if !is_vendors {
                continue;
            }
            make_mutable(&file.path())
                .and_then(|()| fs::remove_file(file.path()))
                .map_err(|e| error(&name, &e))?;
            tracing::info!("UEFI variable {name} deleted");
            removed += 1;
        }
        Ok(removed)
    }

    /// The file of a variable. efivarfs distinguishes upper and lower case. UEFI 2.10,
    /// 3.1.1 requires the digits of `Boot####` in upper case, but some firmware writes
    /// them in lower case, so this function also looks for such a file.
    fn path(&self, name: &str) -> PathBuf {
        let name = format!("{name}-{GLOBAL}");
        let path = self.directory.join(&name);
        if path.exists() || entry_number(&name).is_none() {
            return path;
        }
        let files = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let mut paths = files.map(|file| file.path());
        let is_it = |path: &PathBuf| {
            let found = path.file_name();
            found.is_some_and(|found| found.eq_ignore_ascii_case(&name))
        };
        paths.find(is_it).unwrap_or(path)
    }

    /// The value; `None` if the variable does not exist.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        read_file(&self.path(name)).map_err(|e| error(name, &e))
    }

    /// efivarfs expects the attributes and the value in one write(2). It would treat each
    /// of several writes as a complete value.
    fn write(&self, name: &str, value: &[u8]) -> Result<()> {
        let path = self.path(name);
        let mut bytes = ATTRIBUTES.to_le_bytes().to_vec();
        bytes.extend_from_slice(value);
        let write = || -> io::Result<()> {
            if path.exists() {
                make_mutable(&path)?;
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)?;
            let written = file.write(&bytes)?;
            if written == bytes.len() {
                Ok(())
            } else {
                Err(io::Error::other(format!(
                    "only {written} of {} bytes were written",
                    bytes.len()
                )))
            }
        };
        write().map_err(|e| error(name, &e))
    }
}

fn refuse_other_file_system(directory: &Path) -> Result<()> {
    let found = match statfs(directory) {
        Ok(found) if found.filesystem_type() == EFIVARFS => return Ok(()),
        Ok(_) => "another file system".to_owned(),
        Err(errno) => errno.desc().to_owned(),
    };
    Err(Failure::deployment(format!(
            "UEFI variables: expected efivarfs on {}, found {found}",
            directory.display()
        ),
    )
    .hint("the ramdisk needs the kernel module efivarfs, and the kernel must be allowed to call the firmware: remove noefi and efi=noruntime from the kernel command line"))
}

/// The value without the four bytes of attributes; `None` if there is no such file.
fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut bytes = Vec::new();
    file.take(SIZE_LIMIT).read_to_end(&mut bytes)?;
    Ok(Some(bytes.get(4..).unwrap_or_default().to_vec()))
}

fn make_mutable(path: &Path) -> io::Result<()> {
    File::open(path).and_then(|file| file_flags::make_mutable(&file))
}

fn entry_name(number: u16) -> String {
    format!("Boot{number:04X}")
}

/// `Boot0001-8be4...` -> 1. Exactly four hexadecimal digits are accepted, because
/// `BootOrder` and `BootNext` have the same prefix.
fn entry_number(file_name: &str) -> Option<u16> {
    let digits = file_name
        .strip_suffix(GLOBAL)?
        .strip_suffix('-')?
        .strip_prefix("Boot")?;
    let plain = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain
        .then(|| u16::from_str_radix(digits, 16).ok())
        .flatten()
}

fn error(name: &str, reason: &io::Error) -> Failure {
    let failure = Failure::deployment(format!("UEFI variable {name}: {reason}"));
    match reason.raw_os_error() {
        Some(libc::ENOSPC) => failure.hint(
            "the firmware's variable store is full: remove old boot entries in its setup, or by the step clean_uefi_nvram",
        ),
        Some(libc::EROFS | libc::EPERM | libc::EACCES) => failure.hint(
            "the firmware does not let its variables be changed: look for a write protection in its setup",
        ),
        // The kernel returns EINVAL for EFI_INVALID_PARAMETER and unknown codes, EIO for
        // EFI_DEVICE_ERROR, and EINTR for EFI_ABORTED (`efi_status_to_err` of
        // drivers/firmware/efi/efi.c).
        Some(libc::EINVAL | libc::EIO | libc::ENOMEM | libc::EINTR) => failure.hint(
            "the firmware refuses the variable, which is usually a fault of the firmware: update the firmware or clear its boot entries",
        ),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_efivarfs_is_not_the_firmware() {
        let empty = tempfile::tempdir().unwrap();
        let missing = empty.path().join("missing");
        for (directory, found) in [
            (empty.path(), "found another file system"),
            (&missing, "found No such file"),
        ] {
            let failure = refuse_other_file_system(directory).unwrap_err();
            assert!(failure.details.contains(found), "{failure}");
            assert!(
                failure.details.contains("expected efivarfs on"),
                "{failure}"
            );
        }
    }

    #[test]
    fn only_boot_entries_are_entries() {
        for (name, number) in [
            ("Boot0001", Some(1)),
            ("BootABCD", Some(0xabcd)),
            ("BootOrder", None),
            ("BootNext", None),
            ("Boot001", None),
            ("Boot+001", None),
            ("Key0001", None),
        ] {
            assert_eq!(entry_number(&format!("{name}-{GLOBAL}")), number, "{name}");
        }
        assert_eq!(entry_number("Boot0001-other-guid"), None);
    }

    #[test]
    fn variables_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let variables = Variables::for_test(dir.path());
        assert!(variables.order().unwrap().is_empty());
        assert_eq!(variables.entry(1).unwrap(), None);
        variables.set_order(&[3, 0xabcd]).unwrap();
        variables.set_entry(0x1a, b"\x01\0\0\0\0\0L\0\0\0").unwrap();
        assert_eq!(variables.order().unwrap(), [3, 0xabcd]);
        let entries = variables.entries().unwrap();
        assert_eq!((entries[0].number, entries[0].label.as_str()), (0x1a, "L"));
        let raw = fs::read(dir.path().join(format!("BootOrder-{GLOBAL}"))).unwrap();
        assert_eq!(raw, [7, 0, 0, 0, 3, 0, 0xcd, 0xab]);
        variables.remove_entry(0x1a).unwrap();
        assert!(variables.entries().unwrap().is_empty());
    }

    #[test]
    fn an_entry_in_lower_case_is_the_same_entry() {
        let dir = tempfile::tempdir().unwrap();
        let variables = Variables::for_test(dir.path());
        let file = dir.path().join(format!("Boot00ab-{GLOBAL}"));
        fs::write(&file, b"\x07\0\0\0\x01\0\0\0\0\0L\0\0\0").unwrap();
        let entries = variables.entries().unwrap();
        assert_eq!((entries[0].number, entries[0].label.as_str()), (0xab, "L"));
        assert!(variables.entry(0xab).unwrap().is_some());
        variables.set_entry(0xab, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"\x07\0\0\0new");
        assert_eq!(variables.entries().unwrap().len(), 1);
        // If a name exists in upper and in lower case, the agent uses the upper case.
        let upper = dir.path().join(format!("Boot00AB-{GLOBAL}"));
        fs::write(&upper, b"\x07\0\0\0\x01\0\0\0\0\0U\0\0\0").unwrap();
        let labels: Vec<_> = variables.entries().unwrap();
        assert_eq!((labels.len(), labels[0].label.as_str()), (1, "U"));
        variables.remove_entry(0xab).unwrap();
        assert!(file.exists() && !upper.exists());
        variables.remove_entry(0xab).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn only_variables_of_the_vendor_are_removed() {
        const CRASH: &str = "cfc8fc79-be2e-4ddc-97f0-9f98bfe302a0";
        let dir = tempfile::tempdir().unwrap();
        let variables = Variables::for_test(dir.path());
        variables.set_order(&[1]).unwrap();
        for part in 1..3 {
            let name = format!("dump-type0-{part}-1-1700000000-C-{CRASH}");
            fs::write(dir.path().join(name), "record").unwrap();
        }
        assert_eq!(variables.remove_all_of(CRASH).unwrap(), 2);
        assert_eq!(variables.remove_all_of(CRASH).unwrap(), 0);
        assert_eq!(variables.order().unwrap(), [1]);
    }

    #[test]
    fn a_refusal_that_is_known_comes_with_a_way_out() {
        for (number, word) in [
            (libc::ENOSPC, "store is full"),
            (libc::EROFS, "does not let"),
            (libc::EINVAL, "refuses the variable"),
            (libc::EIO, "refuses the variable"),
        ] {
            let failure = error("Boot0001", &io::Error::from_raw_os_error(number));
            assert!(failure.details.contains("Boot0001"));
            let hint = failure.hint.unwrap();
            assert!(hint.contains(word), "{hint}");
        }
    }
}
