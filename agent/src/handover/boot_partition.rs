//! Finding the boot partition of the disk that was written, and of no other.
//!
//! By the label of the file system, read from the superblock: partition names
//! may differ, udev is not there, and /dev/disk/by-label could be the boot
//! partition of another disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::sys::stat::{major, minor};

use crate::disk::busy::KernelView;
use crate::disk::file_system::{self, FileSystem};
use crate::disk::gpt::{Partition, Table};
use crate::failure::{Class, Failure, Result};
use crate::sys::block_ioctl;

const LABEL: &str = "boot";
const HEAD_LEN: u64 = 1 << 20;
/// devtmpfs makes a node before BLKRRPART returns; only a driver that scans on
/// its own makes this loop go round.
const NODE_TRIES: u32 = 50;
const NODE_PAUSE: Duration = Duration::from_millis(100);

/// A partition and the file system on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The partition.
    pub partition: Partition,
    /// Its file system.
    pub file_system: FileSystem,
}

/// The partition with the file system `boot` on this disk (or image file).
///
/// # Errors
/// If there is none or more than one.
pub fn find(disk: &Path) -> Result<Found> {
    let mut labelled: Vec<Found> = partitions(disk)?
        .into_iter()
        .filter(|found| found.file_system.label == LABEL)
        .collect();
    match (labelled.pop(), labelled.len()) {
        (Some(found), 0) => Ok(found),
        // coreos-installer's words for both, because people search for them.
        (Some(_), _) => Err(failure(format!(
            "found multiple devices on {} with label {LABEL:?}",
            disk.display()
        ))),
        (None, _) => Err(failure(format!(
            "couldn't find boot device for {}: no file system labelled {LABEL:?} on its partitions",
            disk.display()
        ))
        .hint("install_coreos needs a CoreOS image; use write_image for others")),
    }
}

/// The partitions of a disk that hold a file system we know.
///
/// # Errors
/// If the disk cannot be read or has no valid GPT.
pub fn partitions(disk: &Path) -> Result<Vec<Found>> {
    let failed = |e: &dyn std::fmt::Display| failure(format!("{}: {e}", disk.display()));
    let file = File::open(disk).map_err(|e| failed(&e))?;
    let table = read_table(&file).map_err(|e| failed(&e))?;
    let mut found = Vec::new();
    for partition in table.partitions() {
        let mut start = vec![0; file_system::PROBE_LEN];
        let len = partition.len.min(start.len() as u64);
        // At most PROBE_LEN.
        start.truncate(len as usize);
        file.read_exact_at(&mut start, partition.offset)
            .map_err(|e| failed(&format!("partition {}: {e}", partition.number)))?;
        if let Some(file_system) = file_system::identify(&start) {
            found.push(Found {
                partition: partition.clone(),
                file_system,
            });
        }
    }
    Ok(found)
}

fn read_table(file: &File) -> io::Result<Table> {
    let is_device = file.metadata()?.file_type().is_block_device();
    let (size, sectors) = if is_device {
        // What the kernel cached before the image was written is stale; writes
        // that went around the cache do not always drop it.
        block_ioctl::flush_buffers(file)?;
        let sector = block_ioctl::logical_sector_size(file)?;
        (block_ioctl::size_bytes(file)?, vec![sector])
    } else {
        (file.metadata()?.len(), vec![512, 4096])
    };
    let mut head = vec![0; HEAD_LEN.min(size) as usize];
    file.read_exact_at(&mut head, 0)?;
    let mut reason = "no partition table".to_owned();
    for sector in sectors {
        match Table::parse(&head, sector) {
            Ok(table) => return Ok(table),
            Err(e) => reason = e,
        }
    }
    Err(io::Error::other(reason))
}

/// The device node of a partition, once it is there.
///
/// # Errors
/// If it does not appear within 5 s.
pub fn node(disk: &Path, number: u32) -> Result<PathBuf> {
    let kernel = KernelView::default();
    let look = || -> io::Result<Option<PathBuf>> {
        let id = fs::metadata(disk)?.rdev();
        let device = kernel.device(major(id), minor(id))?;
        let parts = kernel.partitions(&device)?;
        let path = parts
            .iter()
            .find(|part| part.partition == Some(number))
            .map(|part| Path::new("/dev").join(&part.name));
        Ok(path.filter(|path| path.exists()))
    };
    for _ in 0..NODE_TRIES {
        if let Some(path) =
            look().map_err(|e| failure(format!("partitions of {}: {e}", disk.display())))?
        {
            return Ok(path);
        }
        thread::sleep(NODE_PAUSE);
    }
    Err(failure(format!(
        "the kernel shows no partition {number} of {}",
        disk.display()
    )))
}

fn failure(details: String) -> Failure {
    Failure::new(Class::DeploymentError, details)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::disk::fixtures::gpt_image;

    /// A disk image whose two partitions have ext4 file systems with these labels.
    fn disk_with(labels: [&str; 2]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let image = gpt_image(32 << 20, 512);
        fs::write(file.path(), &image).unwrap();
        let table = Table::parse(&image[..1 << 20], 512).unwrap();
        for (partition, label) in table.partitions().iter().zip(labels) {
            let made = Command::new("/sbin/mke2fs")
                .args(["-q", "-F", "-t", "ext4", "-b", "1024", "-L", label, "-E"])
                .arg(format!("offset={}", partition.offset))
                .arg(file.path())
                .arg(format!("{}k", partition.len / 1024))
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        file
    }

    #[test]
    fn found_by_the_label_of_the_file_system() {
        let disk = disk_with(["root", "boot"]);
        let found = find(disk.path()).unwrap();
        assert_eq!(found.partition.number, 2);
        assert_eq!(found.file_system.kind, "ext4");
    }

    #[test]
    fn none_or_two_is_an_error_in_known_words() {
        let none = disk_with(["root", "data"]);
        let failure = find(none.path()).unwrap_err();
        assert!(
            failure
                .details
                .starts_with("couldn't find boot device for /")
        );
        let two = disk_with(["boot", "boot"]);
        let failure = find(two.path()).unwrap_err();
        assert!(
            failure.details.starts_with("found multiple devices on /")
                && failure.details.ends_with("with label \"boot\""),
            "{failure}"
        );
        let blank = tempfile::NamedTempFile::new().unwrap();
        assert!(find(blank.path()).is_err());
    }
}
