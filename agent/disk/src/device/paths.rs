//! The open paths to one disk. If one of them fails, a request is repeated on the next.
//!
//! The ramdisk has no multipathd: every path is a block device of its own. The agent
//! writes with O_DIRECT, and one request after the other, so a repeated request writes
//! the same bytes to the same place before any later one. What earlier requests have
//! left in the disk's own cache is flushed by a flush on any path (SBC-4, 5.28).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use landfall_devices::disk_paths;
use landfall_sys::block_ioctl;
use nix::errno::Errno;
use nix::libc;
use nix::sys::stat::{major, minor};

use crate::device::busy::{Device, KernelView};

/// A block device, opened exclusively.
#[derive(Debug)]
pub(crate) struct OpenPath {
    pub path: PathBuf,
    pub file: File,
}

impl OpenPath {
    /// Opens a block device without the kernel's cache, or fails if another program
    /// has opened it exclusively.
    pub fn open(path: &Path, write: bool) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(libc::O_DIRECT | libc::O_EXCL)
            .open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }
}

/// All open paths to a disk.
#[derive(Debug)]
pub(crate) struct OpenPaths {
    first: OpenPath,
    others: Vec<OpenPath>,
    /// The path in use: 0 for `first`, then the index in `others` + 1.
    used: AtomicUsize,
}

impl OpenPaths {
    pub fn new(first: OpenPath, others: Vec<OpenPath>) -> Self {
        Self {
            first,
            others,
            used: AtomicUsize::new(0),
        }
    }

    /// The path in use.
    pub fn used(&self) -> &OpenPath {
        self.path(self.used.load(Ordering::Relaxed))
    }

    /// The paths that are open, but not in use.
    pub fn unused(&self) -> impl Iterator<Item = &OpenPath> {
        let used = self.used.load(Ordering::Relaxed);
        (0..=self.others.len())
            .filter(move |index| *index != used)
            .map(move |index| self.path(index))
    }

    fn path(&self, index: usize) -> &OpenPath {
        let other = index
            .checked_sub(1)
            .and_then(|index| self.others.get(index));
        other.unwrap_or(&self.first)
    }

    /// Makes a request on the path in use, and if this path fails, on each other path
    /// once. `request` may be called several times.
    ///
    /// # Errors
    /// If the disk rejects the request, or if no path is left. Then the error is that
    /// of the last path.
    pub fn request<T>(&self, mut request: impl FnMut(&File) -> io::Result<T>) -> io::Result<T> {
        for _ in 0..self.others.len() {
            let used = self.used.load(Ordering::Relaxed);
            let path = self.path(used);
            let error = match request(&path.file) {
                Err(error) if is_gone(&path.file) || is_fault_of_path(&error) => error,
                done => return done,
            };
            let next = (used + 1) % (self.others.len() + 1);
            self.used.store(next, Ordering::Relaxed);
            tracing::warn!(
                "{}: this path to the disk failed ({error}), continuing on {}",
                path.path.display(),
                self.path(next).path.display()
            );
        }
        request(&self.used().file)
    }
}

/// If a disk disappears, the kernel sets the size of its block device to 0. Writes then
/// report that no space is left, and reads the end of the file.
fn is_gone(file: &File) -> bool {
    !block_ioctl::size_bytes(file).is_ok_and(|size| size > 0)
}

/// Whether another path may have success. The kernel judges the same way for
/// device-mapper's multipath target (`blk_path_error` of include/linux/blk_types.h).
/// `errors` of block/blk-core.c turns its states into these numbers.
fn is_fault_of_path(error: &io::Error) -> bool {
    // Without a number the error is not the kernel's: the end of a file.
    let number = error.raw_os_error().map(Errno::from_raw);
    number.is_some_and(|number| {
        !matches!(
            number,
            // Not supported, no space (thin provisioning), refused by the disk,
            // reserved for another host, bad sector, wrong protection information.
            Errno::EOPNOTSUPP
                | Errno::ENOSPC
                | Errno::EREMOTEIO
                | Errno::EBADE
                | Errno::ENODATA
                | Errno::EILSEQ
                // Faults of the caller.
                | Errno::EINVAL
                | Errno::EBADF
                | Errno::EPERM
        )
    })
}

/// Opens the other paths to a disk, the active ones first. A path that cannot be opened
/// is left out: the disk is written without it.
pub(crate) fn open_others(kernel: &KernelView, disk: &Device, write: bool) -> Vec<OpenPath> {
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
    others.sort_by_key(|other| !disk_paths::is_active(&other.directory));
    let opened = others.iter().filter_map(|other| {
        let path = Path::new("/dev").join(&other.name);
        match open_other(kernel, disk, &path, write) {
            Ok(opened) => Some(opened),
            Err(error) => {
                tracing::warn!(
                    "{}: cannot open this path to /dev/{}, continuing without it: {error}",
                    path.display(),
                    disk.name
                );
                None
            }
        }
    });
    opened.collect()
}

fn open_other(
    kernel: &KernelView,
    disk: &Device,
    path: &Path,
    write: bool,
) -> io::Result<OpenPath> {
    let opened = OpenPath::open(path, write)?;
    // The name may have changed its disk since. The number cannot while it is open.
    let number = opened.file.metadata()?.rdev();
    let found = kernel.device(major(number), minor(number))?;
    let own = disk_paths::identity(&disk.directory);
    if own.is_some() && own == disk_paths::identity(&found.directory) {
        return Ok(opened);
    }
    Err(io::Error::other("it leads to another disk now"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use crate::fixtures::{Answer, DiskRequest, FaultyDisk, empty_file, loop_device};

    use super::*;

    const SIZE: u64 = 1 << 20;

    #[test]
    fn faults_of_the_disk_are_not_those_of_a_path() {
        for (number, expected) in [
            (Errno::EIO, true),
            (Errno::ENOLINK, true),
            (Errno::ENXIO, true),
            (Errno::ENODEV, true),
            (Errno::ETIMEDOUT, true),
            (Errno::ENODATA, false),
            (Errno::ENOSPC, false),
            (Errno::EBADE, false),
            (Errno::EINVAL, false),
        ] {
            let error = io::Error::from_raw_os_error(number as i32);
            assert_eq!(is_fault_of_path(&error), expected, "{number}");
        }
        let end = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(!is_fault_of_path(&end));
    }

    fn open(path: &Path) -> OpenPath {
        let file = OpenOptions::new().read(true).write(true).open(path);
        OpenPath {
            path: path.to_owned(),
            file: file.unwrap(),
        }
    }

    /// `/dev/full` accepts no write, and is no block device with a size.
    #[test]
    fn each_path_is_tried_once() {
        let full = Path::new("/dev/full");
        let good = empty_file(4096);
        let paths = OpenPaths::new(open(full), vec![open(full), open(good.path())]);
        let calls = std::cell::Cell::new(0);
        let write = |file: &File| {
            calls.set(calls.get() + 1);
            file.write_all_at(b"x", 7)
        };
        paths.request(write).unwrap();
        assert_eq!(calls.get(), 3);
        assert_eq!(paths.used().path, good.path());
        let unused: Vec<&Path> = paths.unused().map(|path| &*path.path).collect();
        assert_eq!(unused, [full, full]);
        paths.request(write).unwrap();
        assert_eq!(calls.get(), 4, "the path that works is kept");
        assert_eq!(std::fs::read(good.path()).unwrap()[7], b'x');

        let none = OpenPaths::new(open(full), vec![open(full)]);
        calls.set(0);
        assert!(none.request(write).is_err());
        assert_eq!(calls.get(), 2);
        let only = OpenPaths::new(open(full), Vec::new());
        calls.set(0);
        assert!(only.request(write).is_err());
        assert_eq!(calls.get(), 1);
    }

    /// The first path fails in the middle of the writes. Two loop devices stand for the
    /// paths; the second one shows where the writes go afterwards.
    #[test]
    fn writes_continue_on_the_next_path() {
        let script = |request: &DiskRequest| match request {
            DiskRequest::Write(range) if range.start >= 8192 => Answer::Fail(Errno::EIO),
            _ => Answer::Do,
        };
        let failing = match FaultyDisk::start(vec![0; SIZE as usize], script) {
            Ok(disk) => disk,
            Err(error) => return landfall_sys::skip::skip(error),
        };
        let second = empty_file(SIZE);
        let (Some(one), Some(other)) = (
            loop_device(failing.path(), 512),
            loop_device(second.path(), 512),
        ) else {
            return;
        };
        let open = |path: &Path| OpenPath::open(path, true).unwrap();
        let paths = OpenPaths::new(open(one.path()), vec![open(other.path())]);
        let bytes = crate::device::aligned_buffer::AlignedBuffer::padded(b"data", 4096);
        for offset in [0, 4096, 8192, 12288] {
            paths
                .request(|file| file.write_all_at(&bytes, offset))
                .unwrap();
        }
        paths.request(File::sync_all).unwrap();
        assert_eq!(paths.used().path, other.path());
        let starts = |content: &[u8]| -> Vec<bool> {
            let pages = content.chunks(4096).take(4);
            pages.map(|page| page.starts_with(b"data")).collect()
        };
        assert_eq!(starts(&failing.content()), [true, true, false, false]);
        let content = std::fs::read(second.path()).unwrap();
        assert_eq!(starts(&content), [false, false, true, true]);
    }
}
