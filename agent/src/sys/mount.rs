//! Mounting and unmounting.

use std::io;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

/// Gives this thread, and those that it will start, a view of the mounts of its
/// own: what they mount nobody else sees.
///
/// # Errors
/// What unshare(2) and mount(2) say.
pub fn see_mounts_alone() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing = None::<&str>;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(nothing, "/", nothing, private, nothing).map_err(io::Error::from)
}

/// Mounts `source` of type `fstype` on `target` with these flags.
///
/// # Errors
/// What mount(2) says.
pub fn mount_at(
    source: &Path,
    target: &Path,
    fstype: &str,
    flags: MsFlags,
    data: Option<&str>,
) -> io::Result<()> {
    mount(Some(source), target, Some(fstype), flags, data).map_err(io::Error::from)
}

/// A mounted file system that is unmounted when the value goes away.
#[derive(Debug)]
pub struct Mounted<'a> {
    target: &'a Path,
    active: bool,
}

impl<'a> Mounted<'a> {
    /// Mounts as [`mount_at`] does.
    ///
    /// # Errors
    /// What mount(2) says.
    pub fn new(source: &Path, target: &'a Path, fstype: &str, flags: MsFlags) -> io::Result<Self> {
        mount_at(source, target, fstype, flags, None)?;
        Ok(Self {
            target,
            active: true,
        })
    }

    /// Unmounts now and says whether that worked; a file system that must be
    /// complete on disk is closed with this and not by dropping.
    ///
    /// # Errors
    /// What umount(2) says.
    pub fn unmount(mut self) -> io::Result<()> {
        self.active = false;
        umount2(self.target, MntFlags::empty()).map_err(io::Error::from)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.active {
            // Only reached while another error is on its way up, which is the
            // one worth telling; MNT_DETACH so that no busy file keeps it.
            let _ = umount2(self.target, MntFlags::MNT_DETACH);
        }
    }
}
