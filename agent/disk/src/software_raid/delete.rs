//! Deletes software RAID arrays, assembled or not.

mod assembled;
mod kept;
mod left_table;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use landfall_devices::disk_sets::md_superblock::{self, MdSuperblock};
use landfall_devices::identity::Identity;
use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Class, Failure, Result};

use self::assembled::{Array, Assembled, stop_arrays};
use self::kept::{Kept, doomed};
use super::{open, raid_error, system_partitions};
use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::target::Target;
use crate::erase::metadata::erase_metadata;

/// How many times the agent deletes the arrays that it finds. It needs a second pass,
/// because a superblock may hide another superblock.
const PASSES: u32 = 2;

/// A disk that may be changed, with its partitions. Arrays are not listed as candidates:
/// [`delete`] itself finds the assembled arrays, and they disappear when it stops them.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub disk: PathBuf,
    /// The identity of the disk when it was listed.
    pub identity: Identity,
    /// In the order in which the agent works on them.
    pub partitions: Vec<PathBuf>,
}

impl Candidate {
    /// The partitions and the disk.
    fn devices(&self) -> impl Iterator<Item = &PathBuf> {
        self.partitions.iter().chain([&self.disk])
    }
}

/// What must not be deleted.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    /// The names of arrays, without the host.
    pub volumes: Vec<String>,
    /// Disks and partitions that must not be changed. They may include assembled arrays
    /// and devices that are built on arrays. If an array has a member on one of these
    /// devices, its members on other disks are kept as well, because without them the
    /// array would be lost.
    pub devices: BTreeSet<PathBuf>,
}

/// A disk or partition with a superblock.
#[derive(Debug)]
struct Member {
    path: PathBuf,
    disk: PathBuf,
    /// `None` if this member is on an assembled array: its superblock disappears with
    /// that array.
    identity: Option<Identity>,
    superblock: MdSuperblock,
    /// The assembled arrays that have this device as a member.
    arrays: Vec<PathBuf>,
}

impl Member {
    /// The devices whose content is lost when the array is deleted: the disk of the
    /// member, which loses its partition table, and the array itself, which may be a
    /// member of another array.
    fn shared(&self) -> impl Iterator<Item = &PathBuf> {
        self.arrays.iter().chain([&self.disk])
    }
}

/// Deletes every array that has members on these disks: stops the array, zeroes the
/// superblocks, and removes the partition tables of the members' disks. Also removes a
/// partition table that a failed creation has left without arrays.
///
/// Keeps these arrays: those in `keep`, those that are below a device in `keep` or have a
/// member on it, assembled arrays that also have a member outside of `disks`, and every
/// array that shares a disk with a kept array, is built on it or is below it.
///
/// # Errors
/// `SoftwareRAIDError` if an array or the partition table of one of its disks remains, or
/// if a disk cannot be searched for superblocks. The same error, before anything is
/// deleted, if a device to keep cannot be read. Another error if the table of a failed
/// creation cannot be removed, or if the path of a disk now leads to another disk; this
/// function leaves that disk unchanged.
pub fn delete(disks: &[Candidate], keep: &Keep, permission: &WritePermission) -> Result<()> {
    let keep = Kept::find(disks, keep)?;
    let mut tables = BTreeMap::new();
    let mut members = doomed(find_members(disks)?, &keep);
    for _ in 0..PASSES {
        if members.is_empty() {
            break;
        }
        keep.refuse_unread(&members)?;
        delete_members(disks, &members, &mut tables, permission);
        members = doomed(find_members(disks)?, &keep);
    }
    if members.is_empty() {
        delete_left_tables(disks, &keep, permission)?;
        return no_table_is_left(&tables);
    }
    let names: Vec<String> = members
        .iter()
        .map(|member| member.path.display().to_string())
        .collect();
    Err(Failure::new(
        Class::SoftwareRaidError,
        format!("software RAID is left on {}", names.join(", ")),
    )
    .hint("see the console for the reason; unmount the file systems and deactivate the LVM volumes on these arrays first"))
}

/// Fails if a partition table could not be removed. The disk is no longer a member,
/// because its superblocks are gone, but the creation of volumes rejects a disk with
/// partitions.
fn no_table_is_left(tables: &BTreeMap<PathBuf, Failure>) -> Result<()> {
    if tables.is_empty() {
        return Ok(());
    }
    let reasons: Vec<&str> = { tables.values() }
        .map(|failure| &*failure.details)
        .collect();
    Err(Failure::new(
        Class::SoftwareRaidError,
        format!(
            "the software RAID was deleted, but not every partition table of its disks: {}",
            reasons.join("; ")
        ),
    )
    .hint("unmount the file systems and deactivate the LVM volumes on these disks, then run the step erase_devices_metadata"))
}

/// The disks that [`delete`] would leave without a partition table. Changes nothing.
///
/// # Errors
/// If a disk cannot be read, or if [`delete`] would delete nothing because a device to
/// keep cannot be read.
pub fn emptied(disks: &[Candidate], keep: &Keep) -> Result<BTreeSet<PathBuf>> {
    let keep = Kept::find(disks, keep)?;
    let members = find_members(disks)?;
    let left = left_tables(disks, &members, &keep);
    let left = left.into_iter().map(|candidate| candidate.disk.clone());
    let doomed = doomed(members, &keep);
    keep.refuse_unread(&doomed)?;
    let doomed = { doomed.into_iter() }.filter(|member| member.identity.is_some());
    Ok(doomed.map(|member| member.disk).chain(left).collect())
}

/// The disks that have a table made by `create`, but no superblock. A creation that was
/// interrupted or failed leaves such disks.
fn left_tables<'a>(
    disks: &'a [Candidate],
    members: &[Member],
    keep: &Kept<'_>,
) -> Vec<&'a Candidate> {
    let mut left = Vec::new();
    for candidate in disks {
        if members.iter().any(|member| member.disk == candidate.disk) {
            continue;
        }
        // Skips a disk that cannot be read, or that is too small for a table made by
        // `create`.
        let Ok((Some(table), _)) = system_partitions::table(&candidate.disk) else {
            continue;
        };
        // The search for `members` covers only the partitions that the kernel shows. So
        // the kernel must show all partitions of the table.
        let partitions = table.partitions();
        let all_searched = partitions.len() == candidate.partitions.len();
        if all_searched && left_table::is_left(partitions, keep.volumes) {
            left.push(candidate);
        }
    }
    left
}

fn delete_left_tables(
    disks: &[Candidate],
    keep: &Kept<'_>,
    permission: &WritePermission,
) -> Result<()> {
    for candidate in left_tables(disks, &find_members(disks)?, keep) {
        erase_table(&candidate.disk, candidate.identity, permission)?;
    }
    Ok(())
}

fn find_members(disks: &[Candidate]) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for candidate in disks {
        for path in candidate.devices() {
            let (device, size) = match open(path) {
                Ok(opened) => opened,
                // An earlier pass has removed the partition with its table.
                Err(e) if e.kind() == io::ErrorKind::NotFound && *path != candidate.disk => {
                    continue;
                }
                Err(e) => return Err(unsearched(path, &e)),
            };
            candidate.identity.refuse_other(path, &device)?;
            let superblocks =
                md_superblock::find(&device, size).map_err(|e| unsearched(path, &e))?;
            members.extend(superblocks.into_iter().map(|superblock| Member {
                path: path.clone(),
                disk: candidate.disk.clone(),
                identity: Some(candidate.identity),
                superblock,
                arrays: Vec::new(),
            }));
        }
    }
    let Assembled { ours, entangled } = Assembled::look(disks)?;
    members.extend(members_on_arrays(&ours));
    name_arrays(&mut members, ours.iter().chain(&entangled));
    Ok(members)
}

fn name_arrays<'a>(members: &mut [Member], arrays: impl Iterator<Item = &'a Array>) {
    for array in arrays {
        for member in &mut *members {
            if array.members.contains(&member.path) {
                member.arrays.push(array.path.clone());
            }
        }
    }
}

/// The members that are on these arrays: they belong to further arrays, which are built
/// on these arrays. Skips devices that cannot be read: an array without enough members
/// fails every read, and a stopped array has disappeared.
fn members_on_arrays(arrays: &[Array]) -> Vec<Member> {
    let mut members = Vec::new();
    for array in arrays {
        for path in &array.devices {
            let Ok((device, size)) = open(path) else {
                continue;
            };
            let superblocks = md_superblock::find_readable(&device, size);
            members.extend(superblocks.into_iter().map(|superblock| Member {
                path: path.clone(),
                disk: array.path.clone(),
                identity: None,
                superblock,
                arrays: Vec::new(),
            }));
        }
    }
    members
}

fn unsearched(path: &Path, error: &io::Error) -> Failure {
    raid_error(path, "cannot look for RAID superblocks", error)
}

/// Logs failures and continues, because [`delete`] checks afterwards which members are
/// left. Adds the disks whose table could not be removed to `tables`.
fn delete_members(
    disks: &[Candidate],
    members: &[Member],
    tables: &mut BTreeMap<PathBuf, Failure>,
    permission: &WritePermission,
) {
    let paths: BTreeSet<&Path> = members.iter().map(|member| &*member.path).collect();
    if let Err(failure) = stop_arrays(disks, &paths, permission) {
        tracing::error!("{failure}");
    }
    let mut on_disks = BTreeMap::new();
    for member in members {
        let Some(identity) = member.identity else {
            continue;
        };
        on_disks.insert(&*member.disk, identity);
        match zero_superblock(member, identity, permission) {
            Ok(()) => tracing::info!(
                "{}: RAID superblock {:?} of {} zeroed",
                member.path.display(),
                member.superblock.version,
                member
                    .superblock
                    .name
                    .as_deref()
                    .unwrap_or("an array without a name")
            ),
            Err(failure) => tracing::error!("{failure}"),
        }
    }
    for (disk, identity) in on_disks {
        // The second pass may remove a table that the first pass could not remove.
        tables.remove(disk);
        if let Err(failure) = erase_table(disk, identity, permission) {
            tracing::error!("{failure}");
            tables.insert(disk.to_owned(), failure);
        }
    }
}

fn erase_table(disk: &Path, identity: Identity, permission: &WritePermission) -> Result<()> {
    let target = Target::open(disk, permission)?.only_proven_paths();
    target.refuse_other(identity)?;
    erase_metadata(&target)?;
    target.reread_partitions()?;
    target.refresh_other_paths();
    tracing::info!("{}: partition table removed", disk.display());
    Ok(())
}

fn zero_superblock(
    member: &Member,
    identity: Identity,
    permission: &WritePermission,
) -> Result<()> {
    let target = Target::open_disk_or_partition(&member.path, permission)?.only_proven_paths();
    target.refuse_other(identity)?;
    let zeros = AlignedBuffer::zeroed(md_superblock::LEN);
    target.write_and_compare(member.superblock.offset, &zeros)
}

#[cfg(test)]
mod tests;
