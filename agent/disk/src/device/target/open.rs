//! Opens a [`Target`]. Each constructor rejects devices that must not be written.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use landfall_devices::boot_medium::{self, BootMedia};
use landfall_devices::devices_below::{devices_below, in_sysfs};
use landfall_devices::identity::ChosenDisk;
use landfall_devices::permission::WritePermission;
use landfall_download::fetch::media_of;
use landfall_report::failure::{Failure, Result};
use landfall_sys::system_path::SystemPath;
use landfall_sys::{block_ioctl, sysfs};
use nix::libc;

use super::{Target, block_device_error};
use crate::device::busy::{self, Device, KernelView};
use crate::device::paths::{BusyPath, OpenPath, OpenPaths, Others, open_others};

impl Target {
    /// Opens a whole block device that nothing else uses.
    ///
    /// # Errors
    /// If the device is missing, is not a block device, is a partition or a boot medium,
    /// is read-only, empty or in use, or if its sectors have neither 512 nor 4096 bytes.
    /// The error for a disk in use lists every use.
    pub fn open(path: &Path, permission: &WritePermission) -> Result<Self> {
        Self::open_device(path, false, Access::Write(permission))
    }

    /// Like [`Target::open`], but rejects any disk except the chosen one.
    ///
    /// # Errors
    /// As for [`Target::open`]. If the name now belongs to another disk, the class is
    /// `DeviceNotFound`.
    pub fn open_chosen(disk: &ChosenDisk, permission: &WritePermission) -> Result<Self> {
        Self::of_chosen(disk, Access::Write(permission))
    }

    /// Like [`Target::open_chosen`], but read-only: the function makes the same checks,
    /// and nothing can be written.
    pub fn open_chosen_to_check(disk: &ChosenDisk) -> Result<Self> {
        Self::of_chosen(disk, Access::Check)
    }

    fn of_chosen(disk: &ChosenDisk, access: Access<'_>) -> Result<Self> {
        // If the path now names another disk, the error must say so, even if that disk
        // is in use.
        disk.refuse_other_name()?;
        let target = Self::open_device(&disk.path, false, access)?;
        // The name may have moved to another disk since the check.
        disk.refuse_other(target.device())?;
        Ok(target)
    }

    /// Like [`Target::open`], but also accepts a partition.
    pub fn open_disk_or_partition(path: &Path, permission: &WritePermission) -> Result<Self> {
        Self::open_device(path, true, Access::Write(permission))
    }

    fn open_device(path: &Path, partitions: bool, access: Access<'_>) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|e| not_found(path, &e.to_string()))?;
        if !metadata.file_type().is_block_device() {
            return Err(not_found(path, "not a block device"));
        }
        let kernel = KernelView::default();
        let device = kernel
            .device(&metadata)
            .map_err(|e| not_found(path, &format!("not in /sys: {e}")))?;
        if let Some(number) = device.partition.filter(|_| !partitions) {
            return Err(not_found(
                path,
                &format!("expected a whole disk, found partition {number}"),
            ));
        }
        refuse_boot_medium(&device.directory)?;
        refuse_unfit(&kernel, path, &device)?;

        let write = matches!(access, Access::Write(_));
        let first = OpenPath::open(path, write).map_err(|e| match e.raw_os_error() {
            // The device came into use after the check above, or sysfs does not
            // show the user (another exclusive open).
            Some(libc::EBUSY) => busy(path, "opened exclusively by another program"),
            _ => block_device_error(path, &format!("cannot open it: {e}")),
        })?;
        let file = &first.file;
        let ioctl = |what, e: io::Error| block_device_error(path, &format!("{what}: {e}"));
        let size = block_ioctl::size_bytes(file).map_err(|e| ioctl("cannot get its size", e))?;
        let sector = block_ioctl::logical_sector_size(file)
            .map_err(|e| ioctl("cannot get its sector size", e))?;
        if size == 0 {
            return Err(block_device_error(path, "size is 0, no medium"));
        }
        let others = open_others(&kernel, &device, &first, size, write);
        let others = others.map_err(|BusyPath(other)| {
            let other = other.display();
            busy(
                path,
                &format!(
                    "{other}, another path to this disk, is opened exclusively by another program"
                ),
            )
        })?;
        Self::new(OpenPaths::new(first, others), size, sector, true)
    }

    /// Opens an existing regular file as if it were a disk of the same size: the disk
    /// of a virtual machine, or of a test that runs without root.
    ///
    /// # Errors
    /// If the file is not a regular file or cannot be opened for writing, or if `sector`
    /// is neither 512 nor 4096.
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
        let path = path.to_owned();
        let paths = OpenPaths::new(OpenPath::new(path, file), Others::default());
        Self::new(paths, metadata.len(), sector, false)
    }
}

enum Access<'a> {
    Write(#[expect(dead_code, reason = "to have it is enough")] &'a WritePermission),
    Check,
}

/// The last check before a write. Steps, boot arguments, cleaning and sub-commands all
/// make this check, although the code that chooses the disk should already have skipped
/// boot media.
///
/// # Errors
/// If a write to this device would change a boot medium.
pub fn refuse_boot_medium(device: &SystemPath) -> Result<()> {
    let Some((disk, medium)) = BootMedia::look(device).below(device) else {
        return Ok(());
    };
    let disk = Path::new("/dev").join(disk);
    let text = format!("nothing was written: it is {medium}");
    Err(block_device_error(&disk, &text).hint(boot_medium::HINT))
}

/// Like [`refuse_boot_medium`], but for the medium that an image is read from: a USB
/// stick with the image may be the smallest disk of the machine. Opens no device, so
/// callers call this before they open the disk.
///
/// # Errors
/// If one of these URLs names a file on a device that shares a disk with `disk`.
pub fn refuse_medium_of_image(disk: &Path, urls: &[String]) -> Result<()> {
    let node = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let target = node(disk);
    let on_disk = |medium: PathBuf| {
        let medium = node(&medium);
        medium == target || share_a_disk(&in_sysfs(&medium), &in_sysfs(&target))
    };
    if !media_of(urls).any(on_disk) {
        return Ok(());
    }
    let text = "nothing was written: it is the medium that the image is on";
    Err(block_device_error(disk, text)
        .hint("choose another disk, or take the image from a server or from another medium"))
}

/// Whether these devices are on a common disk: for example a disk and its partition, two
/// partitions of one disk, or an array and one of its members.
pub(super) fn share_a_disk(one: &Option<SystemPath>, other: &Option<SystemPath>) -> bool {
    let disks = |device: &Option<SystemPath>| -> BTreeSet<PathBuf> {
        let below = device.iter().flat_map(devices_below);
        below.map(|disk| disk.as_path().to_owned()).collect()
    };
    !disks(one).is_disjoint(&disks(other))
}

fn refuse_unfit(kernel: &KernelView, path: &Path, device: &Device) -> Result<()> {
    // If the attribute is missing, the open for writing that follows detects a
    // read-only disk.
    if sysfs::flag(&device.directory.join("ro")) {
        return Err(block_device_error(path, "the disk is read-only")
            .hint("look for a write-protect switch or a read-only export of the volume"));
    }
    let uses = kernel
        .uses(device)
        .map_err(|e| block_device_error(path, &format!("cannot find out who uses it: {e}")))?;
    if uses.is_empty() {
        Ok(())
    } else {
        Err(busy(path, &busy::list(&uses)))
    }
}

/// The wording of coreos-installer, because people search for it.
fn busy(path: &Path, uses: &str) -> Failure {
    block_device_error(path, &format!("found busy partitions: {uses}"))
        .hint("unmount, stop or detach these and try again")
}

fn not_found(path: &Path, text: &str) -> Failure {
    Failure::device_not_found(format!("{}: {text}", path.display()))
}
