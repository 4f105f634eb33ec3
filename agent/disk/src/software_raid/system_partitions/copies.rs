//! The copies of an EFI system partition, for changes to its files after the image was
//! written.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use landfall_devices::block_graph::BlockNode;
use landfall_devices::identity::ChosenDisk;
use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::{block_ioctl, sysfs};

use super::super::create::partition_node;
use super::super::raid_error;
use super::{SystemPartition, copy, find, head, of_image};
use crate::device::busy::KernelView;
use crate::device::target::Target;
use crate::tables::gpt::Table;

/// In bytes: sysfs gives the place of a partition in this unit, whatever the sector
/// size is.
const SYSFS_SECTOR: u64 = 512;

/// The copies of an array's EFI system partition, opened exclusively.
#[derive(Debug)]
pub struct Copies {
    array: ChosenDisk,
    /// The place of the partition on the array, in bytes.
    place: Range<u64>,
    copies: Vec<Target>,
}

impl Copies {
    /// Opens the copies of this partition. `None` if it is not a partition of `disk`,
    /// if it is not the image's EFI system partition, or if `disk` is not an array with
    /// copies. Call this function before you change the partition.
    ///
    /// # Errors
    /// If a disk cannot be read, or if a copy is in use.
    pub fn of(partition: &Path, disk: &Path, permission: &WritePermission) -> Result<Option<Self>> {
        Self::among(&find(disk)?, partition, disk, permission)
    }

    /// Like [`Self::of`], for an array whose partitions for copies are already known.
    ///
    /// # Errors
    /// As for [`Self::of`].
    pub fn among(
        copies: &[SystemPartition],
        partition: &Path,
        disk: &Path,
        permission: &WritePermission,
    ) -> Result<Option<Self>> {
        if copies.is_empty() {
            return Ok(None);
        }
        let Some(start) = start_on(disk, partition)? else {
            return Ok(None);
        };
        let array = ChosenDisk::by_path(disk)?;
        // Drops the kernel's cache, which may hold data from before the image was
        // written.
        let head = { File::open(disk) }
            .and_then(|array| block_ioctl::flush_buffers(&array))
            .and_then(|()| head(disk));
        let (head, sector) = head.map_err(|e| raid_error(disk, "cannot read it", &e))?;
        let table = Table::parse(&head, sector).ok();
        // The list of kept partitions is empty, because no command of Ironic keeps
        // partitions. If the image has no EFI system partition, no copies were made.
        let place = of_image(table.as_ref(), &head, sector, &[]);
        let Some(place) = place.ok().filter(|place| place.start == start) else {
            return Ok(None);
        };
        let open = |copy: &SystemPartition| {
            let node = partition_node(&copy.disk, copy.partition.number as usize)?;
            Target::open_disk_or_partition(&node, permission)
        };
        Ok(Some(Self {
            array,
            place,
            copies: copies.iter().map(open).collect::<Result<_>>()?,
        }))
    }

    /// Copies the partition again. Nothing may use the array.
    ///
    /// # Errors
    /// If the array is in use or is another array, or if a disk fails. Each copy then has
    /// its earlier or its new content, or firmware cannot start it.
    pub fn update(self) -> Result<()> {
        let array = Target::open_chosen_to_check(&self.array);
        array
            .and_then(|array| copy(&array, &self.place, &self.copies))
            .map_err(|failure| Failure {
                details: format!(
                    "{}: the changed EFI system partition was not copied to every disk of the array, and firmware starts the copies: {}",
                    self.array.path.display(),
                    failure.details
                ),
                ..failure
            })
    }
}

/// Where a partition begins on this disk, in bytes. `None` if `partition` is not a
/// partition of `disk`.
fn start_on(disk: &Path, partition: &Path) -> Result<Option<u64>> {
    let kernel = KernelView::default();
    let look = |path: &Path| {
        { kernel.device_at(path) }.map_err(|e| raid_error(path, "cannot find it in /sys", &e))
    };
    let (whole, node): (BlockNode, BlockNode) = (look(disk)?, look(partition)?);
    if node.partition.is_none() || node.disk_directory().as_ref() != Some(&whole.directory) {
        return Ok(None);
    }
    let start: u64 = sysfs::number(&node.directory.join("start")).ok_or_else(|| {
        let path = partition.display();
        let details = format!("{path}: the kernel does not say where this partition begins");
        Failure::new(Class::SoftwareRaidError, details)
    })?;
    Ok(Some(start * SYSFS_SECTOR))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt as _;
    use std::path::PathBuf;

    use tempfile::NamedTempFile;
    use uuid::Uuid;

    use super::*;
    use crate::fixtures::{LoopDevice, empty_file, loop_device, used_disk};
    use crate::tables::gpt::{EFI_SYSTEM, HEAD_LEN, Partition};

    /// A disk whose partitions the kernel shows.
    struct Disk {
        file: NamedTempFile,
        device: LoopDevice,
        partitions: Vec<Partition>,
    }

    impl Disk {
        fn new(content: &[u8]) -> Option<Self> {
            let file = empty_file(content.len() as u64);
            file.as_file().write_all_at(content, 0).unwrap();
            let device = loop_device(file.path(), 512)?;
            let table = Table::parse(&content[..HEAD_LEN], 512).unwrap();
            let partitions = table.partitions().to_vec();
            for it in &partitions {
                device.show_partition(it.number, it.offset, it.len);
            }
            Some(Self {
                file,
                device,
                partitions,
            })
        }

        fn path(&self) -> &Path {
            self.device.path()
        }

        fn partition(&self, number: u32) -> PathBuf {
            self.device.partition(number)
        }

        /// The first partition, for a copy.
        fn copy(&self) -> SystemPartition {
            SystemPartition {
                disk: self.path().to_owned(),
                partition: self.partitions[0].clone(),
                sector: 512,
            }
        }
    }

    #[test]
    fn a_changed_system_partition_is_copied_again() {
        let other = Uuid::from_u128(1);
        let content = used_disk(
            16 << 20,
            512,
            &[
                (1, "boot", other, 2, 1),
                (2, "ESP", EFI_SYSTEM, 4, 2),
                (3, "second ESP", EFI_SYSTEM, 8, 1),
            ],
        );
        let holder = used_disk(16 << 20, 512, &[(1, "uefi-holder-0", EFI_SYSTEM, 1, 4)]);
        let (Some(array), Some(member)) = (Disk::new(&content), Disk::new(&holder)) else {
            return;
        };
        let permission = WritePermission::by_operator();
        let of = |copies: &[SystemPartition], partition: &Path| {
            Copies::among(copies, partition, array.path(), &permission)
        };
        let (esp, copies) = (array.partition(2), [member.copy()]);
        for no_esp in [
            array.path().to_owned(),
            array.partition(1),
            array.partition(3),
            member.partition(1),
        ] {
            assert!(of(&copies, &no_esp).unwrap().is_none(), "{no_esp:?}");
        }
        assert!(of(&[], &esp).unwrap().is_none());
        let of_no_array = Copies::of(&esp, array.path(), &permission).unwrap();
        assert!(of_no_array.is_none());

        let copies = of(&copies, &esp).unwrap().unwrap();
        let changed = File::options().write(true).open(&esp).unwrap();
        changed.write_all_at(b"changed", 1 << 20).unwrap();
        changed.sync_all().unwrap();
        drop(changed);
        copies.update().unwrap();
        let copied = fs::read(member.file.path()).unwrap();
        let (copied, source) = (&copied[1 << 20..3 << 20], &content[4 << 20..6 << 20]);
        assert!(copied[1 << 20..].starts_with(b"changed"));
        assert!(copied[..1 << 20] == source[..1 << 20]);
        assert!(copied[(1 << 20) + 7..] == source[(1 << 20) + 7..]);
    }

    #[test]
    fn an_array_in_use_is_an_error() {
        let content = used_disk(16 << 20, 512, &[(1, "ESP", EFI_SYSTEM, 2, 1)]);
        let (Some(array), Some(member)) = (Disk::new(&content), Disk::new(&content)) else {
            return;
        };
        let permission = WritePermission::by_operator();
        let (esp, copies) = (array.partition(1), [member.copy()]);
        let of = || Copies::among(&copies, &esp, array.path(), &permission);
        let opened = of().unwrap().unwrap();
        of().expect_err("the copies are open already");
        let _in_use = Target::open(array.path(), &permission).unwrap();
        let failure = opened.update().unwrap_err();
        let text = "was not copied to every disk of the array";
        assert!(failure.details.contains(text), "{failure}");
    }
}
