//! Checks whether this system is a live system that runs from memory, so that the agent
//! may write to its disks.
//!
//! All conditions must hold, so that no installed system is ever mistaken for a
//! live system, even if someone copies a systemd unit to it:
//!
//! 1. systemd has started this process as a service;
//! 2. this process is in the first PID namespace, so it is not in a container;
//! 3. CoreOS has made `/run/ostree-live` (by the generator of its live
//!    initramfs), or the operator uses `--live-system`;
//! 4. the root file system is of a kind that needs no disk (an installed CoreOS
//!    may have an overlay, but its /sysroot is on a disk);
//! 5. no disk is mounted. A CD does not count as a disk. Neither does an ISO
//!    9660 file system that is mounted read-only, such as the live medium on a USB
//!    stick.
//!
//! Conditions 4 and 5 must also hold for PID 1, because a container without its own PID
//! namespace (`podman run --pid=host`), or a service with its own root (`RootImage=`),
//! does not see the mounts of the machine.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::FIRST_PID_NAMESPACE;

/// The live initramfs of CoreOS makes this file (`live-generator` in
/// coreos-assembler and fedora-coreos-config).
pub(super) const COREOS_MARKER: &str = "run/ostree-live";

/// Kinds of root file systems that need no disk.
const ROOT_KINDS: [&str; 6] = ["rootfs", "tmpfs", "ramfs", "overlay", "squashfs", "erofs"];

/// The prefixes of block devices that are not disks.
const NO_DISKS: [&str; 4] = ["loop", "ram", "zram", "sr"];

/// The condition that does not hold, so that this is no live system.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoLiveSystem {
    /// The agent runs in a container, where it may not see all uses of the disks, so it
    /// writes to no disk. Start it in the live system itself.
    #[error("expected the PID namespace {FIRST_PID_NAMESPACE}, found {}: a container", .0.display())]
    Container(PathBuf),
    /// The system is no CoreOS live system, so its disks may hold data. Boot a live
    /// system. If this is a live system, start the agent with `run --live-system`.
    #[error("/{COREOS_MARKER} is missing and run was not given --live-system")]
    NoMarker,
    /// The kernel does not show the mounts of the system, so the agent cannot know whether its
    /// disks are in use. It writes nothing.
    #[error("cannot read /{file}: {error}")]
    Unreadable { file: String, error: io::Error },
    /// The list of mounts has no entry for `/`, as in a broken container. The agent
    /// writes to no disk; start it in the live system itself.
    #[error("expected a mount on / in mountinfo, found none")]
    NoRoot,
    /// The root of this system is on a disk, so the agent does not write to disks. Boot a live
    /// system, which runs from memory.
    #[error("expected / on one of {}, found {kind} on {source_name}", ROOT_KINDS.join(", "))]
    Root { kind: String, source_name: String },
    /// A file system on a disk is mounted, so the machine is in use. Unmount it, or boot
    /// a live system again.
    #[error("expected no disk in use, found {disk} mounted on {place}")]
    Disk { disk: String, place: String },
}

/// Whether systemd has started this process as a service (see sd_booted(3), and
/// systemd.exec(5) for `INVOCATION_ID`).
pub(super) fn is_service() -> bool {
    std::env::var_os("INVOCATION_ID").is_some() && Path::new("/run/systemd/system").is_dir()
}

/// Checks the conditions 2 to 5 on the machine with this root.
///
/// # Errors
/// Names the condition that does not hold.
pub(super) fn check(root: &Path, is_declared: bool) -> Result<(), NoLiveSystem> {
    let namespace = fs::read_link(root.join("proc/self/ns/pid")).unwrap_or_default();
    if namespace != Path::new(FIRST_PID_NAMESPACE) {
        return Err(NoLiveSystem::Container(namespace));
    }
    if !is_declared && !is_coreos(root) {
        return Err(NoLiveSystem::NoMarker);
    }
    let name_of = block_device_names(root);
    for process in ["1", "self"] {
        let file = format!("proc/{process}/mountinfo");
        match fs::read_to_string(root.join(&file)) {
            Ok(mounts) => check_mounts(&mounts, &name_of)?,
            Err(error) => return Err(NoLiveSystem::Unreadable { file, error }),
        }
    }
    Ok(())
}

/// Whether this root has the marker of condition 3.
pub(super) fn is_coreos(root: &Path) -> bool {
    root.join(COREOS_MARKER).exists()
}

/// Returns a function that gives the name of the block device with a number such as
/// `8:1`, or `None` if the kernel has no such device.
pub(super) fn block_device_names(root: &Path) -> impl Fn(&str) -> Option<String> {
    let links = root.join("sys/dev/block");
    move |number| {
        let link = fs::read_link(links.join(number)).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }
}

/// Checks conditions 4 and 5. `name_of` is the function that [`block_device_names`]
/// returns.
pub(super) fn check_mounts(
    mountinfo: &str,
    name_of: impl Fn(&str) -> Option<String>,
) -> Result<(), NoLiveSystem> {
    let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
    // The last mount on / counts. The mounts that it hides may be the initramfs.
    let root = mounts.iter().rfind(|mount| mount.place == "/");
    let root = root.ok_or(NoLiveSystem::NoRoot)?;
    if !ROOT_KINDS.contains(&root.kind) {
        return Err(NoLiveSystem::Root {
            kind: root.kind.to_owned(),
            source_name: root.source.to_owned(),
        });
    }
    match mounts.iter().find(|mount| mount.is_disk(&name_of)) {
        Some(disk) => Err(NoLiveSystem::Disk {
            disk: disk.source.to_owned(),
            place: disk.place.to_owned(),
        }),
        None => Ok(()),
    }
}

/// A line of mountinfo (proc(5)).
pub(super) struct Mount<'a> {
    /// The device number: `8:1`.
    pub(super) number: &'a str,
    /// The folder of the file system that is mounted.
    pub(super) root: &'a str,
    pub(super) place: &'a str,
    read_only: bool,
    kind: &'a str,
    source: &'a str,
}

impl<'a> Mount<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        // The optional fields come before the dash.
        let (mount, file_system) = line.split_once(" - ")?;
        let mount: Vec<&str> = mount.split(' ').collect();
        let mut file_system = file_system.split(' ');
        Some(Self {
            number: mount.get(2)?,
            root: mount.get(3)?,
            place: mount.get(4)?,
            read_only: mount.get(5)?.split(',').any(|option| option == "ro"),
            kind: file_system.next()?,
            source: file_system.next()?,
        })
    }

    fn is_disk(&self, name_of: impl Fn(&str) -> Option<String>) -> bool {
        if self.kind == "iso9660" && self.read_only {
            return false;
        }
        // btrfs and bcachefs use their own device numbers, ZFS uses its own names.
        let name = match self.source.strip_prefix("/dev/") {
            _ if self.kind == "zfs" => return true,
            Some(name) if self.number.starts_with("0:") => Some(name.to_owned()),
            // A virtual file system. The source of devtmpfs may be /dev itself.
            None if self.number.starts_with("0:") => return false,
            _ => name_of(self.number),
        };
        // An unknown device may be a disk.
        name.is_none_or(|name| !NO_DISKS.iter().any(|prefix| name.starts_with(prefix)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const COREOS: &str = include_str!("../../test_data/live_system/coreos-live-iso.mountinfo");

    fn checked(mountinfo: &str) -> Result<(), String> {
        let checked = check_mounts(mountinfo, |number| {
            let name = match number {
                "7:0" => "loop0",
                "7:1" => "loop1",
                "8:3" => "sda3",
                "8:16" => "sdb",
                "11:0" => "sr0",
                "253:0" => "dm-0",
                _ => return None,
            };
            Some(name.to_owned())
        });
        checked.map_err(|missing| missing.to_string())
    }

    fn checked_machine(root: &Path, is_declared: bool) -> Result<(), String> {
        check(root, is_declared).map_err(|missing| missing.to_string())
    }

    #[test]
    fn root_file_systems_in_memory() {
        for mounts in [
            COREOS,
            "1 1 0:2 / / rw - rootfs rootfs rw,size=460904k\n22 1 0:5 / /dev rw - devtmpfs dev rw\n",
            "26 1 0:24 / / rw - overlay overlay rw,lowerdir=/a\n27 26 11:0 / /run/live/medium rw - iso9660 /dev/sr0 ro\n",
            "26 1 7:0 / / ro - squashfs /dev/loop0 ro\n27 26 8:16 / /run/media/iso ro - iso9660 /dev/sdb ro\n",
            // A later mount hides an earlier one.
            "1 1 0:2 / / rw - rootfs rootfs rw\n26 1 7:0 / / ro - erofs /dev/loop0 ro\n",
        ] {
            assert_eq!(checked(mounts), Ok(()), "{mounts}");
        }
    }

    #[test]
    fn root_file_systems_on_a_disk() {
        for (mounts, expected) in [
            (
                include_str!("../../test_data/live_system/coreos-installed.mountinfo"),
                "found xfs on /dev/sda4",
            ),
            (
                include_str!("../../test_data/live_system/coreos-installed-composefs.mountinfo"),
                "found /dev/sda4 mounted on /sysroot",
            ),
            (
                "1 1 8:3 / / rw - ext4 /dev/sda3 rw\n",
                "found ext4 on /dev/sda3",
            ),
            ("1 1 0:30 /root / rw - btrfs /dev/sda3 rw\n", "found btrfs"),
            ("", "expected a mount on /"),
        ] {
            let error = checked(mounts).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let overlay = "26 1 0:24 / / rw - overlay overlay rw\n";
        for (other, why) in [
            (
                "27 26 8:3 / /media/root-ro ro - ext4 /dev/sda3 ro",
                "the root below an overlay",
            ),
            (
                "27 26 0:31 / /home rw - btrfs /dev/sda3 rw",
                "btrfs has no number of a device",
            ),
            ("27 26 0:31 / /home rw - zfs tank/home rw", "nor has ZFS"),
            (
                "27 26 8:16 / /mnt rw - iso9660 /dev/sdb rw",
                "a stick that can be written",
            ),
            (
                "27 26 253:0 / /mnt rw - xfs /dev/mapper/a rw",
                "whatever is below it",
            ),
            (
                "27 26 99:0 / /mnt rw - xfs /dev/x rw",
                "a device that nobody knows",
            ),
        ] {
            let error = checked(&format!("{overlay}{other} x\n")).unwrap_err();
            assert!(error.contains("expected no disk in use"), "{why}: {error}");
        }
    }

    #[test]
    fn every_condition_counts() {
        let machine = |namespace: &str, marker: bool| {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("proc/self/ns")).unwrap();
            fs::create_dir_all(root.path().join("proc/1")).unwrap();
            fs::create_dir_all(root.path().join("run")).unwrap();
            fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
            for (number, name) in [("7:0", "loop0"), ("7:1", "loop1"), ("11:0", "sr0")] {
                let link = root.path().join("sys/dev/block").join(number);
                symlink(format!("../../devices/virtual/block/{name}"), link).unwrap();
            }
            symlink(namespace, root.path().join("proc/self/ns/pid")).unwrap();
            for process in ["1", "self"] {
                let mounts = format!("proc/{process}/mountinfo");
                fs::write(root.path().join(mounts), COREOS).unwrap();
            }
            if marker {
                fs::write(root.path().join(COREOS_MARKER), "").unwrap();
            }
            root
        };
        let first = machine(FIRST_PID_NAMESPACE, true);
        assert_eq!(checked_machine(first.path(), false), Ok(()));
        let unmarked = machine(FIRST_PID_NAMESPACE, false);
        assert_eq!(checked_machine(unmarked.path(), true), Ok(()));
        let error = checked_machine(unmarked.path(), false).unwrap_err();
        assert!(error.contains("--live-system"), "{error}");
        let container = machine("pid:[4026532000]", true);
        let error = checked_machine(container.path(), true).unwrap_err();
        assert!(error.contains("a container"), "{error}");
        // A service, or a container in the machine's PID namespace, may have its own
        // mounts. The mounts of PID 1 are those of the machine.
        let installed = include_str!("../../test_data/live_system/coreos-installed.mountinfo");
        fs::write(first.path().join("proc/1/mountinfo"), installed).unwrap();
        let error = checked_machine(first.path(), true).unwrap_err();
        assert!(error.contains("found xfs on /dev/sda4"), "{error}");
        for process in ["1", "self"] {
            fs::write(first.path().join("proc/1/mountinfo"), COREOS).unwrap();
            let mounts = format!("proc/{process}/mountinfo");
            fs::remove_file(first.path().join(mounts)).unwrap();
            assert!(check(first.path(), true).is_err(), "{process}");
        }
    }
}
