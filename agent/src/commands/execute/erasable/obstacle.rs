//! Why a step must not erase a disk.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use landfall_devices::block_graph;
use landfall_devices::devices_below::devices_below;
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
    /// The disk, one of its partitions or a device on top of it is mounted or used as
    /// swap. Or a device on top of it cannot be released, or also uses another disk that
    /// is not erased.
    InUse(String),
    /// The content cannot be read. For example, all reads fail if the disk is locked with
    /// a password.
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

/// Finds the reason why a step must not erase the disk. `None` if there is no reason.
///
/// # Errors
/// If the disk or the kernel's view of it cannot be read.
pub(super) fn find(
    kernel: &KernelView,
    device: &BlockDevice,
    disk: &Erasable,
) -> std::io::Result<Option<Obstacle>> {
    let in_kernel = kernel.device_at(&disk.disk)?;
    // Return the error of `parts`. In the list of block devices, a device whose parts
    // cannot be read looks like a device without parts.
    block_graph::parts(&in_kernel.directory)?;
    let uses = direct_uses(kernel, &in_kernel)?;
    if !uses.is_empty() {
        return Ok(Some(Obstacle::InUse(busy::list(&uses))));
    }
    let is_member = device.is_raid_member() || is_raid_member(&disk.disk, &disk.partitions)?;
    if let Some(uses) = uses_above(kernel, &in_kernel, is_member)? {
        return Ok(Some(Obstacle::InUse(uses)));
    }
    if is_member {
        return Ok(Some(Obstacle::RaidMember));
    }
    Ok(device.disk.traits.read_only.then_some(Obstacle::ReadOnly))
}

/// The mounts and the swap on the device.
fn direct_uses(kernel: &KernelView, device: &Device) -> std::io::Result<Vec<Use>> {
    let mut uses = kernel.uses(device)?;
    uses.retain(|used| !matches!(used.kind, UseKind::Holder(_)));
    Ok(uses)
}

/// Finds the first device on the disk that is mounted or used as swap. If the disk is a
/// RAID member, devices on an array are ignored: no step erases a member, and the
/// deletion of an array in use fails anyway. Other devices count, because the deletion of
/// an array removes the partition table of the whole disk.
fn uses_above(
    kernel: &KernelView,
    disk: &Device,
    is_member: bool,
) -> std::io::Result<Option<String>> {
    let is_on_array = |device: &Device| {
        let below = devices_below(&device.directory);
        below.iter().any(|it| it.join("md").is_dir())
    };
    for above in kernel.stack(disk)? {
        if is_member && is_on_array(&above) {
            continue;
        }
        let uses = direct_uses(kernel, &above)?;
        if !uses.is_empty() {
            let (label, uses) = (kernel.label(&above), busy::list(&uses));
            return Ok(Some(format!("it holds {label}: {uses}")));
        }
    }
    Ok(None)
}

/// A disk with a partition that is a RAID member also counts as a member, as in Ironic's
/// agent.
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

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    /// A disk with two partitions: one is a member of an array, the other is a physical
    /// volume of LVM.
    #[test]
    fn a_mounted_volume_next_to_an_array_is_a_use() {
        let mounted = |number: &str| {
            let tree = plant(&format!(
                r"sys/block/sda/dev = 8:0\n
sys/block/sda/sda1/dev = 8:1\n
sys/block/sda/sda1/partition = 1\n
sys/block/sda/sda1/holders/md0 -> ../../../md0
sys/block/sda/sda2/dev = 8:2\n
sys/block/sda/sda2/partition = 2\n
sys/block/sda/sda2/holders/dm-0 -> ../../../dm-0
sys/block/md0/dev = 9:0\n
sys/block/md0/md/level = raid1\n
sys/block/md0/slaves/sda1 -> ../../sda/sda1
sys/block/dm-0/dev = 253:0\n
sys/block/dm-0/dm/name = vg-root\n
sys/block/dm-0/slaves/sda2 -> ../../sda/sda2
proc/self/mountinfo = 30 1 {number} / /mnt rw - xfs x rw\n
proc/swaps = none\n
"
            ));
            let kernel = KernelView {
                sys: tree.directory().join("sys"),
                proc: tree.directory().join("proc"),
            };
            let disks = kernel.disks().unwrap();
            let disk = disks.iter().find(|disk| disk.name == "sda").unwrap();
            [true, false].map(|is_member| uses_above(&kernel, disk, is_member).unwrap())
        };
        let volume = "it holds dm-0 (vg-root): dm-0 is mounted on /mnt".to_owned();
        assert_eq!(mounted("253:0"), [Some(volume.clone()), Some(volume)]);
        let array = "it holds md0: md0 is mounted on /mnt".to_owned();
        assert_eq!(mounted("9:0"), [None, Some(array)]);
        assert_eq!(mounted("8:99"), [None, None]);
    }
}
