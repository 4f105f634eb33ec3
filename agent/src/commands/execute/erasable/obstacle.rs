//! Why a step must not erase a disk.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use landfall_devices::block_graph;
use landfall_devices::disk_sets::md_superblock;
use landfall_disk::device::busy::{self, Device, KernelView, Use, UseKind};
use landfall_inventory::block_devices::BlockDevice;
use landfall_sys::block_ioctl;

use super::Erasable;

/// The reason why a disk is not erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The kernel rejects writes to the disk.
    ReadOnly,
    /// The disk, or one of its partitions, belongs to a software RAID.
    RaidMember,
    /// The disk, one of its partitions or a device on top of it is mounted or used
    /// as swap; or the device on top of it cannot be erased with it.
    InUse(String),
    /// The content cannot be read. For example, a disk that is locked with a
    /// password fails every read.
    Unreadable(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str("read-only"),
            Self::RaidMember => f.write_str("a member of a software RAID"),
            Self::InUse(uses) => write!(f, "in use: {uses}"),
            Self::Unreadable(reason) => write!(f, "unreadable: {reason}"),
        }
    }
}

/// Finds what keeps a step from erasing the disk. `None` if nothing does.
///
/// # Errors
/// If the disk or the kernel's view of it cannot be read.
pub(super) fn find(
    kernel: &KernelView,
    device: &BlockDevice,
    disk: &Erasable,
) -> std::io::Result<Option<Obstacle>> {
    let in_kernel = kernel.device_at(&disk.disk)?;
    // The list takes an error for a device that is made of nothing.
    block_graph::parts(&in_kernel.directory)?;
    let direct = |device: &Device| -> std::io::Result<Vec<Use>> {
        let mut uses = kernel.uses(device)?;
        uses.retain(|used| !matches!(used.kind, UseKind::Holder(_)));
        Ok(uses)
    };
    let uses = direct(&in_kernel)?;
    if !uses.is_empty() {
        return Ok(Some(Obstacle::InUse(busy::list(&uses))));
    }
    if device.is_raid_member() || is_raid_member(&disk.disk, &disk.partitions)? {
        return Ok(Some(Obstacle::RaidMember));
    }
    for above in kernel.stack(&in_kernel)? {
        let uses = direct(&above)?;
        if !uses.is_empty() {
            return Ok(Some(Obstacle::InUse(format!(
                "it holds {}: {}",
                kernel.label(&above),
                busy::list(&uses)
            ))));
        }
    }
    Ok(device.disk.traits.read_only.then_some(Obstacle::ReadOnly))
}

/// A disk also counts as a member if one of its partitions is one, as in
/// Ironic's agent.
fn is_raid_member(disk: &Path, partitions: &[PathBuf]) -> std::io::Result<bool> {
    for path in partitions.iter().map(PathBuf::as_path).chain([disk]) {
        let device = File::open(path)?;
        let size = block_ioctl::size_bytes(&device)?;
        if !md_superblock::find(&device, size)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
