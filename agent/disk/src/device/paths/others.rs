//! Opens the other paths to a disk or to a partition.

use std::io;
use std::path::{Path, PathBuf};

use landfall_devices::disk_paths::{self, SharedIdentity};
use landfall_sys::sysfs;
use nix::libc;

use super::{OpenPath, content};
use crate::device::busy::{Device, KernelView};

/// Another path to the disk is opened exclusively by another program.
#[derive(Debug)]
pub(crate) struct BusyPath(pub PathBuf);

/// The block devices that have the same world-wide name as a disk, except the device that
/// was opened first.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// The other paths, the active ones first.
    pub paths: Vec<OpenPath>,
    /// Block devices that show other content: other disks.
    pub namesakes: Vec<PathBuf>,
}

/// Opens the other paths to a disk of `size` bytes. If a path cannot be opened, the agent
/// logs this and continues without it.
///
/// # Errors
/// If another program has one of the paths open exclusively.
pub(crate) fn open_others(
    kernel: &KernelView,
    disk: &Device,
    first: &OpenPath,
    size: u64,
    write: bool,
) -> Result<Others, BusyPath> {
    let mut others = match kernel.other_paths(disk) {
        Ok(others) => others,
        Err(error) => {
            tracing::warn!(
                "/dev/{}: cannot look for its other paths: {error}",
                disk.name
            );
            Vec::new()
        }
    };
    others.sort_by_key(|other| !is_active(other));
    let mut opened = Others::default();
    for other in &others {
        let path = Path::new("/dev").join(&other.name);
        match open_other(kernel, disk, &path, write) {
            Ok(open) => match compared(open, other, first, size) {
                Some(open) => opened.paths.push(open),
                None => opened.namesakes.push(path),
            },
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(BusyPath(path));
            }
            Err(error) => tracing::warn!(
                "{}: cannot open this path to /dev/{}, continuing without it: {error}",
                path.display(),
                disk.name
            ),
        }
    }
    Ok(opened)
}

fn is_active(device: &Device) -> bool {
    let disk = device.disk_directory();
    disk.is_none_or(|disk| disk_paths::is_active(&disk))
}

/// Compares the path with the first one. Returns `None` if their content differs. Does
/// not read a path that is not active, because such a read may block until the kernel
/// gives up the path.
fn compared(path: OpenPath, device: &Device, first: &OpenPath, size: u64) -> Option<OpenPath> {
    if !is_active(device) {
        return Some(path);
    }
    match content::is_same(&first.file, &path.file, size) {
        Ok(true) => Some(OpenPath {
            is_compared: true,
            ..path
        }),
        Ok(false) => {
            tracing::warn!(
                "{} and {} have the same name, serial number and size, but different content: they are not used as paths to one disk",
                first.path.display(),
                path.path.display()
            );
            None
        }
        Err(error) => {
            tracing::info!(
                "{}: cannot compare it with its other paths: {error}",
                path.path.display()
            );
            Some(path)
        }
    }
}

fn open_other(
    kernel: &KernelView,
    disk: &Device,
    path: &Path,
    write: bool,
) -> io::Result<OpenPath> {
    let opened = OpenPath::open(path, write)?;
    // The name may belong to another disk by now, but the number of an open device
    // cannot change.
    let found = kernel.device(&opened.file.metadata()?)?;
    let own = identity(disk);
    if own.is_some() && own == identity(&found) && extent(disk) == extent(&found) {
        return Ok(opened);
    }
    Err(io::Error::other("it leads to another disk now"))
}

fn identity(device: &Device) -> Option<SharedIdentity> {
    disk_paths::identity(&device.disk_directory()?)
}

/// The start and the size of a partition, in units of 512 bytes; `None` for a whole disk.
/// They are compared because the kernel may have an old partition table on one of the
/// paths.
fn extent(device: &Device) -> [Option<u64>; 2] {
    ["start", "size"].map(|attribute| {
        let is_partition = device.partition.is_some();
        is_partition.then(|| sysfs::number(&device.directory.join(attribute)))?
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use landfall_sys::sys_tree::plant;
    use nix::sys::stat::{major, minor};

    use super::*;
    use crate::fixtures::{LoopDevice, empty_file, loop_device};

    const SIZE: u64 = 1 << 20;

    /// The agent lists both disks as one, so an operator who erases this disk must be
    /// warned about the second disk.
    #[test]
    fn a_disk_of_the_same_name_with_other_content_is_a_namesake() {
        let (one, other) = (empty_file(SIZE), empty_file(SIZE));
        let (Some(disk), Some(clone)) =
            (loop_device(one.path(), 512), loop_device(other.path(), 512))
        else {
            return;
        };
        let lines = |device: &LoopDevice| {
            let number = device.path().metadata().unwrap().rdev();
            let number = format!("{}:{}", major(number), minor(number));
            let name = device.path().file_name().unwrap().to_string_lossy();
            format!(
                "sys/block/{name}/dev = {number}\\n\n\
                 sys/block/{name}/size = 2048\\n\n\
                 sys/block/{name}/device/wwid = naa.600\\n\n\
                 sys/dev/block/{number} -> ../../block/{name}\n"
            )
        };
        let tree = plant(&(lines(&disk) + &lines(&clone)));
        let kernel = KernelView {
            sys: tree.directory().join("sys"),
            proc: tree.directory().join("proc"),
        };
        let device = kernel.device_at(disk.path()).unwrap();
        let open = || {
            let first = OpenPath::open(disk.path(), true).unwrap();
            open_others(&kernel, &device, &first, SIZE, true).unwrap()
        };
        let same = open();
        assert_eq!((same.paths.len(), same.namesakes.len()), (1, 0));
        drop(same);
        let mut bytes = crate::device::aligned_buffer::AlignedBuffer::zeroed(4096);
        bytes[7] = 1;
        let written = OpenPath::open(clone.path(), true).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&written.file, &bytes, 0).unwrap();
        drop(written);
        let different = open();
        assert!(different.paths.is_empty());
        assert_eq!(different.namesakes, [clone.path()]);
    }

    /// An array may hold the partition on the other path, and must not be overwritten.
    #[test]
    fn a_partition_is_opened_on_each_path() {
        let (one, other) = (empty_file(SIZE), empty_file(SIZE));
        let (Some(part), Some(same)) =
            (loop_device(one.path(), 512), loop_device(other.path(), 512))
        else {
            return;
        };
        let lines = |disk: &str, device: &LoopDevice, start: u64| {
            let number = device.path().metadata().unwrap().rdev();
            let number = format!("{}:{}", major(number), minor(number));
            let name = device.path().file_name().unwrap().to_string_lossy();
            format!(
                "sys/block/{disk}/dev = 8:{start}\\n\n\
                 sys/block/{disk}/size = 8192\\n\n\
                 sys/block/{disk}/device/wwid = naa.600\\n\n\
                 sys/block/{disk}/{name}/dev = {number}\\n\n\
                 sys/block/{disk}/{name}/partition = 1\\n\n\
                 sys/block/{disk}/{name}/start = {start}\\n\n\
                 sys/block/{disk}/{name}/size = 2048\\n\n\
                 sys/dev/block/{number} -> ../../block/{disk}/{name}\n"
            )
        };
        let opened = |starts: [u64; 2]| {
            let tree = plant(&(lines("sda", &part, starts[0]) + &lines("sdb", &same, starts[1])));
            let kernel = KernelView {
                sys: tree.directory().join("sys"),
                proc: tree.directory().join("proc"),
            };
            let device = kernel.device_at(part.path()).unwrap();
            assert_eq!(device.partition, Some(1));
            let first = OpenPath::open(part.path(), true).unwrap();
            let others = open_others(&kernel, &device, &first, SIZE, true);
            others.map(|others| others.paths.len())
        };
        assert_eq!(opened([64, 64]).unwrap(), 1);
        assert_eq!(opened([64, 128]).unwrap(), 0, "by an old table");
        let _held = OpenPath::open(same.path(), true).unwrap();
        assert!(opened([64, 64]).is_err());
    }
}
