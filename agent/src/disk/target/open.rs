//! The ways to a [`Target`]: every one refuses what must not be written.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::libc;
use nix::sys::stat::{major, minor};

use super::{Target, block_device_error};
use crate::boot_medium::{self, BootMedia};
use crate::disk::busy::{self, Device, KernelView};
use crate::failure::{Class, Failure, Result};
use crate::permission::WritePermission;
use crate::sys::block_ioctl;
use crate::system_path::SystemPath;

impl Target {
    /// Opens a whole block device that nobody else uses.
    ///
    /// # Errors
    /// If it is missing, no block device, a partition, a boot medium, read-only,
    /// empty or in use; a disk in use is reported with every use by name.
    pub fn open(path: &Path, permission: &WritePermission) -> Result<Self> {
        Self::open_device(path, false, Access::Write(permission))
    }

    /// As [`Target::open`], but nothing can be written: for a look at what a write
    /// would meet.
    ///
    /// # Errors
    /// See there.
    pub fn open_to_check(path: &Path) -> Result<Self> {
        Self::open_device(path, false, Access::Check)
    }

    /// As [`Target::open`], for a disk or one of its partitions.
    ///
    /// # Errors
    /// See there.
    pub fn open_disk_or_partition(path: &Path, permission: &WritePermission) -> Result<Self> {
        Self::open_device(path, true, Access::Write(permission))
    }

    fn open_device(path: &Path, partitions: bool, access: Access<'_>) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|e| not_found(path, &e.to_string()))?;
        if !metadata.file_type().is_block_device() {
            return Err(not_found(path, "not a block device"));
        }
        let kernel = KernelView::default();
        let number = metadata.rdev();
        let device = kernel
            .device(major(number), minor(number))
            .map_err(|e| not_found(path, &format!("not in /sys: {e}")))?;
        if let Some(number) = device.partition.filter(|_| !partitions) {
            return Err(not_found(
                path,
                &format!("expected a whole disk, found partition {number}"),
            ));
        }
        refuse_boot_medium(&SystemPath::live().join(&device.directory))?;
        refuse_unfit(&kernel, path, &device)?;

        let file = OpenOptions::new()
            .read(true)
            .write(matches!(access, Access::Write(_)))
            .custom_flags(libc::O_DIRECT | libc::O_EXCL)
            .open(path)
            .map_err(|e| match e.raw_os_error() {
                // Between the look above and now, or by a user that sysfs does
                // not show (another exclusive open).
                Some(libc::EBUSY) => busy(path, "opened exclusively by another program"),
                _ => block_device_error(path, &format!("opening it: {e}")),
            })?;
        let ioctl = |what, e: io::Error| block_device_error(path, &format!("{what}: {e}"));
        let size = block_ioctl::size_bytes(&file).map_err(|e| ioctl("asking for the size", e))?;
        let sector = block_ioctl::logical_sector_size(&file)
            .map_err(|e| ioctl("asking for the sector size", e))?;
        if size == 0 {
            return Err(block_device_error(path, "size is 0, no medium"));
        }
        Self::new(path, file, size, sector, true)
    }

    /// Opens an existing regular file as if it were a disk of its size: a
    /// virtual machine's, or that of a test without root.
    ///
    /// # Errors
    /// If it is no regular file or cannot be written.
    pub fn open_file(path: &Path, sector: u32, _permission: &WritePermission) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|e| not_found(path, &e.to_string()))?;
        let metadata = file
            .metadata()
            .map_err(|e| not_found(path, &e.to_string()))?;
        if !metadata.is_file() {
            return Err(not_found(path, "not a regular file"));
        }
        Self::new(path, file, metadata.len(), sector, false)
    }
}

/// What the disk is opened for.
enum Access<'a> {
    Write(#[expect(dead_code, reason = "to have it is enough")] &'a WritePermission),
    Check,
}

/// The last guard before a write, whoever asks: steps, boot arguments, cleaning and
/// sub-commands all come through here. The choice of a disk should have skipped it.
///
/// # Errors
/// If a write to this disk or partition would change a boot medium.
pub fn refuse_boot_medium(device: &SystemPath) -> Result<()> {
    let Some((disk, medium)) = BootMedia::look(device).below(device) else {
        return Ok(());
    };
    let disk = Path::new("/dev").join(disk);
    let text = format!("nothing was written: it is {medium}");
    Err(block_device_error(&disk, &text).hint(boot_medium::HINT))
}

fn refuse_unfit(kernel: &KernelView, path: &Path, device: &Device) -> Result<()> {
    // A missing attribute says nothing; the open below will.
    if fs::read_to_string(device.directory.join("ro")).is_ok_and(|text| text.trim() == "1") {
        return Err(block_device_error(path, "the disk is read-only")
            .hint("look for a write-protect switch or a read-only export of the volume"));
    }
    let uses = kernel
        .uses(device)
        .map_err(|e| block_device_error(path, &format!("finding out who uses it: {e}")))?;
    if uses.is_empty() {
        Ok(())
    } else {
        Err(busy(path, &busy::list(&uses)))
    }
}

/// The words that coreos-installer uses, because people search for them.
fn busy(path: &Path, uses: &str) -> Failure {
    block_device_error(path, &format!("found busy partitions: {uses}"))
        .hint("unmount, stop or detach these and try again")
}

fn not_found(path: &Path, text: &str) -> Failure {
    Failure::new(Class::DeviceNotFound, format!("{}: {text}", path.display()))
}
