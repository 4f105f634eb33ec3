//! The arrays that the kernel has assembled: their members, and how to stop them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use landfall_devices::block_graph;
use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::md_ioctl;
use landfall_sys::system_path::SystemPath;

use super::super::raid_error;
use super::Candidate;
use crate::device::busy::{Device, KernelView};
use crate::device::device_mapper;
use crate::device::paths::show_the_same;
use crate::device::target::Target;
use crate::erase::metadata::erase_metadata;

/// How many times to check whether a stopped array has released its members, which
/// takes a moment.
const STOP_TRIES: u32 = 20;
const STOP_PAUSE: Duration = Duration::from_millis(100);

/// An array that the kernel has assembled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Array {
    pub path: PathBuf,
    pub directory: SystemPath,
    /// The array itself and its partitions.
    pub devices: Vec<PathBuf>,
    /// The devices that are built on the array, directly or indirectly: LVM volumes,
    /// other arrays.
    pub above: Vec<PathBuf>,
    /// The members. The kernel may use another path to a member's disk than the list of
    /// candidates (multipath). A member is listed by the path of the candidates, or by
    /// the kernel's path if the disk is no candidate.
    pub members: Vec<PathBuf>,
    /// The members for which the kernel uses another path to their disk (multipath), with
    /// the path that the kernel uses.
    pub by_other_paths: Vec<(PathBuf, PathBuf)>,
}

fn assembled_arrays(kernel: &KernelView, disks: &[Candidate]) -> io::Result<Vec<Array>> {
    let used = devices_of(disks);
    let mut arrays = Vec::new();
    for device in kernel.disks()? {
        if !device.is_array() {
            continue;
        }
        let (mut members, mut by_other_paths) = (Vec::new(), Vec::new());
        for part in block_graph::part_nodes(&device.directory)? {
            let (found, member) = (node(&part), used_path(kernel, &part, &used)?);
            if member != found {
                by_other_paths.push((member.clone(), found));
            }
            members.push(member);
        }
        let partitions = kernel.partitions(&device)?;
        arrays.push(Array {
            path: node(&device),
            devices: [&device].into_iter().chain(&partitions).map(node).collect(),
            above: kernel.stack(&device)?.iter().map(node).collect(),
            members,
            by_other_paths,
            directory: device.directory,
        });
    }
    Ok(arrays)
}

fn node(device: &Device) -> PathBuf {
    Path::new("/dev").join(&device.name)
}

fn devices_of(disks: &[Candidate]) -> BTreeSet<PathBuf> {
    disks.iter().flat_map(Candidate::devices).cloned().collect()
}

/// Returns the path to `device` that is in `used`, or its own path if `used` has none of
/// its paths. Without multipathd each path to a disk is a separate block device, and an
/// array uses the path that appeared first.
fn used_path(
    kernel: &KernelView,
    device: &Device,
    used: &BTreeSet<PathBuf>,
) -> io::Result<PathBuf> {
    let own = node(device);
    if used.contains(&own) {
        return Ok(own);
    }
    let others = kernel.other_paths(device)?;
    let found = others.iter().map(node).find(|other| used.contains(other));
    Ok(found.unwrap_or(own))
}

/// The assembled arrays, in the order in which they are stopped: an array comes before
/// the arrays that are its members.
pub(super) struct Assembled {
    /// The arrays whose members are all on the disks.
    pub ours: Vec<Array>,
    /// The arrays that also have a member outside of the disks. A write to such an
    /// array would change that member, too.
    pub entangled: Vec<Array>,
}

impl Assembled {
    pub fn look(disks: &[Candidate]) -> Result<Self> {
        let arrays = assembled_arrays(&KernelView::default(), disks);
        let arrays = arrays
            .map_err(|e| raid_error(Path::new("/sys/block"), "cannot look for arrays", &e))?;
        Ok(Self::of(disks, arrays))
    }

    pub fn of(disks: &[Candidate], arrays: Vec<Array>) -> Self {
        let mut devices = devices_of(disks);
        let (mut ours, mut entangled) = (Vec::new(), arrays);
        loop {
            let (found, rest): (Vec<Array>, Vec<Array>) = entangled
                .into_iter()
                .partition(|array| array.members.iter().all(|part| devices.contains(part)));
            entangled = rest;
            if found.is_empty() {
                break;
            }
            devices.extend(found.iter().flat_map(|array| array.devices.clone()));
            ours.extend(found);
        }
        // Each array was found after the arrays that are its members, so the reverse
        // order is the order in which the arrays can be stopped.
        ours.reverse();
        Self { ours, entangled }
    }
}

/// Stops every array that has one of `members` and has no member outside of `disks`.
pub(super) fn stop_arrays(
    disks: &[Candidate],
    members: &BTreeSet<&Path>,
    permission: &WritePermission,
) -> Result<()> {
    for array in Assembled::look(disks)?.ours {
        if array.members.iter().any(|part| members.contains(&**part)) {
            match refuse_clones(&array.by_other_paths) {
                Ok(()) => stop_array(&array.path, &array.directory, permission),
                Err(failure) => tracing::error!("{}: not stopped: {failure}", array.path.display()),
            }
        }
    }
    Ok(())
}

/// Fails if two paths show different content. Equal names do not prove that two paths
/// lead to the same disk, and the agent must not stop and erase an array on a different
/// disk.
fn refuse_clones(by_other_paths: &[(PathBuf, PathBuf)]) -> Result<()> {
    for (used, other) in by_other_paths {
        let same = show_the_same(used, other)
            .map_err(|e| raid_error(other, "cannot compare it with its other paths", &e))?;
        if !same {
            let (used, other) = (used.display(), other.display());
            return Err(Failure::new(
                Class::SoftwareRaidError,
                format!(
                    "expected {used} and {other} to be paths to one disk, found different content"
                ),
            ));
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

#[cfg(test)]
mod tests {
    use landfall_devices::identity::Identity;
    use landfall_sys::sys_tree::plant;

    use super::*;
    use crate::fixtures::{empty_file, loop_device};

    /// Two disks with two paths each, without multipathd. The agent uses sda and sdc.
    #[test]
    fn an_array_on_the_other_paths_is_that_of_the_disks() {
        let disk = |name: &str, wwid: u32, minor: u32| {
            format!(
                "sys/block/{name}/dev = 8:{minor}\\n\n\
                 sys/block/{name}/size = 8192\\n\n\
                 sys/block/{name}/device/wwid = naa.60{wwid}\\n\n\
                 sys/block/{name}/{name}1/dev = 8:{}\\n\n\
                 sys/block/{name}/{name}1/partition = 1\\n\n",
                minor + 1
            )
        };
        let tree = plant(
            &[
                disk("sda", 1, 0),
                disk("sdb", 1, 16),
                disk("sdc", 2, 32),
                disk("sdd", 2, 48),
                disk("sde", 3, 64),
                "sys/block/md0/dev = 9:0\\n\n\
                 sys/block/md0/md/level = raid1\\n\n\
                 sys/block/md0/md0p1/dev = 259:0\\n\n\
                 sys/block/md0/md0p1/partition = 1\\n\n\
                 sys/block/md0/md0p1/holders/dm-0 -> ../../../dm-0\n\
                 sys/block/dm-0/dev = 253:0\\n\n\
                 sys/block/dm-0/dm/name = vg-lv\\n\n\
                 sys/block/md0/slaves/sdb1 -> ../../sdb/sdb1\n\
                 sys/block/md0/slaves/sdc1 -> ../../sdc/sdc1\n\
                 sys/block/md1/dev = 9:1\\n\n\
                 sys/block/md1/md/level = raid1\\n\n\
                 sys/block/md1/slaves/sdb -> ../../sdb\n\
                 sys/block/md1/slaves/sde1 -> ../../sde/sde1\n"
                    .to_owned(),
            ]
            .concat(),
        );
        let kernel = KernelView {
            sys: tree.directory().join("sys"),
            proc: tree.directory().join("proc"),
        };
        let candidates = ["/dev/sda", "/dev/sdc"].map(|disk| Candidate {
            disk: disk.into(),
            identity: Identity::of(&tempfile::tempfile().unwrap()).unwrap(),
            partitions: vec![format!("{disk}1").into()],
        });
        let arrays = assembled_arrays(&kernel, &candidates).unwrap();
        let Assembled { ours, entangled } = Assembled::of(&candidates, arrays);
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(ours.len(), 1);
        assert_eq!(ours[0].members, paths(&["/dev/sda1", "/dev/sdc1"]));
        assert_eq!(ours[0].devices, paths(&["/dev/md0", "/dev/md0p1"]));
        assert_eq!(ours[0].above, paths(&["/dev/dm-0"]));
        let by_other_path = ("/dev/sda1".into(), "/dev/sdb1".into());
        assert_eq!(ours[0].by_other_paths, [by_other_path]);
        assert_eq!(entangled.len(), 1);
        assert_eq!(entangled[0].members, paths(&["/dev/sda", "/dev/sde1"]));
    }

    #[test]
    fn an_array_on_a_clone_is_not_stopped() {
        let (one, other) = (empty_file(1 << 20), empty_file(1 << 20));
        let (Some(disk), Some(clone)) =
            (loop_device(one.path(), 512), loop_device(other.path(), 512))
        else {
            return;
        };
        let pair = [(disk.path().to_owned(), clone.path().to_owned())];
        refuse_clones(&pair).unwrap();
        std::os::unix::fs::FileExt::write_all_at(other.as_file(), b"x", 0).unwrap();
        let failure = refuse_clones(&pair).unwrap_err();
        assert!(failure.details.contains("different content"), "{failure}");
    }
}
