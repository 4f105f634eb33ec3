//! What the deletion of arrays leaves unchanged.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use landfall_devices::disk_sets::md_superblock;
use landfall_report::failure::{Class, Failure, Result};
use nix::libc;
use uuid::Uuid;

use super::super::open;
use super::assembled::Assembled;
use super::{Candidate, Keep, Member};
use crate::device::busy::KernelView;

/// The arrays that have a member on devices to leave unchanged.
#[derive(Debug, Default)]
pub(super) struct ArraysOn {
    pub(super) arrays: BTreeSet<Uuid>,
    /// The devices that cannot be read by any of the paths given, with the reasons.
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
        // A path on standby answers no read.
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

/// What identifies the arrays to keep.
#[derive(Default)]
pub(super) struct Kept<'a> {
    pub(super) volumes: &'a [String],
    pub(super) on_devices: ArraysOn,
    pub(super) members: BTreeSet<PathBuf>,
}

impl<'a> Kept<'a> {
    pub(super) fn find(disks: &[Candidate], keep: &'a Keep) -> Result<Self> {
        let Assembled { entangled, .. } = Assembled::look(disks)?;
        let on_entangled = entangled.iter().flat_map(|array| array.devices.clone());
        let devices = on_entangled.chain(keep.devices.iter().cloned()).collect();
        Ok(Self {
            volumes: &keep.volumes,
            on_devices: ArraysOn::look(&devices, other_paths),
            members: { entangled.iter() }
                .flat_map(|array| array.members.clone())
                .collect(),
        })
    }

    /// Fails if one of these members may belong to an array with a member on a device that
    /// must not be changed and that cannot be read: this other member may be the only good
    /// one.
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

    fn contains(&self, member: &Member) -> bool {
        let name = member.superblock.volume_name();
        name.is_some_and(|name| self.volumes.iter().any(|kept| kept == name))
            || self.on_devices.arrays.contains(&member.superblock.array)
            || self.members.contains(&member.path)
    }
}

/// The members to delete. An array that shares a disk with a kept array is kept as
/// well, and so are the assembled arrays that a kept one is on, and those on a kept one. This is repeated until no further array has to be kept.
pub(super) fn doomed(members: Vec<Member>, keep: &Kept<'_>) -> Vec<Member> {
    let mut kept: BTreeSet<Uuid> = members
        .iter()
        .filter(|member| keep.contains(member))
        .map(|member| member.superblock.array)
        .collect();
    loop {
        let disks: BTreeSet<&PathBuf> = members
            .iter()
            .filter(|member| kept.contains(&member.superblock.array))
            .flat_map(Member::shared)
            .collect();
        let neighbours: Vec<Uuid> = members
            .iter()
            .filter(|member| member.shared().any(|disk| disks.contains(disk)))
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
            "{}: left unchanged, because it belongs to {}, which is to be kept, has a member on a disk that must not be changed, or shares a disk or an array with such an array",
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
