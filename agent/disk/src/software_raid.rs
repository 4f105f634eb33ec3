//! Deletes Linux software RAID arrays, assembled or not.
//!
//! [`create`] creates them, and [`start`] starts them. The agent finds the members of an array by the superblocks on disks and
//! partitions. So it does not matter whether the kernel has assembled the array, or
//! whether all members are present.

pub mod create;
pub mod layout;
pub mod member;
pub mod start;
pub mod system_partitions;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use landfall_devices::block_graph;
use landfall_devices::disk_sets::md_superblock::{self, MdSuperblock};
use landfall_devices::identity::Identity;
use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::system_path::SystemPath;
use landfall_sys::{block_ioctl, md_ioctl};
use uuid::Uuid;

use crate::device::aligned_buffer::AlignedBuffer;
use crate::device::busy::KernelView;
use crate::device::device_mapper;
use crate::device::target::Target;
use crate::erase::metadata::erase_metadata;

/// How many times to check whether a stopped array has released its members, which
/// takes a moment.
const STOP_TRIES: u32 = 20;
const STOP_PAUSE: Duration = Duration::from_millis(100);
/// How many times to look for superblocks, because one may hide another one.
const PASSES: u32 = 2;

/// A disk that may be changed, with its partitions.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub disk: PathBuf,
    /// What the disk was when it was listed.
    pub identity: Identity,
    /// In the order in which the agent works on them.
    pub partitions: Vec<PathBuf>,
}

/// What must not be deleted.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    /// The names of arrays, without the host.
    pub volumes: Vec<String>,
    /// Disks and partitions that must not be changed. If an array has a member on one
    /// of them, its members on other disks are kept as well, because without them the
    /// array would be lost.
    pub devices: BTreeSet<PathBuf>,
}

/// A disk or partition with a superblock.
#[derive(Debug)]
struct Member {
    path: PathBuf,
    disk: PathBuf,
    identity: Identity,
    superblock: MdSuperblock,
}

/// Deletes every array that has members on these disks: stops the array, zeroes the
/// superblocks, and removes the partition tables of the disks that they were on.
///
/// Keeps the arrays in `keep`, assembled arrays that also have a member outside of
/// `disks`, and every array that shares a disk with a kept one.
///
/// # Errors
/// `SoftwareRAIDError` if an array remains that should have been deleted. An error if
/// the name of a disk now belongs to another one, which is left unchanged.
pub fn delete(disks: &[Candidate], keep: &Keep, permission: &WritePermission) -> Result<()> {
    let keep = Kept {
        volumes: &keep.volumes,
        arrays: arrays_on(&keep.devices),
        members: entangled(disks, assembled_arrays()?),
    };
    for _ in 0..PASSES {
        let members = doomed(find_members(disks)?, &keep);
        if members.is_empty() {
            return Ok(());
        }
        delete_members(&members, permission);
    }
    let members = doomed(find_members(disks)?, &keep);
    if members.is_empty() {
        return Ok(());
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

fn find_members(disks: &[Candidate]) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for candidate in disks {
        let devices = candidate.partitions.iter().chain([&candidate.disk]);
        for path in devices {
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
                identity: candidate.identity,
                superblock,
            }));
        }
    }
    Ok(members)
}

fn unsearched(path: &Path, error: &io::Error) -> Failure {
    raid_error(path, "cannot look for RAID superblocks", error)
}

/// A device and its size in bytes.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let device = File::open(path)?;
    let size = block_ioctl::size_bytes(&device)?;
    Ok((device, size))
}

/// The arrays that have a member on these devices. Ignores devices that cannot be
/// read.
fn arrays_on(devices: &BTreeSet<PathBuf>) -> BTreeSet<Uuid> {
    devices
        .iter()
        .filter_map(|path| open(path).ok())
        .flat_map(|(device, size)| md_superblock::find_readable(&device, size))
        .map(|superblock| superblock.array)
        .collect()
}

/// What identifies the arrays to keep.
#[derive(Default)]
struct Kept<'a> {
    volumes: &'a [String],
    arrays: BTreeSet<Uuid>,
    members: BTreeSet<PathBuf>,
}

impl Kept<'_> {
    fn contains(&self, member: &Member) -> bool {
        let name = member.superblock.volume_name();
        name.is_some_and(|name| self.volumes.iter().any(|kept| kept == name))
            || self.arrays.contains(&member.superblock.array)
            || self.members.contains(&member.path)
    }
}

/// The members to delete. An array that shares a disk with a kept array is kept as
/// well. This is repeated until no further array has to be kept.
fn doomed(members: Vec<Member>, keep: &Kept<'_>) -> Vec<Member> {
    let mut kept: BTreeSet<Uuid> = members
        .iter()
        .filter(|member| keep.contains(member))
        .map(|member| member.superblock.array)
        .collect();
    loop {
        let disks: BTreeSet<&PathBuf> = members
            .iter()
            .filter(|member| kept.contains(&member.superblock.array))
            .map(|member| &member.disk)
            .collect();
        let neighbours: Vec<Uuid> = members
            .iter()
            .filter(|member| disks.contains(&member.disk))
            .map(|member| member.superblock.array)
            .filter(|array| !kept.contains(array))
            .collect();
        if neighbours.is_empty() {
            break;
        }
        kept.extend(neighbours);
    }
    let (kept, doomed): (Vec<Member>, Vec<Member>) = members
        .into_iter()
        .partition(|member| kept.contains(&member.superblock.array));
    for member in kept {
        tracing::warn!(
            "{}: left unchanged, because it belongs to {}, which is to be kept, has a member on a disk that must not be changed, or shares a disk with such an array",
            member.path.display(),
            member
                .superblock
                .name
                .as_deref()
                .unwrap_or("an array without a name")
        );
    }
    doomed
}

/// Continues after failures and logs them, because [`delete`] checks afterwards
/// what is left.
fn delete_members(members: &[Member], permission: &WritePermission) {
    let paths: BTreeSet<&Path> = members.iter().map(|member| &*member.path).collect();
    if let Err(failure) = stop_arrays(&paths, permission) {
        tracing::error!("{failure}");
    }
    for member in members {
        match zero_superblock(member, permission) {
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
    let disks: BTreeMap<&Path, Identity> = { members.iter() }
        .map(|member| (&*member.disk, member.identity))
        .collect();
    for (disk, identity) in disks {
        let erased = Target::open(disk, permission).and_then(|target| {
            target.refuse_other(identity)?;
            erase_metadata(&target)?;
            target.reread_partitions()
        });
        match erased {
            Ok(()) => tracing::info!("{}: partition table removed", disk.display()),
            Err(failure) => tracing::error!("{failure}"),
        }
    }
}

/// An array that the kernel has assembled.
struct Array {
    path: PathBuf,
    directory: SystemPath,
    members: Vec<PathBuf>,
}

fn assembled_arrays() -> Result<Vec<Array>> {
    let arrays = || {
        let mut arrays = Vec::new();
        for device in KernelView::default().disks()? {
            if !device.is_array() {
                continue;
            }
            let members = block_graph::parts(&device.directory)?;
            let members = members.iter().map(|part| Path::new("/dev").join(part));
            arrays.push(Array {
                path: Path::new("/dev").join(&device.name),
                directory: device.directory,
                members: members.collect(),
            });
        }
        Ok(arrays)
    };
    arrays().map_err(|e| raid_error(Path::new("/sys/block"), "cannot look for arrays", &e))
}

/// The members of assembled arrays that have another member outside of `disks`. A
/// write to such an array would change that member, too.
fn entangled(disks: &[Candidate], arrays: Vec<Array>) -> BTreeSet<PathBuf> {
    let ours: BTreeSet<&PathBuf> = disks
        .iter()
        .flat_map(|candidate| candidate.partitions.iter().chain([&candidate.disk]))
        .collect();
    arrays
        .into_iter()
        .filter(|array| array.members.iter().any(|member| !ours.contains(member)))
        .flat_map(|array| array.members)
        .collect()
}

/// Stops every assembled array that has one of these members.
fn stop_arrays(members: &BTreeSet<&Path>, permission: &WritePermission) -> Result<()> {
    for array in assembled_arrays()? {
        if array.members.iter().any(|part| members.contains(&**part)) {
            stop_array(&array.path, &array.directory, permission);
        }
    }
    Ok(())
}

fn stop_array(path: &Path, directory: &SystemPath, permission: &WritePermission) {
    if let Err(failure) = device_mapper::release(path, permission) {
        tracing::error!("{failure}");
    }
    // Opening fails for an array that has not been started. The kernel shows no
    // content of such an array, so there is nothing to erase.
    match Target::open(path, permission) {
        Ok(target) => {
            if let Err(failure) = erase_metadata(&target) {
                tracing::warn!("{failure}");
            }
        }
        Err(failure) => tracing::info!("{failure}"),
    }
    if let Err(error) = File::open(path).and_then(|array| md_ioctl::stop_array(&array)) {
        tracing::error!("{}: cannot stop the array: {error}", path.display());
        return;
    }
    for _ in 0..STOP_TRIES {
        if block_graph::parts(directory).map_or(true, |parts| parts.is_empty()) {
            break;
        }
        thread::sleep(STOP_PAUSE);
    }
    tracing::info!("{}: array stopped", path.display());
}

fn zero_superblock(member: &Member, permission: &WritePermission) -> Result<()> {
    let target = Target::open_disk_or_partition(&member.path, permission)?;
    target.refuse_other(member.identity)?;
    let zeros = AlignedBuffer::zeroed(md_superblock::LEN);
    target.write_and_compare(member.superblock.offset, &zeros)
}

fn raid_error(path: &Path, doing: &str, error: &io::Error) -> Failure {
    Failure::new(
        Class::SoftwareRaidError,
        format!("{}: {doing}: {error}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;
    use std::process::Command;

    use landfall_devices::disk_sets::md_superblock::{Version, superblock};
    use landfall_devices::identity::ChosenDisk;

    use super::*;
    use crate::fixtures::{LoopDevice, exchange, loop_device};

    const SIZE: u64 = 16 << 20;

    fn any_identity() -> Identity {
        Identity::of(&tempfile::tempfile().unwrap()).unwrap()
    }

    fn superblocks(path: &Path) -> io::Result<Vec<MdSuperblock>> {
        let (device, size) = open(path)?;
        md_superblock::find(&device, size)
    }

    fn candidate(device: &LoopDevice) -> Candidate {
        let ChosenDisk { path, identity } = ChosenDisk::by_path(device.path()).unwrap();
        Candidate {
            disk: path,
            identity,
            partitions: Vec::new(),
        }
    }

    fn member(disk: &str, array: u128, name: &str) -> Member {
        Member {
            path: format!("{disk}{array}").into(),
            disk: disk.into(),
            identity: any_identity(),
            superblock: MdSuperblock {
                version: Version::V1_2,
                offset: 4096,
                array: Uuid::from_u128(array),
                name: Some(format!("host:{name}")),
                disks: 2,
            },
        }
    }

    #[test]
    fn kept_volumes_keep_their_neighbours() {
        let members = || {
            vec![
                member("a", 1, "root"),
                member("b", 1, "root"),
                member("b", 2, "data"),
                member("c", 2, "data"),
                member("d", 3, "old"),
            ]
        };
        let left = |keep: &[&str]| -> Vec<String> {
            let keep: Vec<String> = keep.iter().map(|name| (*name).to_owned()).collect();
            let keep = Kept {
                volumes: &keep,
                ..Kept::default()
            };
            doomed(members(), &keep)
                .iter()
                .map(|member| member.path.display().to_string())
                .collect()
        };
        assert_eq!(left(&[]), ["a1", "b1", "b2", "c2", "d3"]);
        assert_eq!(left(&["root"]), ["d3"]);
        assert_eq!(left(&["old"]), ["a1", "b1", "b2", "c2"]);
        assert_eq!(left(&["nosuch", "host:old"]).len(), 5);
    }

    #[test]
    fn an_array_on_another_disk_too_is_kept() {
        let candidates = ["/dev/sdb", "/dev/sdc"].map(|disk| Candidate {
            disk: disk.into(),
            identity: any_identity(),
            partitions: vec![format!("{disk}1").into()],
        });
        let array = |members: &[&str]| Array {
            path: "/dev/md0".into(),
            directory: SystemPath::live().join("/sys/block/md0"),
            members: members.iter().map(PathBuf::from).collect(),
        };
        let arrays = vec![
            // sda is in skip_block_devices.
            array(&["/dev/sda1", "/dev/sdb1"]),
            array(&["/dev/sdc", "/dev/sdc1"]),
        ];
        let entangled = entangled(&candidates, arrays);
        let paths = ["/dev/sda1", "/dev/sdb1"].map(PathBuf::from);
        assert_eq!(entangled, BTreeSet::from(paths));
        let members = vec![
            member("/dev/sdb", 1, "mirror"),
            member("/dev/sdb", 2, "beside it"),
            member("/dev/sdc", 3, "old"),
        ];
        let keep = Kept {
            members: entangled,
            ..Kept::default()
        };
        let left = doomed(members, &keep);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].disk, Path::new("/dev/sdc"));
    }

    /// Two disks. One is a member of an array, with a superblock of this version;
    /// the other has an unrelated file system.
    fn disks(version: Version) -> Option<[(tempfile::NamedTempFile, LoopDevice); 2]> {
        let disk = |fill: &dyn Fn(&File)| {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(SIZE).unwrap();
            fill(file.as_file());
            let device = loop_device(file.path(), 512)?;
            Some((file, device))
        };
        let raid = disk(&|file| {
            let bytes = superblock(version, SIZE, "host:root");
            let offset = version.offset(SIZE).unwrap();
            file.write_all_at(&bytes, offset).unwrap();
        })?;
        let other = disk(&|file| file.write_all_at(b"XFSB", 0).unwrap())?;
        Some([raid, other])
    }

    #[test]
    fn members_that_nobody_assembled() {
        for version in [Version::V0_90, Version::V1_0, Version::V1_1, Version::V1_2] {
            let Some([raid, other]) = disks(version) else {
                return;
            };
            let candidates = [&raid, &other].map(|(_, device)| candidate(device));
            let permission = WritePermission::by_operator();
            let is_left = |keep: &Keep| {
                delete(&candidates, keep, &permission).unwrap();
                superblocks(raid.1.path()).unwrap().len() == 1
            };
            let named = Keep {
                volumes: vec!["root".into()],
                ..Keep::default()
            };
            assert!(version == Version::V0_90 || is_left(&named));
            // The other half of the array is on a disk that must not be changed.
            let Some([half, _]) = disks(version) else {
                return;
            };
            let halved = Keep {
                devices: BTreeSet::from([half.1.path().to_owned()]),
                ..Keep::default()
            };
            assert!(is_left(&halved), "{version:?}");
            assert!(!is_left(&Keep::default()), "{version:?}");
            assert_eq!(superblocks(raid.1.path()).unwrap(), []);
            let mut untouched = [0; 4];
            other.0.as_file().read_exact_at(&mut untouched, 0).unwrap();
            assert_eq!(&untouched, b"XFSB", "no member, not touched");
            let Ok(examined) = Command::new("/sbin/mdadm")
                .arg("--examine")
                .arg(raid.1.path())
                .output()
            else {
                return landfall_sys::skip::skip("mdadm is not installed");
            };
            let text = String::from_utf8_lossy(&examined.stderr);
            assert!(text.contains("No md superblock"), "{examined:?}");
        }
    }

    #[test]
    fn an_array_on_a_disk_that_got_the_name_of_a_listed_disk_is_kept() {
        let (Some([listed, _]), Some([kept, _])) = (disks(Version::V1_2), disks(Version::V1_2))
        else {
            return;
        };
        let candidates = [candidate(&listed.1)];
        let (file, device) = kept;
        drop(device);
        if !exchange(listed.1.path(), file.path()) {
            return;
        }
        let permission = WritePermission::by_operator();
        let failure = delete(&candidates, &Keep::default(), &permission).unwrap_err();
        assert!(failure.details.contains("found another one"), "{failure}");
        // The name may also change after the search.
        let member = Member {
            path: listed.1.path().to_owned(),
            disk: listed.1.path().to_owned(),
            identity: candidates[0].identity,
            superblock: superblocks(listed.1.path()).unwrap().remove(0),
        };
        delete_members(&[member], &permission);
        assert_eq!(superblocks(listed.1.path()).unwrap().len(), 1);
    }
}
