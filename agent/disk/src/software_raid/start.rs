//! Starts software RAID arrays whose members have superblocks.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use landfall_devices::disk_sets::md_superblock::{self, Version};
use landfall_devices::{block_graph, devices_below};
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::system_path::SystemPath;
use landfall_sys::{md_ioctl, sysfs};
use nix::sys::stat::{major, minor};
use uuid::Uuid;

use super::{open, raid_error};
use crate::device::busy::{Device, KernelView, Use, UseKind};

/// If a name is written to this file, the kernel makes an array without members that has
/// this name (`add_named_array` of drivers/md/md.c).
const NEW_ARRAY: &str = "/sys/module/md_mod/parameters/new_array";
/// The agent uses the names md0 to md127 for new arrays. Ironic allows two volumes on a
/// node.
const MOST_ARRAYS: u32 = 128;

/// Starts an array of these members. Returns its path. The module `md_mod` must be
/// loaded.
///
/// # Errors
/// If the superblocks have version 0.90, if the kernel rejects a member, if it cannot
/// make or start the array, or if it starts the array without one of the members.
pub(super) fn start(version: Version, members: &[PathBuf]) -> Result<PathBuf> {
    let minor_version = match version {
        Version::V1_0 => 0,
        Version::V1_1 => 1,
        Version::V1_2 => 2,
        Version::V0_90 => {
            let details = "expected members of version 1, found version 0.90";
            return Err(Failure::new(Class::SoftwareRaidError, details));
        }
    };
    let numbers = { members.iter() }
        .map(|path| {
            let number = fs::metadata(path)
                .map_err(|e| raid_error(path, "cannot find the member", &e))?
                .rdev();
            Ok((major(number), minor(number)))
        })
        .collect::<Result<Vec<_>>>()?;
    let path = new_node().map_err(|e| {
        raid_error(Path::new(NEW_ARRAY), "cannot make a new array", &e)
            .hint("if the kernel has no module md_mod, build the ramdisk with --module-set server")
    })?;
    let array = OpenOptions::new().read(true).write(true).open(&path);
    let array = array.map_err(|e| raid_error(&path, "cannot open the new array", &e))?;
    if let Err(error) = md_ioctl::start_array(&array, minor_version, &numbers) {
        // The members must not stay in an array that does not run.
        if let Err(error) = md_ioctl::stop_array(&array) {
            tracing::warn!("{}: cannot stop the array: {error}", path.display());
        }
        return Err(raid_error(&path, "cannot start the array", &error));
    }
    // The kernel skips a member whose superblock is older than those of the others, and
    // runs the array without it (`analyze_sbs` of drivers/md/md.c).
    let complete = devices_below::in_sysfs(&path)
        .ok_or_else(|| {
            raid_error(
                &path,
                "cannot find it in /sys",
                &io::ErrorKind::NotFound.into(),
            )
        })
        .and_then(|directory| refuse_incomplete(&path, &directory, Some(members.len())));
    if let Err(failure) = complete {
        if let Err(error) = md_ioctl::stop_array(&array) {
            tracing::warn!("{}: cannot stop the array: {error}", path.display());
        }
        return Err(failure);
    }
    drop(array);
    // The first open after the start changes the array's disk sequence, see
    // devices/identity.rs. It must happen here, before the agent chooses the array as a
    // disk.
    File::open(&path).map_err(|e| raid_error(&path, "cannot open the array", &e))?;
    let members: Vec<String> = { members.iter() }
        .map(|member| member.display().to_string())
        .collect();
    tracing::info!(
        "{}: array of {} started",
        path.display(),
        members.join(", ")
    );
    Ok(path)
}

/// Fails if a running array lacks a member, because that member would not have the new
/// data when it comes back. Accepts a disk that is not an array.
///
/// # Errors
/// If the array lacks a member, or if sysfs does not show its state.
pub fn refuse_degraded(array: &Path) -> Result<()> {
    match devices_below::in_sysfs(array) {
        Some(directory) if directory.join("md").is_dir() => {
            refuse_incomplete(array, &directory, None)
        }
        _ => Ok(()),
    }
}

/// `directory` is the array's directory in sysfs. `members` is the number of members
/// that the array was created with, if it is known.
fn refuse_incomplete(array: &Path, directory: &SystemPath, members: Option<usize>) -> Result<()> {
    let md = directory.join("md");
    let level = sysfs::text(&md.join("level")).unwrap_or_default();
    let degraded = match &*level {
        // Arrays of the levels raid0 and linear have no file `degraded`
        // (`md_redundancy_group` of drivers/md/md.c), because the kernel runs them only
        // with all members.
        "raid0" | "linear" => "0".to_owned(),
        _ => sysfs::text(&md.join("degraded")).unwrap_or_else(|| "unknown".to_owned()),
    };
    let parts = block_graph::parts(directory)
        .map_err(|e| raid_error(array, "cannot list its members", &e))?
        .len();
    let expected = members.unwrap_or(parts);
    if degraded == "0" && parts == expected {
        return Ok(());
    }
    let details = format!(
        "{}: expected a complete array of {expected} members, found {parts} members, and {degraded} missing or outdated",
        array.display()
    );
    Err(Failure::new(Class::SoftwareRaidError, details).hint(
        "add the missing disk, or complete the array with mdadm, or delete it by the step delete_configuration and create it again",
    ))
}

fn new_node() -> io::Result<PathBuf> {
    for number in 0..MOST_ARRAYS {
        let name = format!("md{number}");
        if Path::new("/sys/block").join(&name).exists() {
            continue;
        }
        match fs::write(NEW_ARRAY, &name) {
            Ok(()) => return Ok(Path::new("/dev").join(name)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other("too many arrays"))
}

/// An array whose superblocks are on the disks.
#[derive(Debug)]
struct Found {
    version: Version,
    volume: String,
    /// The number of members of the complete array.
    disks: u32,
    members: Vec<PathBuf>,
    /// The devices that are built on the members, on any path to their disks, with
    /// their directories in sysfs. If the kernel has already assembled the array, the
    /// array is one of these devices.
    holders: BTreeMap<String, SystemPath>,
    /// The error if the list of holders may be incomplete.
    unread: Option<io::Error>,
}

/// Starts every array that has one of these volume names and does not run yet.
/// `devices` are the disks and partitions to search. Returns the paths of the arrays
/// that were started. If an array is incomplete or cannot be started, the agent only
/// logs a warning, because another disk may be the root disk. If the array is the root
/// disk, the choice of the root disk reports what is missing.
///
/// Does not start an incomplete array, because the absent member would not have the new
/// data when it comes back.
pub fn start_volumes(devices: &[PathBuf], volumes: &[String]) -> Vec<PathBuf> {
    let mut started = Vec::new();
    for array in find(devices, volumes) {
        let (volume, members) = (&array.volume, array.members.len());
        let runs = |holder: &(_, &SystemPath)| passed_over(holder.1).is_none();
        let mut holders = array.holders.iter();
        let running = holders.clone().find(runs);
        if let Some((name, directory)) = running.or_else(|| holders.next()) {
            match passed_over(directory) {
                None => tracing::info!("the software RAID volume {volume} runs as /dev/{name}"),
                Some(reason) => tracing::warn!(
                    "the software RAID volume {volume} is not started: {name} has its members, and {reason}"
                ),
            }
            continue;
        }
        if let Some(error) = &array.unread {
            tracing::warn!(
                "the software RAID volume {volume} is not started: cannot find out what is built on its members: {error}"
            );
            continue;
        }
        if members < array.disks as usize {
            tracing::warn!(
                "the software RAID volume {volume} is not started: expected {} members, found {members}",
                array.disks
            );
            continue;
        }
        match start(array.version, &array.members) {
            Ok(path) => started.push(path),
            Err(failure) => {
                tracing::warn!("the software RAID volume {volume} is not started: {failure}");
            }
        }
    }
    started
}

fn find(devices: &[PathBuf], volumes: &[String]) -> Vec<Found> {
    let kernel = KernelView::default();
    let mut arrays: BTreeMap<Uuid, Found> = BTreeMap::new();
    for path in devices {
        let Ok((device, size)) = open(path) else {
            continue;
        };
        for superblock in md_superblock::find_readable(&device, size) {
            let Some(volume) = superblock.volume_name() else {
                continue;
            };
            if !volumes.iter().any(|wanted| wanted == volume) {
                continue;
            }
            let array = arrays.entry(superblock.array).or_insert_with(|| Found {
                version: superblock.version,
                volume: volume.to_owned(),
                disks: superblock.disks,
                members: Vec::new(),
                holders: BTreeMap::new(),
                unread: None,
            });
            let held = kernel.device_at(path);
            match held.and_then(|member| holders(&kernel, &member)) {
                Ok(held) => array.holders.extend(held),
                Err(error) => array.unread = Some(error),
            }
            if array.version == superblock.version {
                array.members.push(path.clone());
            }
        }
    }
    arrays.into_values().collect()
}

/// The devices that are built on the member, on all paths to its disk. Without
/// multipathd each path is a separate block device, and the kernel rejects a second
/// array only on the same path. Two arrays on two paths would write to the same disk.
fn holders(kernel: &KernelView, member: &Device) -> io::Result<BTreeMap<String, SystemPath>> {
    let block = SystemPath::live().join(&kernel.sys).join("block");
    let uses = kernel.uses(member)?.into_iter();
    let holder = |used: Use| match used.kind {
        UseKind::Holder(name) => Some((name.clone(), block.join(name))),
        UseKind::Mount(_) | UseKind::Swap => None,
    };
    Ok(uses.filter_map(holder).collect())
}

/// The reason why this device, which has the members of a volume, is not a running
/// array. `None` if the device is a running array. `directory` is its directory in
/// sysfs.
fn passed_over(directory: &SystemPath) -> Option<String> {
    if !directory.join("md").is_dir() {
        return Some("it is no array".to_owned());
    }
    let state = sysfs::text(&directory.join("md/array_state")).unwrap_or_default();
    // Documentation/admin-guide/md.rst: the array does I/O in these states.
    let runs = [
        "readonly",
        "read-auto",
        "clean",
        "active",
        "write-pending",
        "active-idle",
    ];
    (!runs.contains(&&*state)).then(|| format!("its state is {state}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::super::member::{Level, NewArray};
    use super::*;
    use crate::fixtures::{LoopDevice, empty_file, loop_device};

    const SIZE: u64 = 64 << 20;

    #[test]
    fn an_array_that_runs_without_a_member_is_refused() {
        let root = landfall_sys::sys_tree::plant(
            r"sys/block/md0/md/level = raid1\n
sys/block/md0/md/degraded = 0\n
sys/block/md0/slaves/sda2/
sys/block/md0/slaves/sdb2/
sys/block/md1/md/level = raid1\n
sys/block/md1/md/degraded = 1\n
sys/block/md1/slaves/sda3/
sys/block/md2/md/level = raid0\n
sys/block/md2/slaves/sda4/
sys/block/md2/slaves/sdb4/
sys/block/md3/md/level = raid5\n
sys/block/md3/slaves/sda5/
",
        );
        for (name, members, complete) in [
            ("md0", Some(2), true),
            ("md0", None, true),
            ("md0", Some(3), false),
            ("md1", Some(2), false),
            ("md1", None, false),
            ("md2", Some(2), true),
            ("md3", None, false),
        ] {
            let directory = root.path().join("sys/block").join(name);
            let outcome = refuse_incomplete(Path::new(name), &directory, members);
            assert_eq!(outcome.is_ok(), complete, "{name} {members:?}");
        }
    }

    #[test]
    fn an_array_that_is_assembled_does_not_always_run() {
        let root = landfall_sys::sys_tree::plant(
            r"sys/block/md0/md/array_state = clean\n
sys/block/md1/md/array_state = inactive\n
sys/block/md2/md/array_state = broken\n
sys/block/dm-0/dm/name = mpatha\n
",
        );
        for (name, expected) in [
            ("md0", None),
            ("md1", Some("its state is inactive")),
            ("md2", Some("its state is broken")),
            ("dm-0", Some("it is no array")),
        ] {
            let reason = passed_over(&root.path().join("sys/block").join(name));
            assert_eq!(reason.as_deref(), expected, "{name}");
        }
    }

    /// Two disks with two paths each, without multipathd. The agent uses sda and sdc, and the
    /// array was started on the other paths.
    #[test]
    fn an_array_on_the_other_paths_holds_the_members() {
        let disk = |name: &str, wwid: u32, minor: u32, holder: &str| {
            format!(
                "sys/block/{name}/dev = 8:{minor}\\n\n\
                 sys/block/{name}/size = 8192\\n\n\
                 sys/block/{name}/device/wwid = naa.60{wwid}\\n\n\
                 sys/block/{name}/{name}2/dev = 8:{}\\n\n\
                 sys/block/{name}/{name}2/partition = 2\\n\n\
                 sys/block/{name}/{name}2/holders/{holder}\n",
                minor + 2
            )
        };
        let tree = landfall_sys::sys_tree::plant(
            &[
                disk("sda", 1, 0, ""),
                disk("sdb", 1, 16, "md127/"),
                disk("sdc", 2, 32, ""),
                disk("sdd", 2, 48, "md127/"),
                disk("sde", 3, 64, ""),
                "sys/block/md127/md/array_state = clean\\n\n\
                 proc/self/mountinfo = 22 1 0:5 / /proc rw - proc proc rw\\n\n"
                    .to_owned(),
            ]
            .concat(),
        );
        let kernel = KernelView {
            sys: tree.directory().join("sys"),
            proc: tree.directory().join("proc"),
        };
        let found = |name: &str| {
            let disks = kernel.disks().unwrap();
            let disk = disks.iter().find(|disk| disk.name == name).unwrap();
            let member = kernel.partitions(disk).unwrap().remove(0);
            holders(&kernel, &member).unwrap()
        };
        for path in ["sda", "sdb", "sdc", "sdd"] {
            let held = found(path);
            let (name, directory) = held.first_key_value().unwrap();
            assert_eq!((held.len(), &**name), (1, "md127"), "{path}");
            assert_eq!(passed_over(directory), None);
        }
        assert!(found("sde").is_empty());
    }

    #[test]
    fn arrays_are_found_by_the_names_of_their_volumes() {
        let new = |name: &str, array: u128| NewArray {
            array: Uuid::from_u128(array),
            name: name.to_owned(),
            level: Level::Raid1,
            version: Version::V1_2,
            members: vec![SIZE; 2],
            created: 0,
        };
        let files: Vec<_> = (0..3).map(|_| empty_file(SIZE)).collect();
        let members = [
            (new("root", 1), 0),
            (new("root", 1), 1),
            (new("data", 2), 0),
        ];
        for (file, (array, index)) in files.iter().zip(&members) {
            let (place, bytes) = array.superblock(*index, Uuid::from_u128(7)).unwrap();
            file.as_file().write_all_at(&bytes, place).unwrap();
        }
        let devices = files.iter().map(|file| loop_device(file.path(), 512));
        let Some(devices) = devices.collect::<Option<Vec<LoopDevice>>>() else {
            return;
        };
        let paths: Vec<PathBuf> = { devices.iter() }
            .map(|device| device.path().to_owned())
            .collect();
        let found = find(&paths, &["root".to_owned()]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].members, paths[..2]);
        assert_eq!((found[0].disks, found[0].holders.len()), (2, 0));
        assert!(found[0].unread.is_none());
        // The array "data" is incomplete, so the agent does not try to start it.
        assert_eq!(
            start_volumes(&paths, &["data".to_owned()]),
            [""; 0].map(PathBuf::from)
        );
        assert!(find(&paths, &[]).is_empty());
    }
}
