//! The open paths to one disk. If a path fails, the agent repeats the request on the
//! next path.
//!
//! The ramdisk has no multipathd, so every path is a separate block device. The agent
//! writes with O_DIRECT, one request after the other. So a repeated request writes the
//! same bytes to the same place before any later request. Data of earlier requests may
//! still be in the disk's own cache; a flush on any path writes this data (SBC-4,
//! 5.28).
//!
//! Before the agent uses another path, the path must prove that it leads to the same
//! disk. Until the first write, equal content is enough, except in steps that erase
//! disks. Just before the first write, the agent writes a mark of random bytes to its
//! place and looks for the mark on the other paths. From then on a path must show the
//! agent's writes (`paths/content.rs`). If the agent looked for the mark on a path and
//! did not find it, it never uses this path. A path on standby must become readable first
//! (`paths/next.rs`).

mod content;
mod next;
mod others;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use landfall_sys::block_ioctl;
use landfall_sys::while_busy::repeat_while_busy;
use nix::errno::Errno;
use nix::libc;

use content::Written;
pub(crate) use others::{BusyPath, Others, open_others};

const OPEN_LIMIT: Duration = Duration::from_secs(1);
const OPEN_PAUSE: Duration = Duration::from_millis(50);

/// A block device, opened exclusively.
#[derive(Debug)]
pub(crate) struct OpenPath {
    pub path: PathBuf,
    pub file: File,
    /// Whether this path showed the same content as the first path when the agent opened
    /// it.
    is_compared: bool,
    /// Whether this path showed the mark that the agent wrote on the path in use. Not
    /// set if the agent did not or could not read this path at that time.
    shows_mark: OnceLock<bool>,
}

impl OpenPath {
    pub fn new(path: PathBuf, file: File) -> Self {
        Self {
            path,
            file,
            is_compared: false,
            shows_mark: OnceLock::new(),
        }
    }

    /// Opens a block device without the kernel's cache. Fails if another program has
    /// the device open exclusively for longer than a second. Some programs do so only
    /// for a moment: `mdadm`, which udev runs for a new device, and a child of this
    /// process between `fork` and `exec`, which has copies of all open files.
    pub fn open(path: &Path, write: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let flags = libc::O_DIRECT | libc::O_EXCL;
        options.read(true).write(write).custom_flags(flags);
        let file = repeat_while_busy(OPEN_LIMIT, OPEN_PAUSE, || options.open(path))?;
        Ok(Self::new(path.to_owned(), file))
    }
}

/// Whether two paths have the same size and show the same content at several places.
/// Other programs may have the paths open.
///
/// # Errors
/// If one of the paths cannot be read.
pub(crate) fn show_the_same(one: &Path, other: &Path) -> io::Result<bool> {
    let open = |path: &Path| {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT).open(path)
    };
    let (one, other) = (open(one)?, open(other)?);
    let size = block_ioctl::size_bytes(&one)?;
    Ok(size == block_ioctl::size_bytes(&other)? && content::is_same(&one, &other, size)?)
}

/// All open paths to a disk.
#[derive(Debug)]
pub(crate) struct OpenPaths {
    first: OpenPath,
    others: Vec<OpenPath>,
    /// The path in use: 0 for `first`, then the index in `others` + 1.
    used: AtomicUsize,
    /// Whether a request that changes the disk has begun.
    is_changed: AtomicBool,
    is_marked: AtomicBool,
    written: Written,
    /// How long the agent waits for a path that cannot be read.
    wait_limit: Duration,
    /// Whether the agent has already waited for the whole `wait_limit` once. It does not
    /// wait again, because a failed step makes further requests, which would all wait.
    has_waited: AtomicBool,
    /// Other disks that have the same world-wide name as this disk.
    namesakes: Vec<PathBuf>,
    /// True if equal content does not prove that another path leads to the same disk.
    needs_proof: bool,
}

impl OpenPaths {
    pub fn new(first: OpenPath, others: Others) -> Self {
        Self {
            first,
            others: others.paths,
            used: AtomicUsize::new(0),
            is_changed: AtomicBool::new(false),
            is_marked: AtomicBool::new(false),
            written: Written::default(),
            wait_limit: next::WAIT_LIMIT,
            has_waited: AtomicBool::new(false),
            namesakes: others.namesakes,
            needs_proof: false,
        }
    }

    /// From now on, uses another path only if that path shows the mark or the agent's
    /// writes. So if a disk fails at the first read or write, the agent does not
    /// continue on a clone with the same content.
    pub fn require_proof(&mut self) {
        self.needs_proof = true;
    }

    /// Another disk of `size` bytes that has the same world-wide name as this disk. The
    /// agent never writes to the other disk.
    pub fn namesake(&self, size: u64) -> Option<&Path> {
        let used = self.used();
        // Compares again, because the disk may have changed its content itself (NVMe
        // Format).
        let differs = |path: &&OpenPath| {
            path.is_compared
                && (path.shows_mark.get() == Some(&false)
                    || content::is_same(&used.file, &path.file, size).is_ok_and(|is_same| !is_same))
        };
        let known = self.namesakes.first().map(PathBuf::as_path);
        known.or_else(|| self.unused().find(differs).map(|path| &*path.path))
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

    /// Writes through [`Self::request`]. If the disk has several paths, writes the mark
    /// before the first write.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.others.is_empty() {
            return self.first.file.write_all_at(bytes, offset);
        }
        let is_first = !bytes.is_empty() && !self.is_marked.swap(true, Ordering::Relaxed);
        if is_first {
            self.mark(bytes.len(), offset)?;
        }
        self.begins_change(&(offset..offset.saturating_add(bytes.len() as u64)));
        self.request(|file| file.write_all_at(bytes, offset))?;
        if is_first {
            self.written.first(offset, bytes);
        }
        self.written.done(offset, bytes);
        Ok(())
    }

    /// Writes the mark at the start of a range of `len` bytes that is about to be
    /// overwritten, and searches for the mark on the other paths. Skips paths that were
    /// not compared when they were opened, because reading such a path may take until
    /// the kernel gives it up.
    ///
    /// If every path fails right after this, the mark stays on the disk. It does no more
    /// harm than a power cut in the middle of the first write, because it only replaces
    /// bytes that the caller was about to replace. The step fails and must be repeated.
    /// The mark is neither a boot sector nor a partition table, so a disk that has the
    /// mark at its start does not boot. If partitions are kept, the first write goes to
    /// one copy of their table, while the other copy is still good.
    fn mark(&self, len: usize, offset: u64) -> io::Result<()> {
        let mark = content::mark(len);
        self.begins_change(&(offset..offset.saturating_add(mark.len() as u64)));
        self.written.first(offset, &mark);
        self.request(|file| file.write_all_at(&mark, offset))?;
        let used = self.used();
        used.shows_mark.get_or_init(|| true);
        for path in self.unused().filter(|path| path.is_compared) {
            match content::shows(&path.file, offset, &mark) {
                Ok(shows) => {
                    if !shows {
                        tracing::warn!(
                            "{} and {} have the same name, serial number and size, but what is written to the first one does not appear on the second one: they are not used as paths to one disk",
                            used.path.display(),
                            path.path.display()
                        );
                    }
                    path.shows_mark.get_or_init(|| shows);
                }
                Err(error) => tracing::info!(
                    "{}: cannot compare it with its other paths: {error}",
                    path.path.display()
                ),
            }
        }
        Ok(())
    }

    /// Call this before a request that changes the bytes `changed` of the disk.
    pub fn begins_change(&self, changed: &Range<u64>) {
        self.is_changed.store(true, Ordering::Relaxed);
        self.written.begins(changed);
    }

    /// Sends a request on the path in use. If this path fails, tries each of the other
    /// paths once. The function may call `request` several times.
    ///
    /// # Errors
    /// If the disk rejects the request, or if no path is left. In the second case the
    /// function returns the error of the last path.
    pub fn request<T>(&self, mut request: impl FnMut(&File) -> io::Result<T>) -> io::Result<T> {
        let count = self.others.len() + 1;
        let began = self.used.load(Ordering::Relaxed);
        let mut untried: Vec<usize> = (1..count).map(|step| (began + step) % count).collect();
        let mut used = self.path(began);
        loop {
            let error = match request(&used.file) {
                Err(error) if is_gone(&used.file) || is_fault_of_path(&error) => error,
                done => return done,
            };
            let Some(index) = self.next(&mut untried, used, &error) else {
                return Err(error);
            };
            let next = self.path(index);
            tracing::warn!(
                "{}: this path to the disk failed ({error}), continuing on {}",
                used.path.display(),
                next.path.display()
            );
            self.used.store(index, Ordering::Relaxed);
            used = next;
        }
    }
}

/// If a disk disappears, the kernel sets the size of its block device to 0. Writes then
/// report that no space is left, and reads report the end of the file.
fn is_gone(file: &File) -> bool {
    !block_ioctl::size_bytes(file).is_ok_and(|size| size > 0)
}

/// Whether the request may succeed on another path. The kernel's multipath target of
/// device-mapper decides in the same way (`blk_path_error` of include/linux/blk_types.h).
/// `errors` of block/blk-core.c maps the kernel's states to these error numbers.
fn is_fault_of_path(error: &io::Error) -> bool {
    // An error without a number does not come from the kernel: it is the end of a file.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::thread;

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
            is_compared: true,
            ..OpenPath::new(path.to_owned(), file.unwrap())
        }
    }

    #[test]
    fn a_disk_that_is_busy_for_a_moment_is_opened() {
        let content = empty_file(SIZE);
        let Some(device) = loop_device(content.path(), 512) else {
            return;
        };
        let held = OpenPath::open(device.path(), true).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(OPEN_PAUSE * 2);
                drop(held);
            });
            OpenPath::open(device.path(), true).unwrap();
        });
    }

    fn of(paths: Vec<OpenPath>) -> Others {
        Others {
            paths,
            ..Others::default()
        }
    }

    /// After a disk has changed its own content (NVMe Format), a comparison shows that
    /// the other path leads to another disk.
    #[test]
    fn a_path_that_differs_later_is_a_namesake() {
        let (own, other) = (empty_file(SIZE), empty_file(SIZE));
        let paths = OpenPaths::new(open(own.path()), of(vec![open(other.path())]));
        assert_eq!(paths.namesake(SIZE), None);
        own.as_file().write_all_at(b"x", 0).unwrap();
        assert_eq!(paths.namesake(SIZE), Some(other.path()));
        let unread = OpenPath {
            is_compared: false,
            ..open(other.path())
        };
        let paths = OpenPaths::new(open(own.path()), of(vec![unread]));
        assert_eq!(paths.namesake(SIZE), None, "on standby");
    }

    /// `/dev/full` accepts no write, and is no block device with a size.
    #[test]
    fn each_path_is_tried_once() {
        let full = Path::new("/dev/full");
        let good = empty_file(4096);
        let paths = OpenPaths::new(open(full), of(vec![open(full), open(good.path())]));
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

        let none = OpenPaths::new(open(full), of(vec![open(full)]));
        calls.set(0);
        assert!(none.request(write).is_err());
        assert_eq!(calls.get(), 2);
        let only = OpenPaths::new(open(full), Others::default());
        calls.set(0);
        assert!(only.request(write).is_err());
        assert_eq!(calls.get(), 1);
    }

    /// Another disk has the same name as this disk, and must not get the rest of the
    /// image when this disk fails.
    #[test]
    fn a_path_that_does_not_show_the_last_write_is_not_used() {
        let (own, other) = (empty_file(SIZE), empty_file(SIZE));
        let calls = std::cell::Cell::new(0);
        let failing = |_: &File| {
            calls.set(calls.get() + 1);
            Err::<(), _>(io::Error::from_raw_os_error(Errno::EIO as i32))
        };
        let tries = |paths: &OpenPaths| {
            calls.set(0);
            paths.request(failing).unwrap_err();
            (calls.get(), paths.used().path.clone())
        };
        let unread = || OpenPath {
            is_compared: false,
            ..open(other.path())
        };
        let paths = OpenPaths::new(open(own.path()), of(vec![unread()]));
        assert_eq!(tries(&paths), (1, own.path().to_owned()), "not compared");
        let paths = OpenPaths::new(open(own.path()), of(vec![unread()]));
        paths.write_all_at(&[7; 4096], 8192).unwrap();
        assert_eq!(tries(&paths), (1, own.path().to_owned()), "not shown");
        other.as_file().write_all_at(&[7; 4096], 8192).unwrap();
        assert_eq!(tries(&paths), (2, other.path().to_owned()), "shown");
    }

    /// Two clones were deployed with the same image, and the agent now writes this
    /// image to one of them again.
    #[test]
    fn a_clone_with_the_same_content_is_another_disk() {
        for bytes in [[0; 8192], [7; 8192]] {
            let (own, clone) = (empty_file(SIZE), empty_file(SIZE));
            for disk in [&own, &clone] {
                disk.as_file().write_all_at(&bytes, 4096).unwrap();
            }
            let before = std::fs::read(clone.path()).unwrap();
            let paths = OpenPaths::new(open(own.path()), of(vec![open(clone.path())]));
            assert_eq!(paths.namesake(SIZE), None);
            paths.write_all_at(&bytes, 4096).unwrap();
            let failed = paths.request(|file| match file.metadata()?.ino() {
                ino if ino == own.as_file().metadata()?.ino() => {
                    Err(io::Error::from_raw_os_error(Errno::EIO as i32))
                }
                _ => file.write_all_at(b"lost", 0),
            });
            failed.unwrap_err();
            assert_eq!(paths.namesake(SIZE), Some(clone.path()));
            assert!(std::fs::read(clone.path()).unwrap() == before);
            // Nothing is left of the mark.
            assert!(std::fs::read(own.path()).unwrap() == before);
        }
    }

    /// For a path to the same disk the mark is enough, even if the agent then writes only
    /// zeros.
    #[test]
    fn a_path_that_showed_the_mark_is_the_same_disk() {
        let disk = empty_file(SIZE);
        let paths = OpenPaths::new(open(disk.path()), of(vec![open(disk.path())]));
        paths.write_all_at(&[0; 8192], 0).unwrap();
        let calls = std::cell::Cell::new(0);
        let written = paths.request(|file| match calls.replace(calls.get() + 1) {
            0 => Err(io::Error::from_raw_os_error(Errno::EIO as i32)),
            _ => file.write_all_at(b"data", 8192),
        });
        written.unwrap();
        let mut expected = vec![0; SIZE as usize];
        expected[8192..8196].copy_from_slice(b"data");
        assert!(std::fs::read(disk.path()).unwrap() == expected);
        assert_eq!(paths.namesake(SIZE), None);
    }

    /// An erasure reads first. The other path may be a clone, which must not be erased
    /// instead of the disk that fails.
    #[test]
    fn equal_content_is_no_proof_for_an_erasure() {
        let disk = empty_file(SIZE);
        let (failing, calls) = (Errno::EIO as i32, std::cell::Cell::new(0));
        let fails_once = |_: &File| match calls.replace(calls.get() + 1) {
            0 => Err(io::Error::from_raw_os_error(failing)),
            _ => Ok(()),
        };
        let paths = || OpenPaths::new(open(disk.path()), of(vec![open(disk.path())]));
        paths().request(fails_once).unwrap();
        calls.set(0);
        let mut paths = paths();
        paths.require_proof();
        paths.request(fails_once).unwrap_err();
        paths.write_all_at(&[7; 4096], 8192).unwrap();
        calls.set(0);
        paths.request(fails_once).unwrap();
    }

    /// It is not known whether the disk has the mark, because the path failed while the
    /// agent wrote the mark.
    #[test]
    fn a_path_that_fails_at_the_mark_is_followed_by_none_without_it() {
        let other = empty_file(SIZE);
        let full = Path::new("/dev/full");
        let paths = OpenPaths::new(open(full), of(vec![open(other.path())]));
        paths.write_all_at(&[7; 4096], 0).unwrap_err();
        assert!(std::fs::read(other.path()).unwrap() == vec![0; SIZE as usize]);
    }

    /// A storage array needs a while to make the paths of its second controller active.
    #[test]
    fn a_path_on_standby_is_awaited() {
        let mut reads = 0;
        let script = move |request: &DiskRequest| match request {
            DiskRequest::Read(_) if reads < 3 => {
                reads += 1;
                Answer::Fail(Errno::EIO)
            }
            _ => Answer::Do,
        };
        let mut content = vec![0; SIZE as usize];
        content[8192..12288].fill(7);
        let standby = match FaultyDisk::start(content, script) {
            Ok(disk) => disk,
            Err(error) => return landfall_sys::skip::skip(error),
        };
        let unread = OpenPath {
            is_compared: false,
            ..open(standby.path())
        };
        let own = empty_file(SIZE);
        let mut paths = OpenPaths::new(open(own.path()), of(vec![unread]));
        paths.wait_limit = Duration::from_secs(20);
        paths.write_all_at(&[7; 4096], 8192).unwrap();
        let calls = std::cell::Cell::new(0);
        let written = paths.request(|file| match calls.replace(calls.get() + 1) {
            0 => Err(io::Error::from_raw_os_error(Errno::EIO as i32)),
            _ => file.write_all_at(b"data", 16384),
        });
        written.unwrap();
        assert_eq!(paths.used().path, standby.path());
        assert!(standby.content()[16384..].starts_with(b"data"));
    }

    /// The clean-up after a failure makes dozens of requests.
    #[test]
    fn a_path_that_stays_on_standby_is_awaited_once() {
        let (own, other) = (empty_file(SIZE), empty_file(SIZE));
        // A file that is not open for reading stands for a path on standby.
        let file = OpenOptions::new().write(true).open(other.path()).unwrap();
        let unreadable = OpenPath::new(other.path().to_owned(), file);
        let mut paths = OpenPaths::new(open(own.path()), of(vec![unreadable]));
        paths.wait_limit = Duration::from_millis(300);
        paths.write_all_at(&[7; 4096], 8192).unwrap();
        let failing = |_: &File| Err::<(), _>(io::Error::from_raw_os_error(Errno::EIO as i32));
        let began = std::time::Instant::now();
        paths.request(failing).unwrap_err();
        assert!(began.elapsed() >= paths.wait_limit);
        paths.wait_limit = Duration::from_secs(600);
        paths.request(failing).unwrap_err();
        assert!(began.elapsed() < paths.wait_limit);
        assert_eq!(paths.used().path, own.path());
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
        let open = |path: &Path| OpenPath {
            is_compared: true,
            ..OpenPath::open(path, true).unwrap()
        };
        let paths = OpenPaths::new(open(one.path()), of(vec![open(other.path())]));
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
