//! Creates software RAID volumes: partitions on each disk, superblocks, running arrays.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use landfall_devices::disk_sets::md_superblock::{self, Version};
use landfall_devices::identity::ChosenDisk;
use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Class, Failure, Result};
use uuid::Uuid;

use super::layout::{self, Volume};
use super::member::NewArray;
use super::start::start;
use super::{open, raid_error};
use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::busy::{Device, KernelView};
use crate::device::target::Target;
use crate::erase::metadata::{self, erase_metadata};
use crate::tables::gpt::{Entry, HEAD_LEN, Partition, Table};

/// In bytes: how much of each new partition is zeroed before the partition exists. The
/// boot sector of a FAT and its copy are in this range.
const CLEARED: u64 = 1 << 20;

/// Creates the volumes on these disks and starts them. Returns the paths of the arrays, in
/// the order of the volumes. The module `md_mod` must be loaded.
///
/// # Errors
/// If a disk has partitions, a file system or other content, is a member of an array or
/// of another set of disks, is in use or is too small. In these cases nothing has been
/// changed. Also if a disk or the kernel fails; [`delete`](super::delete::delete) then
/// removes what this function has created.
pub fn create(
    disks: &[ChosenDisk],
    volumes: &[Volume],
    permission: &WritePermission,
) -> Result<Vec<PathBuf>> {
    let mut targets = Vec::new();
    for disk in disks {
        refuse_used(&disk.path)?;
        let target = Target::open_chosen(disk, permission)?;
        refuse_content(&target)?;
        targets.push(target);
    }
    let sizes: Vec<(String, u64)> = { targets.iter() }
        .map(|target| (target.path().display().to_string(), target.size()))
        .collect();
    let partitions = plan(&sizes, volumes)?;
    for (target, partitions) in targets.into_iter().zip(&partitions) {
        write_table(&target, partitions)?;
    }
    let mut arrays = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let (mut members, mut targets) = (Vec::new(), Vec::new());
        for disk in &volume.disks {
            // Partition 1 is the EFI system partition.
            let before = volumes[..index].iter().filter(|it| it.disks.contains(disk));
            let number = before.count() + 2;
            let member = partition_node(&disks[*disk].path, number)?;
            let target = Target::open_disk_or_partition(&member, permission)?;
            // The path may lead to another disk by now.
            target.refuse_other(disks[*disk].identity)?;
            members.push(member);
            targets.push(target);
        }
        write_superblocks(volume, &targets)?;
        // The kernel opens the members exclusively.
        drop(targets);
        let array = start(Version::V1_2, &members)?;
        tracing::info!(
            "{}: volume {} of {}",
            array.display(),
            volume.name,
            volume.level
        );
        arrays.push(array);
    }
    Ok(arrays)
}

/// Fails in the cases in which [`create`] would fail before it changes anything.
/// Assumes that the arrays on the disks in `emptied` are deleted first.
///
/// # Errors
/// If a disk that is not in `emptied` has content or is in use, or if any disk is too
/// small or cannot be read.
pub fn check(disks: &[ChosenDisk], volumes: &[Volume], emptied: &BTreeSet<PathBuf>) -> Result<()> {
    let mut sizes = Vec::new();
    for disk in disks {
        if !emptied.contains(&disk.path) {
            refuse_used(&disk.path)?;
            refuse_content(&Target::open_chosen_to_check(disk)?)?;
        }
        let (_, size) =
            open(&disk.path).map_err(|e| raid_error(&disk.path, "cannot open it", &e))?;
        sizes.push((disk.path.display().to_string(), size));
    }
    plan(&sizes, volumes).map(drop)
}

fn plan(sizes: &[(String, u64)], volumes: &[Volume]) -> Result<Vec<Vec<Partition>>> {
    layout::partitions(sizes, volumes)
        .map_err(|error| Failure::new(Class::SoftwareRaidError, error.to_string()))
}

/// The partitions that the kernel shows.
fn partitions(disk: &Path) -> Result<Vec<Device>> {
    let kernel = KernelView::default();
    let device = kernel.device_at(disk);
    let device = device.map_err(|e| raid_error(disk, "cannot find it in /sys", &e))?;
    { kernel.partitions(&device) }.map_err(|e| raid_error(disk, "cannot list its partitions", &e))
}

/// Fails if the disk has partitions or superblocks. Like Ironic's agent, `create` never
/// deletes partitions.
fn refuse_used(disk: &Path) -> Result<()> {
    let partitions = partitions(disk)?;
    let (device, size) = open(disk).map_err(|e| raid_error(disk, "cannot open it", &e))?;
    let superblocks = md_superblock::find(&device, size)
        .map_err(|e| raid_error(disk, "cannot look for RAID superblocks", &e))?;
    let found = match (partitions.len(), superblocks.len()) {
        (0, 0) => return Ok(()),
        (0, _) => "a member of a software RAID".to_owned(),
        (count, _) => format!("{count} partitions"),
    };
    Err(not_empty(disk, &found))
}

fn not_empty(disk: &Path, found: &str) -> Failure {
    let details = format!("{}: expected an empty disk, found {found}", disk.display());
    Failure::new(Class::SoftwareRaidError, details).hint(
        "run the steps delete_configuration and erase_devices_metadata first, or choose other disks by physical_disks",
    )
}

/// Fails if the disk has content that [`refuse_used`] does not look for. A disk without
/// partitions may have a file system, or be a member of a volume group, of a firmware
/// RAID or of another set of disks, with data that another disk or machine needs.
fn refuse_content(target: &Target) -> Result<()> {
    let mut kinds = metadata::kinds(target)?;
    // The signature of a partition table without partitions is no content.
    kinds.retain(|kind| !matches!(*kind, "dos" | "gpt"));
    if kinds.is_empty() {
        return Ok(());
    }
    Err(not_empty(target.path(), &kinds.join(", ")))
}

fn write_table(target: &Target, partitions: &[Partition]) -> Result<()> {
    let path = target.path().display();
    let failed = |error: crate::tables::table_error::TableError| {
        Failure::new(Class::SoftwareRaidError, format!("{path}: {error}"))
    };
    let sector = target.sector_size();
    let mut table = Table::empty(sector, target.size(), Uuid::new_v4(), 0).map_err(failed)?;
    for partition in partitions {
        let entry = Entry::new(partition, sector.into());
        table.put(partition.clone(), &entry).map_err(failed)?;
    }
    erase_metadata(target)?;
    for partition in partitions {
        // An EFI system partition of an earlier installation is probably at the same
        // place. Its boot loader must not start again.
        let zeros = AlignedBuffer::zeroed(partition.len.min(CLEARED) as usize);
        target.write_at(&zeros, partition.offset)?;
    }
    let mut head = AlignedBuffer::zeroed(HEAD_LEN);
    table.write_primary_alone(&mut head);
    let (offset, backup) = table.backup();
    target.write_and_compare(offset, &AlignedBuffer::padded(&backup, sector as usize))?;
    target.write_and_compare(0, &head)?;
    target.reread_partitions()?;
    target.refresh_other_paths();
    tracing::info!(
        "{path}: {} partitions for software RAID made",
        partitions.len()
    );
    Ok(())
}

pub(super) fn partition_node(disk: &Path, number: usize) -> Result<PathBuf> {
    let partitions = partitions(disk)?;
    let found = { partitions.iter() }.find(|it| it.partition.map(|it| it as usize) == Some(number));
    let node = found.map(|partition| Path::new("/dev").join(&partition.name));
    node.ok_or_else(|| {
        let details = format!("{}: the kernel shows no partition {number}", disk.display());
        Failure::new(Class::SoftwareRaidError, details)
    })
}

fn write_superblocks(volume: &Volume, targets: &[Target]) -> Result<()> {
    let array = NewArray {
        array: Uuid::new_v4(),
        name: volume.name.clone(),
        level: volume.level,
        version: Version::V1_2,
        members: targets.iter().map(Target::size).collect(),
        created: now(),
    };
    for (index, target) in targets.iter().enumerate() {
        erase_metadata(target)?;
        put_superblock(&array, index, target)?;
    }
    Ok(())
}

pub(super) fn put_superblock(array: &NewArray, index: usize, member: &Target) -> Result<()> {
    let (place, bytes) = array.superblock(index, Uuid::new_v4()).ok_or_else(|| {
        let path = member.path().display();
        let details = format!("{path}: too small for a member of {}", array.level);
        Failure::new(Class::SoftwareRaidError, details)
    })?;
    member.write_and_compare(place, &AlignedBuffer::padded(&bytes, bytes.len()))
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::fixtures::{empty_file, loop_device};
    use crate::software_raid::layout::Share;
    use crate::software_raid::member::Level;

    #[test]
    fn a_disk_with_partitions_is_refused() {
        let permission = WritePermission::by_operator();
        let file = empty_file(1 << 30);
        let Some(device) = loop_device(file.path(), 512) else {
            return;
        };
        let disk = ChosenDisk::by_path(device.path()).unwrap();
        let volume = Volume {
            name: "root".to_owned(),
            level: Level::Raid1,
            share: Share::Rest,
            disks: vec![0],
        };
        device.show_partition(1, 1 << 20, 1 << 20);
        let (disks, volumes) = ([disk], [volume]);
        let failure = create(&disks, &volumes, &permission).unwrap_err();
        assert!(check(&disks, &volumes, &BTreeSet::new()).is_err());
        let emptied = BTreeSet::from([device.path().to_owned()]);
        check(&disks, &volumes, &emptied).unwrap();
        let large = Volume {
            share: Share::Fixed(1 << 30),
            ..volumes[0].clone()
        };
        let too_small = check(&disks, &[large], &emptied).unwrap_err();
        assert!(too_small.details.contains("found 1024 MiB"), "{too_small}");
        assert_eq!(failure.class, Class::SoftwareRaidError);
        assert!(failure.details.contains("found 1 partitions"), "{failure}");
    }

    #[test]
    fn a_disk_with_content_is_refused() {
        let permission = WritePermission::by_operator();
        let size = 1 << 30;
        let volume = Volume {
            name: "root".to_owned(),
            level: Level::Raid1,
            share: Share::Fixed(1 << 40),
            disks: vec![0],
        };
        for (magic, offset, expected) in [
            (&b"LVM2 001"[..], 512 + 0x18, "found LVM2_member"),
            (b"XFSB", 0, "found xfs"),
            (
                b"Intel Raid ISM Cfg Sig. ",
                size - 1024,
                "found isw_raid_member",
            ),
            // A signature of an empty partition table is no content, so `create` gets to
            // the check of the sizes, which fails.
            (b"\x55\xaa", 510, "found 1024 MiB"),
            (b"EFI PART", 512, "found 1024 MiB"),
        ] {
            let file = empty_file(size);
            file.as_file().write_all_at(magic, offset).unwrap();
            let Some(device) = loop_device(file.path(), 512) else {
                return;
            };
            let disks = [ChosenDisk::by_path(device.path()).unwrap()];
            let volumes = [volume.clone()];
            let created = create(&disks, &volumes, &permission).unwrap_err();
            assert!(created.details.contains(expected), "{created}");
            let checked = check(&disks, &volumes, &BTreeSet::new()).unwrap_err();
            assert_eq!(checked.details, created.details);
        }
    }

    /// If sgdisk is installed, the test also lets it verify the table.
    #[test]
    fn the_table_is_valid() {
        let file = empty_file(2 << 30);
        // The boot sector of an old EFI system partition.
        let old_place = 1 << 20;
        file.as_file()
            .write_all_at(&[0xeb; 512], old_place)
            .unwrap();
        let volume = Volume {
            name: "root".to_owned(),
            level: Level::Raid1,
            share: Share::Rest,
            disks: vec![0],
        };
        let sizes = [("disk".to_owned(), 2 << 30)];
        let partitions = layout::partitions(&sizes, &[volume]).unwrap();
        let permission = WritePermission::by_operator();
        let target = Target::open_file(file.path(), 512, &permission).unwrap();
        write_table(&target, &partitions[0]).unwrap();
        let mut old = [0xff; 512];
        file.as_file().read_exact_at(&mut old, old_place).unwrap();
        assert_eq!(old, [0; 512]);
        let path = file.path().to_string_lossy();
        if crate::fixtures::run("/sbin/sgdisk", &["--verify", &path]).is_none() {
            return;
        }
        let mut head = vec![0; HEAD_LEN];
        file.as_file().read_exact_at(&mut head, 0).unwrap();
        let table = Table::parse(&head, 512).unwrap();
        assert_eq!(table.partitions(), partitions[0]);
    }
}
