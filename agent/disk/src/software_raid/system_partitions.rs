//! The EFI system partitions on the disks of an array. Firmware cannot read the one in
//! the image, because it is inside the array.
//!
//! As with Ironic's agent, each disk gets a copy, and the copies are an array of their
//! own: RAID 1 with its superblock at the end, so that firmware sees a FAT on each disk,
//! and the installed system writes to all of them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use landfall_devices::disk_sets::md_superblock::{self, Version};
use landfall_devices::permission::WritePermission;
use landfall_devices::{block_graph, devices_below};
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::block_ioctl;
use landfall_sys::system_path::SystemPath;
use uuid::Uuid;

use super::create::{now, partition_node, put_superblock};
use super::layout::ESP_NAME;
use super::member::{Level, NewArray};
use super::raid_error;
use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;
use crate::erase::metadata::erase_metadata;
use crate::tables::gpt::{EFI_SYSTEM, HEAD_LEN, Partition, Table};

/// The name of the array of the copies, as Ironic's agent names it.
const NAME: &str = "esp";
/// The copy proceeds in pieces of this many bytes.
const PIECE: u64 = 1 << 20;

/// A copy of the image's EFI system partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPartition {
    pub disk: PathBuf,
    pub partition: Partition,
    /// The sector size of the disk, in bytes.
    pub sector: u64,
}

/// The directory in sysfs if this is a software RAID array.
fn array_directory(disk: &Path) -> Option<SystemPath> {
    let directory = devices_below::in_sysfs(disk)?;
    directory.join("md").is_dir().then_some(directory)
}

/// The UUID of the array, as its members have it. `None` if this is no software RAID with
/// superblocks.
pub fn array_uuid(disk: &Path) -> Option<Uuid> {
    let parts = block_graph::parts(&array_directory(disk)?).ok()?;
    parts.iter().find_map(|part| {
        let (device, size) = super::open(&Path::new("/dev").join(part)).ok()?;
        let superblocks = md_superblock::find_readable(&device, size);
        superblocks.first().map(|found| found.array)
    })
}

/// The partitions for copies on the disks of this array, in the order of the disks'
/// names. Empty if `disk` is no array, or none that this agent or Ironic's has made.
///
/// # Errors
/// If a disk or sysfs cannot be read.
pub fn find(disk: &Path) -> Result<Vec<SystemPartition>> {
    let unread = |path: &Path, error: io::Error| raid_error(path, "cannot read it", &error);
    let Some(directory) = array_directory(disk) else {
        return Ok(Vec::new());
    };
    let names = block_graph::disks_of_parts(&directory).map_err(|e| unread(disk, e))?;
    let mut found = Vec::new();
    for name in names {
        let path = Path::new("/dev").join(name);
        let (table, sector) = table(&path).map_err(|e| unread(&path, e))?;
        let partitions = table.iter().flat_map(|table| table.partitions());
        let esp = partitions
            .filter(|it| it.kind == EFI_SYSTEM)
            .find(|it| it.name.starts_with(ESP_NAME));
        found.extend(esp.map(|partition| SystemPartition {
            disk: path.clone(),
            partition: partition.clone(),
            sector,
        }));
    }
    Ok(found)
}

/// The GPT of a disk, and the sector size.
fn table(disk: &Path) -> io::Result<(Option<Table>, u64)> {
    let file = File::open(disk)?;
    let sector = block_ioctl::logical_sector_size(&file)?;
    let mut head = vec![0; HEAD_LEN];
    file.read_exact_at(&mut head, 0)?;
    Ok((Table::parse(&head, sector).ok(), sector.into()))
}

/// Lets the copies on the disks of an array be cleared with the ends of the array. Else the
/// loader of an earlier installation could start while the new image is incomplete.
///
/// # Errors
/// If a disk cannot be read, or if a copy is in use. Nothing has been written then.
pub fn clear_with(target: &mut Target, permission: &WritePermission) -> Result<()> {
    let mut loaders = Vec::new();
    for copy in find(target.path())? {
        let node = partition_node(&copy.disk, copy.partition.number as usize)?;
        loaders.push(Target::open_disk_or_partition(&node, permission)?);
    }
    target.set_loaders(loaders);
    Ok(())
}

/// Copies `len` bytes at `offset` of the array to these partitions, and makes them an
/// array that is in sync.
///
/// # Errors
/// If a partition is too small or in use, or if a disk fails.
pub fn copy(
    array: &Path,
    offset: u64,
    len: u64,
    copies: &[SystemPartition],
    permission: &WritePermission,
) -> Result<()> {
    let source = File::open(array)
        .and_then(|file| block_ioctl::flush_buffers(&file).map(|()| file))
        .map_err(|e| raid_error(array, "cannot open it", &e))?;
    let mut targets = Vec::new();
    for copy in copies {
        let node = partition_node(&copy.disk, copy.partition.number as usize)?;
        let target = Target::open_disk_or_partition(&node, permission)?;
        let room = Version::V1_0.offset(target.size()).unwrap_or(0);
        if len > room {
            let path = target.path().display();
            let details = format!(
                "{path}: the image's EFI system partition has {len} bytes, found room for {room}"
            );
            return Err(Failure::new(Class::SoftwareRaidError, details));
        }
        targets.push(target);
    }
    let superblocks = NewArray {
        array: Uuid::new_v4(),
        name: NAME.to_owned(),
        level: Level::Raid1,
        version: Version::V1_0,
        members: targets.iter().map(Target::size).collect(),
        in_sync: true,
        created: now(),
    };
    for (index, target) in targets.iter().enumerate() {
        erase_metadata(target)?;
        copy_to(&source, array, offset, len, target)?;
        put_superblock(&superblocks, index, target)?;
        tracing::info!(
            "{}: has a copy of the EFI system partition of {}",
            target.path().display(),
            array.display()
        );
    }
    Ok(())
}

/// The first piece is written last. It has the boot sector, without which firmware sees no
/// file system, so a copy that is cut off does not start.
fn copy_to(source: &File, array: &Path, offset: u64, len: u64, target: &Target) -> Result<()> {
    let sector = target.sector_size() as usize;
    for piece in (1..len.div_ceil(PIECE)).chain([0]) {
        if piece == 0 {
            target.sync()?;
        }
        let place = piece * PIECE;
        // At most a MiB, so the cast is lossless.
        let mut bytes = vec![0; PIECE.min(len - place) as usize];
        source
            .read_exact_at(&mut bytes, offset + place)
            .map_err(|e| raid_error(array, "cannot read the EFI system partition", &e))?;
        target.write_at(&AlignedBuffer::padded(&bytes, sector), place)?;
    }
    target.sync()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixtures::{Done, Journal, empty_file, used_disk};

    #[test]
    fn a_copy_is_the_same_and_nothing_else() {
        let array = tempfile::NamedTempFile::new().unwrap();
        let content = used_disk(8 << 20, 512, &[(1, "ESP", EFI_SYSTEM, 2, 3)]);
        fs::write(array.path(), &content).unwrap();
        let copy = empty_file(16 << 20);
        let permission = WritePermission::by_operator();
        let mut target = Target::open_file(copy.path(), 512, &permission).unwrap();
        let journal = Journal::default();
        target.keep_journal(journal.clone());
        let source = File::open(array.path()).unwrap();
        let len = (3 << 20) - 512;
        copy_to(&source, array.path(), 2 << 20, len, &target).unwrap();
        let copied = fs::read(copy.path()).unwrap();
        assert!(copied[..len as usize] == content[2 << 20..][..len as usize]);
        assert!(copied[len as usize..].iter().all(|byte| *byte == 0));
        let all = journal.all();
        let done: Vec<Option<u64>> = { all.iter() }
            .map(|done| match done {
                Done::Write(offset, _) => Some(*offset),
                _ => None,
            })
            .collect();
        let mib = |number: u64| Some(number << 20);
        assert_eq!(
            done,
            [mib(1), mib(2), None, mib(0), None],
            "the boot sector is last, after a flush"
        );
        let beyond = copy_to(&source, array.path(), 6 << 20, 4 << 20, &target);
        assert_eq!(beyond.unwrap_err().class, Class::SoftwareRaidError);
    }
}
