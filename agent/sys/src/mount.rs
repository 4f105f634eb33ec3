//! Mounts and unmounts file systems.

use std::io;
use std::path::Path;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use crate::while_busy::repeat_while_busy;

const UNMOUNT_LIMIT: Duration = Duration::from_secs(2);
const UNMOUNT_PAUSE: Duration = Duration::from_millis(20);

/// Gives this thread, and the threads and processes that it starts later, a private mount
/// namespace. Nobody outside of this namespace sees what they mount.
pub fn see_mounts_alone() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing = None::<&str>;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(nothing, "/", nothing, private, nothing).map_err(io::Error::from)
}

pub fn mount_at(
    source: &Path,
    target: &Path,
    fstype: &str,
    flags: MsFlags,
    data: Option<&str>,
) -> io::Result<()> {
    mount(Some(source), target, Some(fstype), flags, data).map_err(io::Error::from)
}

/// A mounted file system. It is unmounted on drop.
#[derive(Debug)]
pub struct Mounted<'a> {
    target: &'a Path,
    active: bool,
}

impl<'a> Mounted<'a> {
    /// Mounts as [`mount_at`] does.
    pub fn new(source: &Path, target: &'a Path, fstype: &str, flags: MsFlags) -> io::Result<Self> {
        mount_at(source, target, fstype, flags, None)?;
        Ok(Self {
            target,
            active: true,
        })
    }

    /// Unmounts now and returns the result. If the data must be complete on disk,
    /// use this and do not rely on the drop.
    ///
    /// # Errors
    /// If umount(2) fails, or if the file system is in use for longer than two seconds. It
    /// is then detached: nobody sees the mount any more, and the kernel unmounts it when
    /// nothing uses it.
    pub fn unmount(self) -> io::Result<()> {
        self.unmount_within(UNMOUNT_LIMIT)
    }

    fn unmount_within(mut self, limit: Duration) -> io::Result<()> {
        let unmount = || umount2(self.target, MntFlags::empty()).map_err(io::Error::from);
        repeat_while_busy(limit, UNMOUNT_PAUSE, unmount)?;
        self.active = false;
        Ok(())
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.active {
            // This runs only after another error, and the caller reports that error.
            // MNT_DETACH unmounts even if a file is still open.
            let _ = umount2(self.target, MntFlags::MNT_DETACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::thread;

    use super::*;
    use crate::skip::skip;

    /// `place` without symbolic links.
    fn is_mounted(place: &Path) -> bool {
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        mounts.contains(&format!(" {} ", place.display()))
    }

    /// A program may have a file open for a moment. A child of this process has copies of
    /// its open files until `exec`, and a test of this crate has a child without `exec`,
    /// which lives for a second.
    #[test]
    fn an_unmount_waits_for_a_file_that_is_open_for_a_moment_only() {
        let place = tempfile::tempdir().unwrap();
        let place = &place.path().canonicalize().unwrap();
        if let Err(error) = see_mounts_alone() {
            return skip(error);
        }
        let mounted =
            || Mounted::new(Path::new("tmpfs"), place, "tmpfs", MsFlags::empty()).unwrap();
        let open = || File::create(place.join("file")).unwrap();

        let first = mounted();
        let file = open();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(UNMOUNT_PAUSE * 5);
                drop(file);
            });
            assert!(is_mounted(place));
            first.unmount_within(Duration::from_secs(30)).unwrap();
        });
        assert!(!is_mounted(place));

        let second = mounted();
        let file = open();
        let error = second.unmount_within(UNMOUNT_PAUSE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(!is_mounted(place));
        drop(file);
    }
}
