//! Finds the boot partition of the written disk.
//!
//! The agent identifies the boot partition by the label in the superblock of its file
//! system: partition names differ between images, udev does not run in the ramdisk, and
//! /dev/disk/by-label could point to the boot partition of another disk.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use landfall_disk::device::busy::KernelView;
use landfall_disk::tables::file_system::{self, FileSystem};
use landfall_disk::tables::gpt::{Partition, Table};
use landfall_report::failure::{Failure, Result};

const LABEL: &str = "boot";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootPartition {
    pub partition: Partition,
    pub file_system: FileSystem,
}

/// The partition of this disk or image file whose file system has the label `boot`.
///
/// # Errors
/// If there is no boot partition, or more than one.
pub fn find(disk: &Path, table: &Table) -> Result<BootPartition> {
    let name = disk.display();
    let file = File::open(disk).map_err(|e| Failure::deployment(format!("{name}: {e}")))?;
    find_in(&name, table, |offset, buffer| {
        file.read_exact_at(buffer, offset)
    })
}

/// Like [`find`], but reads the disk through `read`, which fills a buffer from an offset
/// in bytes. Errors name the disk as `disk`.
///
/// # Errors
/// See [`find`].
pub fn find_in(
    disk: &dyn Display,
    table: &Table,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<BootPartition> {
    let mut labelled: Vec<BootPartition> = partitions(disk, table, read)?
        .into_iter()
        .filter(|found| found.file_system.label == LABEL)
        .collect();
    match (labelled.pop(), labelled.len()) {
        (Some(found), 0) => Ok(found),
        // Both errors use coreos-installer's words, because people search for them.
        (Some(_), _) => Err(Failure::deployment(format!(
            "found multiple devices on {disk} with label {LABEL:?}"
        ))),
        (None, _) => Err(Failure::deployment(format!(
            "couldn't find boot device for {disk}: no file system labelled {LABEL:?} on its partitions"
        ))
        .hint("install_coreos needs a CoreOS image; use write_image for others")),
    }
}

/// Partitions of other disks whose file system has the label `boot`. CoreOS refuses to
/// boot if a second partition has this label (its unit `coreos-ignition-unique-boot`).
pub fn on_other_disks(disk: &Path) -> Vec<PathBuf> {
    let kernel = KernelView::default();
    // Without the metadata of this disk, the agent cannot distinguish it from the other
    // disks, so it reports none.
    let Ok(own) = fs::metadata(disk) else {
        return Vec::new();
    };
    let own = kernel.device(&own).ok();
    let same = |own| kernel.other_paths(own).unwrap_or_default();
    let same = own.as_ref().map(same).unwrap_or_default();
    let disks = kernel.disks().unwrap_or_default();
    disks
        .iter()
        .filter(|disk| own.as_ref() != Some(disk) && !same.contains(disk))
        .flat_map(|disk| kernel.partitions(disk).unwrap_or_default())
        .map(|partition| Path::new("/dev").join(partition.name))
        .filter(|node| labelled_boot(node))
        .collect()
}

fn labelled_boot(node: &Path) -> bool {
    let mut start = Vec::new();
    // Ignore a partition that cannot be read.
    let read = File::open(node).and_then(|file| {
        file.take(file_system::PROBE_LEN as u64)
            .read_to_end(&mut start)
    });
    read.is_ok() && file_system::identify(&start).is_some_and(|found| found.label == LABEL)
}

/// The partitions of a disk whose file system the agent knows.
fn partitions(
    disk: &dyn Display,
    table: &Table,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<Vec<BootPartition>> {
    let mut partitions = Vec::new();
    for partition in table.partitions() {
        let mut start = vec![0; file_system::PROBE_LEN];
        let len = partition.len.min(start.len() as u64);
        // The cast is lossless: at most PROBE_LEN.
        start.truncate(len as usize);
        read(partition.offset, &mut start).map_err(|e| {
            Failure::deployment(format!("{disk}: partition {}: {e}", partition.number))
        })?;
        if let Some(file_system) = file_system::identify(&start) {
            partitions.push(BootPartition {
                partition: partition.clone(),
                file_system,
            });
        }
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use landfall_disk::fixtures::gpt_image;

    use super::*;
    use crate::written_disk::read_table;

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

    fn find_on(disk: &tempfile::NamedTempFile) -> Result<BootPartition> {
        find(disk.path(), &read_table(disk.path()).unwrap())
    }

    #[test]
    fn found_by_the_label_of_the_file_system() {
        let disk = disk_with(["root", "boot"]);
        let found = find_on(&disk).unwrap();
        assert_eq!(found.partition.number, 2);
        assert_eq!(found.file_system.kind, "ext4");
    }

    #[test]
    fn none_or_two_is_an_error_in_known_words() {
        let none = disk_with(["root", "data"]);
        let failure = find_on(&none).unwrap_err();
        assert!(
            failure
                .details
                .starts_with("couldn't find boot device for /")
        );
        let two = disk_with(["boot", "boot"]);
        let failure = find_on(&two).unwrap_err();
        assert!(
            failure.details.starts_with("found multiple devices on /")
                && failure.details.ends_with("with label \"boot\""),
            "{failure}"
        );
    }
}
