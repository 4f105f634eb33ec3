//! May this process destroy data on this machine?
//!
//! Everything that writes to a disk or to firmware variables asks for a
//! [`WritePermission`], and there are exactly three ways to get one: run in the
//! ramdisk that our init set up, be a service of a live system
//! (`permission/live_system.rs` has the rule), or say `--allow-this-machine`.
//! So nobody wipes a laptop by trying the agent on it.

mod live_system;

use std::fs;
use std::path::Path;

use crate::failure::{Class, Failure, Result};

/// Written by init (PID 1), holds the boot id of the kernel it was written
/// under: a copy left from another boot or copied by hand says nothing. The builder
/// recognises the agent by this path (`agent_binary.rs` of landfall-initramfs).
const RAMDISK_MARKER: &str = "/run/landfall/ramdisk";

/// The same for a live system, written by the agent that has seen that it is
/// one: later, disks are mounted by the agent itself.
const LIVE_SYSTEM_MARKER: &str = "/run/landfall/live-system";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The first PID namespace of the system (`PROC_PID_INIT_INO` in the kernel's
/// include/linux/proc_ns.h).
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Where the agent lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// In our ramdisk, as the child of our init.
    Ramdisk,
    /// In a live system, as a service of its systemd.
    LiveSystem,
}

impl Home {
    /// Where this process is at home. `said`: the operator says that this is a
    /// live system, where nothing of CoreOS tells it.
    ///
    /// # Errors
    /// On any other machine: what is missing.
    pub fn find(said: bool) -> Result<Self> {
        let ramdisk = WritePermission::by_marker(Path::new(RAMDISK_MARKER), Path::new(BOOT_ID));
        let Err(no_ramdisk) = ramdisk else {
            return Ok(Self::Ramdisk);
        };
        if !live_system::is_service() {
            return Err(no_ramdisk.hint(
                "`run` is for the ramdisk and for systemd in a live system; `landfall-agent --help` lists the commands for any machine",
            ));
        }
        if !Self::is_live_system() {
            live_system::check(Path::new("/"), said).map_err(|missing| {
                let details =
                    format!("this is no live system to the agent: {missing}; nothing was changed");
                Failure::new(Class::CommandExecutionError, details)
            })?;
            mark(Path::new(LIVE_SYSTEM_MARKER))?;
        }
        Ok(Self::LiveSystem)
    }

    /// Whether this boot was found to be a live system.
    pub fn is_live_system() -> bool {
        let marker = Path::new(LIVE_SYSTEM_MARKER);
        WritePermission::by_marker(marker, Path::new(BOOT_ID)).is_ok()
    }
}

/// Leaves the marker. For init, which is the only one that knows.
///
/// # Errors
/// What the file system says.
pub fn mark_as_ramdisk() -> Result<()> {
    mark(Path::new(RAMDISK_MARKER))
}

fn mark(marker: &Path) -> Result<()> {
    let marked = marker
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::read(BOOT_ID))
        .and_then(|boot_id| fs::write(marker, boot_id));
    marked.map_err(|error| {
        Failure::new(
            Class::CommandExecutionError,
            format!("marking this boot by {}: {error}", marker.display()),
        )
    })
}

/// Proof that destructive work is allowed here. It cannot be made outside of
/// this module.
#[derive(Debug, Clone, Copy)]
pub struct WritePermission(());

impl WritePermission {
    /// Permission because this machine runs our ramdisk, or a live system that
    /// the agent is a service of: nothing in use is on a disk.
    ///
    /// # Errors
    /// On any other machine.
    pub fn in_ramdisk() -> Result<Self> {
        let boot_id = Path::new(BOOT_ID);
        Self::by_marker(Path::new(LIVE_SYSTEM_MARKER), boot_id)
            .or_else(|_| Self::by_marker(Path::new(RAMDISK_MARKER), boot_id))
    }

    /// Permission because the operator insisted (`--allow-this-machine`).
    pub fn by_operator() -> Self {
        Self(())
    }

    /// For the sub-commands that have the option `--allow-this-machine`.
    ///
    /// # Errors
    /// If the option is not given on a machine that does not run the ramdisk.
    pub fn in_ramdisk_or_by_operator(allow_this_machine: bool) -> Result<Self> {
        if allow_this_machine {
            return Ok(Self::by_operator());
        }
        Self::in_ramdisk().map_err(|failure| {
            failure.hint(
                "if everything on the disk may be overwritten, repeat with --allow-this-machine",
            )
        })
    }

    fn by_marker(marker: &Path, boot_id: &Path) -> Result<Self> {
        let expected = fs::read_to_string(boot_id).unwrap_or_default();
        let found = fs::read_to_string(marker).unwrap_or_default();
        if expected.trim().is_empty() || expected.trim() != found.trim() {
            return Err(Failure::new(
                Class::CommandExecutionError,
                format!(
                    "this machine does not run the landfall ramdisk ({} does not hold this boot's id); nothing was changed",
                    marker.display()
                ),
            ));
        }
        Ok(Self(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_boots_marker_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (marker, boot_id) = (dir.path().join("marker"), dir.path().join("boot_id"));
        fs::write(&boot_id, "1b4e28ba\n").unwrap();
        assert!(WritePermission::by_marker(&marker, &boot_id).is_err());
        fs::write(&marker, "").unwrap();
        assert!(WritePermission::by_marker(&marker, &boot_id).is_err());
        fs::write(&marker, "another boot").unwrap();
        assert!(WritePermission::by_marker(&marker, &boot_id).is_err());
        fs::write(&marker, "1b4e28ba").unwrap();
        assert!(WritePermission::by_marker(&marker, &boot_id).is_ok());
    }

    #[test]
    fn no_boot_id_means_no_permission() {
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join("marker");
        fs::write(&marker, "").unwrap();
        assert!(WritePermission::by_marker(&marker, &dir.path().join("none")).is_err());
    }
}
