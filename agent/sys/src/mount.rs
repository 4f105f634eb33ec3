//! Mounts and unmounts file systems.

use std::io;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

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
    pub fn unmount(mut self) -> io::Result<()> {
        self.active = false;
        umount2(self.target, MntFlags::empty()).map_err(io::Error::from)
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
