//! Identifies disks more reliably than their paths do.
//!
//! The kernel gives a free name to the next disk that appears. Fetching an image or an
//! Ignition config takes minutes, and erasing a disk takes hours. If a controller or an
//! expander is reset in this time, `/dev/sda` may no longer be the disk that the agent
//! chose.
//!
//! The kernel's disk sequence number (since Linux 5.15) distinguishes these disks. The
//! number belongs to the `struct gendisk`. A disk gets a new number when the kernel
//! creates it (`__alloc_disk_node` of block/genhd.c), when its medium changes
//! (`disk_check_events` of block/disk-events.c), and when a loop device gets a new
//! file. A reset does not change the number, so a disk keeps its number through ATA
//! SECURITY ERASE UNIT, NVMe Format and the resets after them: after a reset libata
//! compares model and serial number (`ata_dev_same_device` of
//! drivers/ata/libata-core.c) and keeps the device. If a disk stays away longer than
//! the error handler waits, the kernel removes it, and the disk has a new number when
//! it returns. The agent must then choose a disk again, because nothing proves that
//! this is the same disk.
//!
//! The kernel notices a changed medium when a program opens the disk. The kernel itself
//! opens each new disk to read its partitions (`device_add_disk`), so the agent's own
//! open does not change the number. An md array is the exception: its first open after
//! its start changes the number (`mddev->changed` of drivers/md/md.c). In a live system
//! udev opens the array first. If the agent starts an array, the agent itself opens it
//! first.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::system_path::SystemPath;
use landfall_sys::{block_ioctl, sysfs};
use nix::sys::stat::{major, minor};

use crate::block_graph::BlockGraph;
use crate::devices_below;

const HINT: &str = "a disk went away, and another one got its name: check the cables, the power and the controller, then try again";

/// What identifies a disk. A path is not enough: if a disk disappears and another
/// one appears, the new disk may get the same name and device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    number: u64,
    size: u64,
    /// See [`block_ioctl::disk_sequence`].
    sequence: Option<u64>,
}

impl Identity {
    /// Reads the identity of an open disk, or of the disk of an open partition. A
    /// regular file has no disk sequence.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let number = metadata.rdev();
        if !metadata.file_type().is_block_device() {
            return Ok(Self {
                number,
                size: metadata.len(),
                sequence: None,
            });
        }
        // The ioctl queries the open disk itself. The directory in sysfs may already
        // belong to another disk.
        let sequence = block_ioctl::disk_sequence(file)?;
        let directory = BlockGraph::live().link(number).resolved();
        match directory.filter(|directory| directory.join("partition").exists()) {
            None => Ok(Self {
                number,
                size: block_ioctl::size_bytes(file)?,
                sequence,
            }),
            Some(partition) => {
                let disk = partition.parent().and_then(|disk| Self::in_sysfs(&disk));
                let disk = disk.ok_or(io::ErrorKind::NotFound)?;
                Ok(Self { sequence, ..disk })
            }
        }
    }

    /// Reads the identity of a disk from its directory in /sys/block. Opens no device,
    /// so it does not block on a disk that hangs. `None` if sysfs does not contain the
    /// device number and the size.
    pub fn in_sysfs(disk: &SystemPath) -> Option<Self> {
        // Reads the sequence number first. If the disk is replaced between the reads,
        // the result then matches no disk.
        let sequence = sysfs::number(&disk.join("diskseq"));
        Some(Self {
            number: sysfs::device_number(disk)?,
            size: sysfs::block_size(disk)?,
            sequence,
        })
    }

    /// Fails unless `file` is the disk with this identity, or a partition of it. `path`
    /// is for the error text.
    ///
    /// # Errors
    /// If `file` is another disk, or if the kernel does not return its identity.
    pub fn refuse_other(self, path: &Path, file: &File) -> Result<()> {
        self.compare(path, Self::of(file))
    }

    /// Like [`Self::refuse_other`], but for the disk or partition that `path` names
    /// now. Opens nothing, so the caller must check the file again after opening it.
    ///
    /// # Errors
    /// As for [`Self::refuse_other`], or if there is no such disk.
    pub fn refuse_other_name(self, path: &Path) -> Result<()> {
        let found = devices_below::in_sysfs(path)
            .and_then(|directory| directory.resolved())
            .and_then(|directory| match directory.join("partition").exists() {
                true => directory.parent(),
                false => Some(directory),
            })
            .and_then(|disk| Self::in_sysfs(&disk));
        self.compare(path, found.ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn compare(self, path: &Path, found: io::Result<Self>) -> Result<()> {
        let path = path.display();
        match found {
            Ok(found) if self.is_same(found) => Ok(()),
            Ok(found) => Err(Failure::block_device(format!(
                "{path}: expected the disk that was chosen ({self}), found another one ({found})"
            ))
            .hint(HINT)),
            Err(error) => Err(Failure::block_device(format!(
                "{path}: cannot check that this is still the disk that was chosen ({self}): {error}"
            ))
            .hint(HINT)),
        }
    }

    /// Compares only number and size if the kernel has no disk sequences.
    fn is_same(self, other: Self) -> bool {
        let sequences = self.sequence.zip(other.sequence);
        (self.number, self.size) == (other.number, other.size)
            && sequences.is_none_or(|(one, other)| one == other)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (major(self.number), minor(self.number));
        write!(f, "{major}:{minor}, {} bytes", self.size)?;
        match self.sequence {
            Some(sequence) => write!(f, ", disk sequence {sequence}"),
            None => Ok(()),
        }
    }
}

/// A disk that was chosen to be written, and that may be opened much later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenDisk {
    pub path: PathBuf,
    pub identity: Identity,
}

impl ChosenDisk {
    /// Chooses the disk that `path` names now.
    ///
    /// # Errors
    /// If there is no such disk, or if it cannot be opened.
    pub fn by_path(path: &Path) -> Result<Self> {
        let chosen = File::open(path).and_then(|file| Identity::of(&file));
        let identity = chosen
            .map_err(|error| Failure::device_not_found(format!("{}: {error}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            identity,
        })
    }

    /// Fails if the path now names another disk. Opens nothing.
    ///
    /// # Errors
    /// As for [`Identity::refuse_other_name`], but the class is `DeviceNotFound`: the
    /// chosen disk is missing, so the client can choose again.
    pub fn refuse_other_name(&self) -> Result<()> {
        let judged = self.identity.refuse_other_name(&self.path);
        judged.map_err(nothing_written)
    }

    /// Fails if `file`, which was opened by the path, is another disk.
    ///
    /// # Errors
    /// As for [`Self::refuse_other_name`].
    pub fn refuse_other(&self, file: &File) -> Result<()> {
        let judged = self.identity.refuse_other(&self.path, file);
        judged.map_err(nothing_written)
    }
}

fn nothing_written(failure: Failure) -> Failure {
    Failure {
        class: Class::DeviceNotFound,
        details: format!("{}; nothing was written", failure.details),
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use landfall_sys::loop_device::loop_device;
    use landfall_sys::sys_tree::plant;

    use super::*;

    fn identity(text: &str) -> Option<Identity> {
        let root = plant(text);
        Identity::in_sysfs(&root.path().join("sys/block/sda"))
    }

    #[test]
    fn a_disk_with_another_sequence_is_another_disk() {
        const DISK: &str = "sys/block/sda/dev = 8:16\\n\nsys/block/sda/size = 2048\\n\n";
        let with = |line: &str| identity(&format!("{DISK}{line}")).unwrap();
        let first = with("sys/block/sda/diskseq = 3\\n\n");
        assert_eq!(first.to_string(), "8:16, 1048576 bytes, disk sequence 3");
        assert!(first.is_same(with("sys/block/sda/diskseq = 3\\n\n")));
        assert!(!first.is_same(with("sys/block/sda/diskseq = 4\\n\n")));
        // Kernels before 5.15.
        let old = with("");
        assert_eq!(old.to_string(), "8:16, 1048576 bytes");
        assert!(old.is_same(with("")));
        for other in [
            "sys/block/sda/dev = 8:16\\n\nsys/block/sda/size = 4096\\n\n",
            "sys/block/sda/dev = 8:32\\n\nsys/block/sda/size = 2048\\n\n",
        ] {
            assert!(!old.is_same(identity(other).unwrap()), "{other}");
        }
        assert_eq!(identity("sys/block/sda/size = 2048\\n\n"), None);
    }

    #[test]
    fn sysfs_and_the_open_disk_agree() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let Some(device) = loop_device(file.path(), 512) else {
            return;
        };
        let chosen = ChosenDisk::by_path(device.path()).unwrap();
        let directory = devices_below::in_sysfs(device.path()).unwrap();
        assert_eq!(Identity::in_sysfs(&directory), Some(chosen.identity));
        chosen.refuse_other_name().unwrap();
    }

    #[test]
    fn a_missing_disk_is_refused_and_may_be_chosen_again() {
        let missing = ChosenDisk {
            path: "/dev/landfall-gone".into(),
            identity: identity("sys/block/sda/dev = 8:0\\n\nsys/block/sda/size = 8\\n\n").unwrap(),
        };
        let failure = missing.refuse_other_name().unwrap_err();
        assert_eq!(failure.class, Class::DeviceNotFound);
        assert_eq!(
            failure.details,
            "/dev/landfall-gone: cannot check that this is still the disk that was chosen (8:0, 4096 bytes): entity not found; nothing was written"
        );
        assert!(ChosenDisk::by_path(&missing.path).is_err());
    }
}
