//! Determines what the deletion of arrays must leave unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use landfall_devices::disk_sets::md_superblock;
use landfall_report::failure::{Class, Failure, Result};
use nix::libc;
use uuid::Uuid;

use super::super::open;
use super::assembled::{Array, Assembled};
use super::{Candidate, Keep, Member};
use crate::device::busy::KernelView;

/// The arrays that have a member on devices that must be left unchanged.
#[derive(Debug, Default)]
pub(super) struct ArraysOn {
    pub(super) arrays: BTreeSet<Uuid>,
    /// The devices that cannot be read on any of the given paths, with the reasons.
    pub(super) unread: Vec<(PathBuf, io::Error)>,
}

impl ArraysOn {
    pub(super) fn look(
        devices: &BTreeSet<PathBuf>,
        other_paths: impl Fn(&Path) -> Vec<PathBuf>,
    ) -> Self {
        let (mut arrays, mut unread, mut read) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
        for path in devices {
            let (device, size) = match open(path) {
                Ok(opened) => opened,
                Err(error) if error.raw_os_error() == Some(libc::ENOMEDIUM) => continue,
                Err(error) => {
                    unread.push((path.clone(), error));
                    continue;
                }
            };
            let found = md_superblock::find_readable(&device, size);
            arrays.extend(found.into_iter().map(|superblock| superblock.array));
            match md_superblock::find(&device, size) {
                Ok(_) => drop(read.insert(path)),
                Err(error) => unread.push((path.clone(), error)),
            }
        }
        // A path on standby cannot be read. It is enough if another path to the device
        // was read.
        unread.retain(|(path, _)| !other_paths(path).iter().any(|other| read.contains(other)));
        Self { arrays, unread }
    }
}

/// The other paths to a disk or partition (multipath).
fn other_paths(path: &Path) -> Vec<PathBuf> {
    let kernel = KernelView::default();
    let others = kernel
        .device_at(path)
        .and_then(|it| kernel.other_paths(&it));
    let others = others.unwrap_or_default().into_iter();
    others
        .map(|other| Path::new("/dev").join(other.name))
        .collect()
}

/// The data by which the deletion recognises the arrays to keep.
#[derive(Default)]
pub(super) struct Kept<'a> {
    pub(super) volumes: &'a [String],
    pub(super) on_devices: ArraysOn,
    /// The members of the assembled arrays to keep, and the disks that these members are
    /// on with all their partitions. Each has the reason.
    pub(super) members: BTreeMap<PathBuf, String>,
}

impl<'a> Kept<'a> {
    pub(super) fn find(disks: &[Candidate], keep: &'a Keep) -> Result<Self> {
        Ok(Self::of(disks, Assembled::look(disks)?, keep))
    }

    pub(super) fn of(disks: &[Candidate], assembled: Assembled, keep: &'a Keep) -> Self {
        let Assembled { ours, entangled } = assembled;
        let on_entangled = entangled.iter().flat_map(|array| array.devices.clone());
        let devices = on_entangled.chain(keep.devices.iter().cloned()).collect();
        let mut members = BTreeMap::new();
        let mut keep_members = |array: &Array, reason: String| {
            let own = array.members.iter().cloned();
            members.extend(own.map(|member| (member, reason.clone())));
        };
        for array in &entangled {
            let reason = format!(
                "{} has a member on a disk that must not be changed",
                array.path.display()
            );
            keep_members(array, reason);
        }
        for array in &ours {
            if let Some(reason) = why_kept(array, &devices) {
                keep_members(array, reason);
            }
        }
        // If a member is kept, its whole disk is kept, because the deletion removes
        // partition tables. This does not depend on superblocks, because an assembled
        // array may no longer have its superblock on the disk.
        for disk in disks {
            let reason = disk.devices().find_map(|it| members.get(it)).cloned();
            if let Some(reason) = reason {
                members.extend(disk.devices().map(|it| (it.clone(), reason.clone())));
            }
        }
        Self {
            volumes: &keep.volumes,
            on_devices: ArraysOn::look(&devices, other_paths),
            members,
        }
    }

    /// Fails if members are to be deleted while a device that must not be changed cannot
    /// be read: the members may be the only good copy of an array on that device.
    pub(super) fn refuse_unread(&self, doomed: &[Member]) -> Result<()> {
        let Some((path, error)) = self
            .on_devices
            .unread
            .first()
            .filter(|_| !doomed.is_empty())
        else {
            return Ok(());
        };
        Err(Failure::new(
            Class::SoftwareRaidError,
            format!(
                "{}: must not be changed, and cannot be read ({error}), so the agent does not know which arrays have a member on it; nothing was deleted",
                path.display()
            ),
        )
        .hint("repair this disk, or remove it from the machine; if it may be changed, remove it from skip_block_devices"))
    }

    /// Why the array of this member is kept. `None` if it is not, or only because of
    /// another array that is kept.
    fn reason(&self, member: &Member) -> Option<String> {
        let name = member.superblock.volume_name();
        if name.is_some_and(|name| self.volumes.iter().any(|kept| kept == name)) {
            return Some("it is in skip_block_devices".to_owned());
        }
        if self.on_devices.arrays.contains(&member.superblock.array) {
            return Some("it has a member on a device that must not be changed".to_owned());
        }
        self.members.get(&member.path).cloned()
    }
}

/// Why an assembled array must not be stopped: the array, or a device that is built on
/// it, is among the devices to keep. The deletion of the array would destroy that device,
/// even if a part of it (for example of an LVM volume) is on another disk.
fn why_kept(array: &Array, keep: &BTreeSet<PathBuf>) -> Option<String> {
    let path = array.path.display();
    if array.devices.iter().any(|device| keep.contains(device)) {
        return Some(format!("{path} must not be changed"));
    }
    let above = { array.above.iter() }.find(|device| keep.contains(*device))?;
    let above = above.display();
    Some(format!("{above}, which is on {path}, must not be changed"))
}

/// The members to delete. An array is kept if it shares a disk with a kept array, if a
/// kept array is built on it, or if it is built on a kept array. This is repeated until
/// no further array has to be kept.
pub(super) fn doomed(members: Vec<Member>, keep: &Kept<'_>) -> Vec<Member> {
    let mut kept: BTreeMap<Uuid, String> = BTreeMap::new();
    for member in &members {
        if let Some(reason) = keep.reason(member) {
            kept.entry(member.superblock.array).or_insert(reason);
        }
    }
    loop {
        let disks: BTreeSet<&PathBuf> = members
            .iter()
            .filter(|member| kept.contains_key(&member.superblock.array))
            .flat_map(Member::shared)
            .collect();
        let mut neighbours = BTreeMap::new();
        for member in &members {
            let array = member.superblock.array;
            if let Some(disk) = member.shared().find(|disk| disks.contains(disk))
                && !kept.contains_key(&array)
            {
                let disk = disk.display();
                let reason = format!("it shares {disk} with an array that is kept");
                neighbours.insert(array, reason);
            }
        }
        if neighbours.is_empty() {
            break;
        }
        kept.extend(neighbours);
    }
    let mut doomed = Vec::new();
    for member in members {
        let Some(reason) = kept.get(&member.superblock.array) else {
            doomed.push(member);
            continue;
        };
        let name = member.superblock.name.as_deref();
        tracing::warn!(
            "{}: left unchanged, because it belongs to {}, which is kept: {reason}",
            member.path.display(),
            name.unwrap_or("an array without a name")
        );
    }
    doomed
}
