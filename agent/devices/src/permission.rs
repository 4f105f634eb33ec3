//! Decides whether this process may destroy data on this machine.
//!
//! All code that writes to a disk or to firmware variables needs a [`WritePermission`]. A
//! process gets one in exactly four cases: it runs in the ramdisk that our init has set
//! up; it is a service of a live system (conditions in `permission/live_system.rs`); it
//! is OpenShift's agent container in its live CoreOS (`permission/agent_container.rs`);
//! or the operator gives `--allow-this-machine`. So nobody can wipe a laptop by trying
//! the agent on it.

mod agent_container;
mod live_system;

pub use agent_container::HOST as HOST_ROOT;

use std::fs;
use std::path::Path;

use landfall_report::failure::{Failure, Result};

/// Init (PID 1) writes this file. The file contains the kernel's boot id, so a copy
/// from another boot is not valid. The builder recognises the agent by this path
/// (`agent_binary.rs` of landfall-initramfs).
const RAMDISK_MARKER: &str = "/run/landfall/ramdisk";

/// The marker of a live system. The agent writes it once, after it has checked the
/// conditions. A second check could fail, because the agent itself mounts disks.
const LIVE_SYSTEM_MARKER: &str = "/run/landfall/live-system";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The first PID namespace of the system (`PROC_PID_INIT_INO` in the kernel's
/// include/linux/proc_ns.h).
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The kind of system in which the agent may run permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Our ramdisk, as the child of our init.
    Ramdisk,
    /// A live system, as a service of its systemd.
    LiveSystem,
    /// A live system, in OpenShift's agent container. After [`Home::enter`] the process
    /// has the root of the host, but still its own PID namespace, so it cannot reboot the
    /// machine by itself.
    AgentContainer,
}

impl Home {
    /// Determines the kind of this system, checks that the agent may write to its disks,
    /// and marks a live system for [`WritePermission::by_boot`]. `is_declared` is true if the
    /// operator declares this a live system, for systems without CoreOS's marker.
    ///
    /// # Errors
    /// On any other machine. The error names the missing condition.
    pub fn check(is_declared: bool) -> Result<Self> {
        let ramdisk = WritePermission::by_marker(Path::new(RAMDISK_MARKER), Path::new(BOOT_ID));
        let Err(no_ramdisk) = ramdisk else {
            return Ok(Self::Ramdisk);
        };
        if agent_container::may_be() {
            Self::check_agent_container()?;
            return Ok(Self::AgentContainer);
        }
        if !live_system::is_service() {
            return Err(no_ramdisk.hint(
                "use a command that is for any machine (`landfall-agent --help` lists them): `run` is for the ramdisk, and for systemd in a live system",
            ));
        }
        if !Self::is_live_system() {
            live_system::check(Path::new("/"), is_declared).map_err(|missing| {
                let details = format!(
                    "this machine is not a suitable live system: {missing}; nothing was changed"
                );
                Failure::other(details)
            })?;
            mark(Path::new(LIVE_SYSTEM_MARKER))?;
        }
        Ok(Self::LiveSystem)
    }

    fn check_agent_container() -> Result<()> {
        let host = Path::new(HOST_ROOT);
        let marker = host.join(LIVE_SYSTEM_MARKER.trim_start_matches('/'));
        let marked = WritePermission::by_marker(&marker, Path::new(BOOT_ID)).is_ok();
        agent_container::check(marked).map_err(|missing| {
            Failure::other(format!(
                "this container is not OpenShift's agent container on a live system: {missing}; nothing was changed"
            ))
        })
    }

    /// In the agent container, makes the host's root the root of this process. From then
    /// on a path means the same file as for a service of the host, and the container's
    /// own files are out of reach. Does nothing in the ramdisk and for a service of a
    /// live system.
    pub fn enter(self) -> Result<()> {
        if self != Self::AgentContainer {
            return Ok(());
        }
        std::os::unix::fs::chroot(HOST_ROOT)
            .and_then(|()| std::env::set_current_dir("/"))
            .map_err(|error| Failure::other(format!("cannot enter {HOST_ROOT}: {error}")))?;
        mark(Path::new(LIVE_SYSTEM_MARKER))
    }

    /// Whether this boot has the marker of a live system.
    pub fn is_live_system() -> bool {
        let marker = Path::new(LIVE_SYSTEM_MARKER);
        WritePermission::by_marker(marker, Path::new(BOOT_ID)).is_ok()
    }
}

/// Writes the marker. Only init may call this, because only init can be sure that this is
/// the ramdisk.
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
        Failure::other(format!(
            "cannot record this boot in {}: {error}",
            marker.display()
        ))
    })
}

/// Proof that this process may destroy data on this machine. Only this module can create
/// it.
///
/// The value is empty. Every function that destroys data has a parameter `_permission`
/// of this type, so that nobody can call the function without a permission.
#[derive(Debug, Clone, Copy)]
pub struct WritePermission(());

impl WritePermission {
    /// Grants permission if this boot is marked: the system is our ramdisk, or a live
    /// system with the agent as a service or as OpenShift's container, so no disk is in
    /// use.
    ///
    /// # Errors
    /// On any other machine.
    pub fn by_boot() -> Result<Self> {
        let boot_id = Path::new(BOOT_ID);
        Self::by_marker(Path::new(LIVE_SYSTEM_MARKER), boot_id)
            .or_else(|_| Self::by_marker(Path::new(RAMDISK_MARKER), boot_id))
    }

    /// Permission for tests, which write to files and loop devices.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn by_operator() -> Self {
        Self(())
    }

    /// Grants permission to the sub-commands that have the option
    /// `--allow-this-machine`, if the operator gives this option or if
    /// [`Self::by_boot`] grants permission.
    ///
    /// # Errors
    /// If the option is not given and [`Self::by_boot`] fails.
    pub fn by_boot_or_operator(allow_this_machine: bool) -> Result<Self> {
        if allow_this_machine {
            return Ok(Self(()));
        }
        Self::by_boot().map_err(|failure| {
            failure.hint(
                "if everything on the disk may be overwritten, repeat with --allow-this-machine",
            )
        })
    }

    fn by_marker(marker: &Path, boot_id: &Path) -> Result<Self> {
        let expected = fs::read_to_string(boot_id).unwrap_or_default();
        let found = fs::read_to_string(marker).unwrap_or_default();
        if expected.trim().is_empty() || expected.trim() != found.trim() {
            return Err(Failure::other(format!(
                "this machine does not run the landfall ramdisk ({} does not hold this boot's id); nothing was changed",
                marker.display()
            )));
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
