//! Manages the EFI system partitions on the disks of an array. Firmware cannot read the
//! image's own EFI system partition, because that partition is inside the array.
//!
//! As with Ironic's agent, each disk gets a copy, and the copies form a separate array:
//! RAID 1 with its superblock at the end. So firmware sees a FAT on each disk, and the
//! installed system writes to all copies.

mod copies;

pub use copies::Copies;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use landfall_devices::disk_sets::md_superblock::{self, MdSuperblock, Version};
use landfall_devices::permission::WritePermission;
use landfall_devices::{block_graph, devices_below};
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::system_path::SystemPath;
use landfall_sys::{block_ioctl, sysfs};
use uuid::Uuid;

use super::create::{now, partition_node, put_superblock};
use super::layout::ESP_NAME;
use super::member::{Level, NewArray};
use super::raid_error;
use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;
use crate::erase::metadata::erase_metadata;
use crate::tables::gpt::{EFI_SYSTEM, HEAD_LEN, Partition, Table};
use crate::tables::mbr;

/// The name of the array of the copies, as Ironic's agent names it.
pub const NAME: &str = "esp";
/// The copy proceeds in pieces of this many bytes.
const PIECE: u64 = 1 << 20;

/// A partition for a copy of the image's EFI system partition.
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

/// The UUID of the array, from the superblocks of its members. `None` if this is no
/// software RAID with superblocks, or if none of them can be read.
pub fn array_uuid(disk: &Path) -> Option<Uuid> {
    let directory = array_directory(disk)?;
    let version = running_version(&directory)?;
    let parts = block_graph::parts(&directory).ok()?;
    parts.iter().find_map(|part| {
        let (device, size) = super::open(&Path::new("/dev").join(part)).ok()?;
        of_version(&md_superblock::find_readable(&device, size), version)
    })
}

/// Returns the superblock version that the kernel uses (`metadata_show` of
/// drivers/md/md.c). A member may also have a superblock of an older array, with
/// another version.
fn running_version(directory: &SystemPath) -> Option<Version> {
    match &*sysfs::text(&directory.join("md/metadata_version"))? {
        "0.90" => Some(Version::V0_90),
        "1.0" => Some(Version::V1_0),
        "1.1" => Some(Version::V1_1),
        "1.2" => Some(Version::V1_2),
        _ => None,
    }
}

fn of_version(superblocks: &[MdSuperblock], version: Version) -> Option<Uuid> {
    let found = superblocks.iter().find(|it| it.version == version)?;
    Some(found.array)
}

/// The partitions for copies on the disks of this array, ordered by the names of the
/// disks. Empty if `disk` is not an array, or if its disks have no partition with the
/// name that this agent and Ironic's agent give to these partitions.
///
/// # Errors
/// If a disk or sysfs cannot be read.
pub fn find(disk: &Path) -> Result<Vec<SystemPartition>> {
    match array_directory(disk) {
        Some(directory) => Ok(on_disks_of(disk, &directory)?.copies),
        None => Ok(Vec::new()),
    }
}

/// The partitions for copies on the disks of an array.
struct OnDisks {
    copies: Vec<SystemPartition>,
    /// The disks that have no such partition.
    without: Vec<PathBuf>,
}

fn on_disks_of(array: &Path, directory: &SystemPath) -> Result<OnDisks> {
    let unread = |path: &Path, error: io::Error| raid_error(path, "cannot read it", &error);
    let mut names = block_graph::disks_of_parts(directory).map_err(|e| unread(array, e))?;
    // An array may have two partitions of one disk.
    names.dedup();
    let (mut copies, mut without) = (Vec::new(), Vec::new());
    for name in names {
        let path = Path::new("/dev").join(name);
        let (table, sector) = table(&path).map_err(|e| unread(&path, e))?;
        let mut partitions = table.iter().flat_map(|table| table.partitions());
        let esp = partitions.find(|it| it.kind == EFI_SYSTEM && it.name.starts_with(ESP_NAME));
        match esp {
            Some(partition) => copies.push(SystemPartition {
                disk: path,
                partition: partition.clone(),
                sector,
            }),
            None => without.push(path),
        }
    }
    Ok(OnDisks { copies, without })
}

/// The GPT of a disk, and the sector size.
pub(super) fn table(disk: &Path) -> io::Result<(Option<Table>, u64)> {
    let (head, sector) = head(disk)?;
    Ok((Table::parse(&head, sector).ok(), sector.into()))
}

/// The start of a disk, where the table is, and the sector size.
fn head(disk: &Path) -> io::Result<(Vec<u8>, u32)> {
    let file = File::open(disk)?;
    let sector = block_ioctl::logical_sector_size(&file)?;
    let mut head = vec![0; HEAD_LEN];
    file.read_exact_at(&mut head, 0)?;
    Ok((head, sector))
}

/// Prepares a target for an image if the target is a software RAID array: wiping the ends
/// of the array then also wipes the copies on its disks, and the commit makes them again.
/// If the copies stayed, the loader of an earlier installation could start while the new
/// image is incomplete. Does nothing if the target is no array.
///
/// # Errors
/// The same errors as for [`refuse_unbootable`], and an error if a copy is in use. In
/// all these cases nothing has been written.
pub fn copy_with(
    target: &mut Target,
    booted_by_uefi: bool,
    permission: &WritePermission,
) -> Result<()> {
    let mut loaders = Vec::new();
    for copy in refuse_unbootable(target.path(), booted_by_uefi)? {
        let node = partition_node(&copy.disk, copy.partition.number as usize)?;
        loaders.push(Target::open_disk_or_partition(&node, permission)?);
    }
    target.set_loaders(loaders);
    Ok(())
}

/// The partitions for the copies of the EFI system partition. Empty if the disk is no
/// array, or if firmware reads the array and its disks have no partition for a copy.
///
/// # Errors
/// If firmware could not start an image from this array: the machine was booted by BIOS
/// and the array is no firmware RAID, or firmware cannot read the array and none of its
/// disks has a partition for a copy. Also if a disk cannot be read.
pub fn refuse_unbootable(disk: &Path, booted_by_uefi: bool) -> Result<Vec<SystemPartition>> {
    match array_directory(disk) {
        Some(directory) => of_bootable(disk, &directory, booted_by_uefi),
        None => Ok(Vec::new()),
    }
}

fn of_bootable(
    disk: &Path,
    directory: &SystemPath,
    booted_by_uefi: bool,
) -> Result<Vec<SystemPartition>> {
    refuse_array_of_bios(disk, directory, booted_by_uefi)?;
    let OnDisks { copies, without } = on_disks_of(disk, directory)?;
    let listed: Vec<String> = { without.iter() }
        .map(|disk| disk.display().to_string())
        .collect();
    let (array, listed) = (disk.display(), listed.join(", "));
    if !copies.is_empty() {
        if !without.is_empty() {
            tracing::warn!(
                "{array}: the EFI system partition is not copied to every disk of the array: expected a partition {ESP_NAME}N on {listed}, found none; the machine cannot start from there"
            );
        }
        return Ok(copies);
    }
    let readable = firmware_reads(directory);
    if readable.map_err(|e| raid_error(disk, "cannot read its members in /sys", &e))? {
        return Ok(copies);
    }
    let details = format!(
        "{array}: expected EFI system partitions named {ESP_NAME}N next to the members of the array, because firmware cannot read the array and starts a copy of the image's; found none on {listed}"
    );
    Err(Failure::new(Class::SoftwareRaidError, details).hint(
        "delete the array and create it by the step create_configuration, which makes these partitions, or choose a disk that is no array",
    ))
}

/// Whether firmware can read the array as an ordinary disk. Each member must be a whole
/// disk and begin with the same bytes as the array, so that the image's partition table
/// is also the table of each disk. The metadata is then at the end of the disk or does
/// not exist (`metadata_show` of drivers/md/md.c). Also true for a firmware RAID, because
/// the firmware that made it reads it.
fn firmware_reads(directory: &SystemPath) -> io::Result<bool> {
    let text = |name: &str| sysfs::text(&directory.join(name)).unwrap_or_default();
    let version = text("md/metadata_version");
    if is_firmware_raid(&version) {
        return Ok(true);
    }
    let is_mirror = text("md/level") == "raid1";
    let begins_with_data = matches!(&*version, "0.90" | "1.0" | "none");
    let members = block_graph::part_nodes(directory)?;
    let are_disks = { members.iter() }.all(|it| it.partition.is_none() && !it.is_array());
    Ok(is_mirror && begins_with_data && are_disks)
}

/// Whether this is a firmware RAID: the kernel leaves the metadata to a user-space
/// program (`external:` in `metadata_show` of drivers/md/md.c).
fn is_firmware_raid(metadata_version: &str) -> bool {
    metadata_version.starts_with("external:")
}

/// Fails if a BIOS would have to boot from the array. A BIOS starts boot code from a
/// single disk, but the image's boot code is inside the array. Accepts a firmware RAID,
/// because its firmware can read it.
fn refuse_array_of_bios(disk: &Path, directory: &SystemPath, booted_by_uefi: bool) -> Result<()> {
    let version = sysfs::text(&directory.join("md/metadata_version")).unwrap_or_default();
    if booted_by_uefi || is_firmware_raid(&version) {
        return Ok(());
    }
    let details = format!(
        "{}: expected a machine that was booted by UEFI, found one that was booted by BIOS, which cannot start an image on software RAID",
        disk.display()
    );
    Err(Failure::new(Class::SoftwareRaidError, details).hint(
        "boot the machine by UEFI (Ironic: boot_mode:uefi in the node's capabilities), or choose a disk that is no array",
    ))
}

/// The place of the EFI system partition that comes with an image, in bytes. `table` is
/// the image's GPT, if the image has one; `head` begins with the image's first sector.
/// `kept` has the numbers of the kept partitions. These are skipped, because a loader
/// on them boots another system.
///
/// # Errors
/// If the image has no EFI system partition. Firmware then finds nothing to start.
pub(crate) fn of_image(
    table: Option<&Table>,
    head: &[u8],
    sector: u32,
    kept: &[u32],
) -> Result<Range<u64>> {
    let found = match table {
        Some(table) => { table.partitions().iter() }
            .find(|it| it.kind == EFI_SYSTEM && !kept.contains(&it.number))
            .map(|it| it.offset..it.offset + it.len),
        None => { mbr::entries(head).into_iter().flatten() }
            .find(|it| it.kind == mbr::EFI_SYSTEM && it.count > 0)
            .map(|it| {
                let start = it.first * u64::from(sector);
                start..start + it.count * u64::from(sector)
            }),
    };
    found.ok_or_else(|| {
        Failure::invalid_image(
            "expected an EFI system partition, because the disk is a software RAID array and firmware starts a copy of this partition; found none in the image",
        )
        .hint("choose an image for UEFI, or a disk that is no array")
    })
}

/// Fails if one of the partitions `copies` is too small for a copy of the EFI system
/// partition.
pub(crate) fn refuse_small(copies: &[Target], system_partition: &Range<u64>) -> Result<()> {
    let len = system_partition.end - system_partition.start;
    for copy in copies {
        let room = Version::V1_0.offset(copy.size()).unwrap_or(0);
        if len > room {
            let path = copy.path().display();
            let details = format!(
                "{path}: the image's EFI system partition has {len} bytes, found room for {room}"
            );
            return Err(Failure::new(Class::SoftwareRaidError, details));
        }
    }
    Ok(())
}

/// Copies the EFI system partition, which is at `system_partition` on `array`, to each of
/// the partitions `copies`, and makes these an array (RAID 1).
///
/// Writes the boot sectors last. Without boot sectors firmware sees no file system, so
/// it starts nothing from incomplete copies.
///
/// # Errors
/// If a partition is too small, or if a disk fails.
pub(crate) fn copy(array: &Target, system_partition: &Range<u64>, copies: &[Target]) -> Result<()> {
    refuse_small(copies, system_partition)?;
    let superblocks = NewArray {
        array: Uuid::new_v4(),
        name: NAME.to_owned(),
        level: Level::Raid1,
        version: Version::V1_0,
        members: copies.iter().map(Target::size).collect(),
        created: now(),
    };
    let len = system_partition.end - system_partition.start;
    for (index, copy) in copies.iter().enumerate() {
        erase_metadata(copy)?;
        for piece in 1..len.div_ceil(PIECE) {
            copy_piece(array, system_partition, piece, copy)?;
        }
        put_superblock(&superblocks, index, copy)?;
    }
    for copy in copies {
        copy_piece(array, system_partition, 0, copy)?;
        copy.sync()?;
        tracing::info!(
            "{}: has a copy of the EFI system partition of {}",
            copy.path().display(),
            array.path().display()
        );
    }
    Ok(())
}

fn copy_piece(
    array: &Target,
    system_partition: &Range<u64>,
    piece: u64,
    copy: &Target,
) -> Result<()> {
    let place = piece * PIECE;
    let from = system_partition.start + place;
    // At most a MiB, so the cast is lossless.
    let len = PIECE.min(system_partition.end - from) as usize;
    let bytes = array.read_at(from, len)?;
    copy.write_at(
        &AlignedBuffer::padded(&bytes, copy.sector_size() as usize),
        place,
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use landfall_sys::sys_tree::plant;

    use super::*;
    use crate::fixtures::{Done, Journal, empty_file, loop_device, put_mbr, used_disk};

    fn open(path: &Path) -> Target {
        Target::open_file(path, 512, &WritePermission::by_operator()).unwrap()
    }

    #[test]
    fn the_boot_sectors_are_the_last_that_is_copied() {
        let array = tempfile::NamedTempFile::new().unwrap();
        let content = used_disk(8 << 20, 512, &[(1, "ESP", EFI_SYSTEM, 2, 3)]);
        fs::write(array.path(), &content).unwrap();
        let files = [16 << 20, 12 << 20].map(empty_file);
        let mut copies = files.each_ref().map(|file| open(file.path()));
        let journal = Journal::default();
        for copy in &mut copies {
            copy.keep_journal(journal.clone());
        }
        let len = (3 << 20) - 512;
        let esp = 2 << 20..(2 << 20) + len;
        copy(&open(array.path()), &esp, &copies).unwrap();
        for file in &files {
            let copied = fs::read(file.path()).unwrap();
            assert!(copied[..len as usize] == content[2 << 20..][..len as usize]);
            let found = md_superblock::find_readable(file.as_file(), copied.len() as u64);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].volume_name(), Some(NAME));
        }
        let all = journal.all();
        let done: Vec<Option<u64>> = { all.iter() }
            .map(|done| match done {
                Done::Write(offset, _) => Some(*offset),
                _ => None,
            })
            .collect();
        assert!(
            done.ends_with(&[None, Some(0), None, Some(0), None]),
            "{done:?}"
        );
        let small = empty_file(2 << 20);
        let failure = copy(&open(array.path()), &esp, &[open(small.path())]).unwrap_err();
        assert_eq!(failure.class, Class::SoftwareRaidError);
        assert!(failure.details.contains("found room for"), "{failure}");
    }

    #[test]
    fn the_system_partition_is_that_of_the_image() {
        let disk = used_disk(
            16 << 20,
            512,
            &[(1, "ESP", EFI_SYSTEM, 2, 1), (2, "ESP", EFI_SYSTEM, 4, 2)],
        );
        let table = Table::parse(&disk[..1 << 20], 512).unwrap();
        let found = |kept: &[u32]| of_image(Some(&table), &disk, 512, kept);
        assert_eq!(found(&[]).unwrap(), 2 << 20..3 << 20);
        assert_eq!(found(&[1]).unwrap(), 4 << 20..6 << 20);
        assert_eq!(found(&[1, 2]).unwrap_err().class, Class::InvalidImage);
        let mut head = vec![0; 512];
        put_mbr(&mut head, &[(0x83, 2048, 64), (0xef, 4096, 128)]);
        let esp = of_image(None, &head, 512, &[]).unwrap();
        assert_eq!(esp, 4096 * 512..4224 * 512);
        assert!(of_image(None, &[0; 512], 512, &[]).is_err());
    }

    /// mdadm may leave the superblock of an older array at another place.
    #[test]
    fn the_array_is_that_of_the_version_that_runs() {
        let root = plant(
            "sys/block/md0/md/metadata_version = 1.2\\n\n\
             sys/block/md1/md/metadata_version = 0.90\\n\n\
             sys/block/md2/md/metadata_version = external:imsm\\n\n",
        );
        let size = 64 << 20;
        let file = empty_file(size);
        for version in [Version::V0_90, Version::V1_2] {
            let bytes = md_superblock::superblock(version, size, "root");
            let offset = version.offset(size).unwrap();
            file.as_file().write_all_at(&bytes, offset).unwrap();
        }
        let superblocks = md_superblock::find_readable(file.as_file(), size);
        assert_eq!(superblocks.len(), 2);
        let array = |name: &str| {
            let directory = root.path().join("sys/block").join(name);
            of_version(&superblocks, running_version(&directory)?)
        };
        assert_eq!(array("md0"), Some(Uuid::from_bytes([7; 16])));
        assert_eq!(array("md1"), Some(superblocks[0].array));
        assert_eq!(array("md2"), None);
    }

    #[test]
    fn only_a_firmware_raid_starts_by_bios() {
        let root = plant(
            "sys/block/md0/md/metadata_version = 1.2\\n\n\
             sys/block/md126/md/metadata_version = external:/md127/0\\n\n",
        );
        let refused = |name: &str, uefi| {
            let directory = root.path().join("sys/block").join(name);
            refuse_array_of_bios(Path::new(name), &directory, uefi).is_err()
        };
        assert!(refused("md0", false));
        assert!(!refused("md0", true));
        assert!(!refused("md126", false));
    }

    /// An array has no partitions for copies if mdadm made it, or if one of its disks was
    /// replaced. The test uses loop devices.
    #[test]
    fn an_array_without_partitions_for_copies_is_refused() {
        let holder = used_disk(16 << 20, 512, &[(1, "uefi-holder-0", EFI_SYSTEM, 1, 4)]);
        let other = used_disk(16 << 20, 512, &[(1, "EFI", EFI_SYSTEM, 1, 4)]);
        let files = [holder, other, vec![0; 16 << 20]].map(|content| {
            let file = empty_file(16 << 20);
            fs::write(file.path(), content).unwrap();
            file
        });
        let devices = files.iter().map(|file| loop_device(file.path(), 512));
        let Some(devices) = devices.collect::<Option<Vec<_>>>() else {
            return;
        };
        let paths: Vec<&Path> = devices.iter().map(|device| device.path()).collect();
        let array = |level: &str, version: &str, member: &str, members: &[usize]| {
            let mut text = format!(
                "sys/block/md0/md/level = {level}\\n\n\
                 sys/block/md0/md/metadata_version = {version}\\n\n"
            );
            for index in members {
                let name = paths[*index].file_name().unwrap().to_string_lossy();
                let (place, part) = match member {
                    "" => (name.to_string(), name.to_string()),
                    number => (format!("{name}/{name}{number}"), format!("{name}{number}")),
                };
                text += &format!(
                    "sys/block/{place}/dev = 7:{index}\\n\n\
                     sys/block/md0/slaves/{part} -> ../../{place}\n"
                );
                if !member.is_empty() {
                    text += &format!("sys/block/{place}/partition = 2\\n\n");
                }
            }
            plant(&text)
        };
        for (level, version, member, members, copies) in [
            ("raid1", "1.2", "p2", &[0, 1][..], Some(1)),
            ("raid1", "1.2", "p2", &[1, 2], None),
            ("raid1", "1.1", "", &[1, 2], None),
            ("raid1", "1.0", "p2", &[1, 2], None),
            ("raid0", "1.0", "", &[1, 2], None),
            ("raid1", "1.0", "", &[1, 2], Some(0)),
            ("raid1", "0.90", "", &[1, 2], Some(0)),
            ("raid5", "external:/md127/0", "", &[1, 2], Some(0)),
        ] {
            let root = array(level, version, member, members);
            let directory = root.path().join("sys/block/md0");
            let found = of_bootable(Path::new("/dev/md0"), &directory, true);
            let case = format!("{level} {version} {member} {members:?}: {found:?}");
            assert_eq!(found.as_ref().ok().map(Vec::len), copies, "{case}");
            if let Err(failure) = found {
                let named = |disk: &usize| {
                    let (_, disks) = failure.details.split_once("found none on ").unwrap();
                    { disks.split(", ") }.any(|name| Path::new(name) == paths[*disk])
                };
                assert!(members.iter().all(named), "{case}");
            }
        }
        let root = array("raid1", "1.2", "p2", &[0, 2]);
        let directory = root.path().join("sys/block/md0");
        let found = on_disks_of(Path::new("/dev/md0"), &directory).unwrap();
        assert_eq!(
            (found.copies.len(), found.without),
            (1, vec![paths[2].to_owned()])
        );
    }
}
