//! The disks that a clean step may work on.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};
use serde_json::Value;

use crate::commands::command::Node;
use crate::commands::machine::{Machine, blocking};
use crate::disk::busy::{self, KernelView, Use, UseKind};
use crate::disk::erase::{boot_medium, guard};
use crate::disk::md_superblock;
use crate::failure::{Class, Failure, Result};
use crate::inventory::block_devices::{self, BlockDevice};
use crate::inventory::report_types::Disk;
use crate::inventory::root_device_hints::SkipList;
use crate::sys::block_ioctl;
use crate::system_path::SystemPath;

/// A disk that is not out of the question from the start.
#[derive(Debug, Clone)]
pub(super) struct Erasable {
    /// The disk.
    pub disk: PathBuf,
    /// Its partitions, by name descending.
    pub partitions: Vec<PathBuf>,
    /// Whether ATA commands reach it without a bridge in between.
    pub is_ata: bool,
    /// Why a step leaves it alone or fails on it, if there is a reason.
    pub obstacle: Option<Obstacle>,
    /// Of an NVMe disk: how many namespaces of its controller may be erased.
    pub erasable_namespaces: usize,
}

/// Why a disk is not erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The kernel refuses writes.
    ReadOnly,
    /// It, or a partition of it, belongs to a software RAID.
    RaidMember,
    /// Something of it is mounted here, or swap.
    InUse(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str("read-only"),
            Self::RaidMember => f.write_str("a member of a software RAID"),
            Self::InUse(uses) => write!(f, "in use: {uses}"),
        }
    }
}

impl Erasable {
    /// The name by which Ironic knows it.
    pub fn name(&self) -> String {
        self.disk.display().to_string()
    }

    /// Whether it is an NVMe disk, by its name as in the original.
    pub fn is_nvme(&self) -> bool {
        self.name().starts_with("/dev/nvme")
    }

    #[cfg(test)]
    pub fn for_test(disk: &str) -> Self {
        Self {
            disk: disk.into(),
            partitions: Vec::new(),
            is_ata: false,
            obstacle: None,
            erasable_namespaces: 1,
        }
    }
}

/// All disks of the machine but those that the node says to skip, virtual media
/// and what this boot came from; by name descending.
///
/// # Errors
/// If the skip list cannot be used or a disk cannot be looked at: what is not
/// known is not erased.
pub(super) fn list(node: &Node) -> Result<Vec<Erasable>> {
    let kernel = KernelView::default();
    let skip_list = SkipList::parse(node.property("skip_block_devices").unwrap_or(&Value::Null))?;
    let (mut left, mut spared) = (Vec::new(), BTreeSet::new());
    for device in block_devices::collect(&SystemPath::live()) {
        let disk = &device.disk;
        if skip_list.contains(disk)? {
            tracing::warn!("{}: left alone, it is in skip_block_devices", disk.name);
            spared.extend(names(&device));
        } else if is_medium(disk).map_err(|e| look_failed(&disk.name, e))? {
            tracing::info!("{}: left alone, it is a virtual or boot medium", disk.name);
            spared.extend(names(&device));
        } else {
            left.push(device);
        }
    }
    let left = without_those_made_of(left, spared);
    let mut found = left
        .iter()
        .map(|device| look(&kernel, device).map_err(|e| look_failed(&device.disk.name, e)))
        .collect::<Result<Vec<_>>>()?;
    found.sort_by(|a, b| b.disk.cmp(&a.disk));
    count_namespaces(&mut found);
    Ok(found)
}

/// Some controllers know no erase of one namespace alone.
fn count_namespaces(disks: &mut [Erasable]) {
    let free: Vec<String> = disks
        .iter()
        .filter(|disk| disk.obstacle.is_none())
        .filter_map(|disk| controller(&disk.name()).map(str::to_owned))
        .collect();
    for disk in disks {
        let name = disk.name();
        let own = controller(&name);
        disk.erasable_namespaces = free.iter().filter(|free| own == Some(free)).count();
    }
}

/// `/dev/nvme0` of `/dev/nvme0n1`.
fn controller(disk: &str) -> Option<&str> {
    let (controller, _) = disk.rsplit_once('n')?;
    controller.starts_with("/dev/nvme").then_some(controller)
}

/// A disk and its partitions, as Ironic knows them.
fn names(device: &BlockDevice) -> impl Iterator<Item = String> {
    let partitions = device.partitions.iter().map(|part| part.name.clone());
    partitions.chain([device.disk.name.clone()])
}

/// Takes out what is made of something spared: what is written to an array or
/// a multipath disk lands on the disks below it.
fn without_those_made_of(
    mut left: Vec<BlockDevice>,
    mut spared: BTreeSet<String>,
) -> Vec<BlockDevice> {
    loop {
        let (above, rest): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|device| device.made_of.iter().any(|part| spared.contains(part)));
        left = rest;
        if above.is_empty() {
            return left;
        }
        for device in &above {
            tracing::warn!(
                "{}: left alone, a part of it is on a disk that is to be left alone",
                device.disk.name
            );
            spared.extend(names(device));
        }
    }
}

/// As [`list`], for a step that erases what it finds: refuses if a disk holds a
/// file system that other machines use, unless settings or node allow that.
///
/// # Errors
/// As [`list`], or if one does; nothing was changed.
pub(super) async fn list_unshared(machine: &Machine, node: &Node) -> Result<Vec<Erasable>> {
    let guarded = *machine.settings.params.guard_special_filesystems;
    let node = node.clone();
    blocking(move || {
        let disks = list(&node)?;
        if guarded && node.driver_switch("wipe_special_filesystems", true) {
            for disk in &disks {
                guard::refuse_shared(&disk.disk, &disk.partitions)?;
            }
        }
        Ok(disks)
    })
    .await
}

fn is_medium(disk: &Disk) -> std::io::Result<bool> {
    if disk.traits.virtual_media {
        return Ok(true);
    }
    boot_medium::is_boot_medium(Path::new(&disk.name), disk.tran.as_deref() == Some("usb"))
}

fn look(kernel: &KernelView, device: &BlockDevice) -> std::io::Result<Erasable> {
    let disk = &device.disk;
    let path = PathBuf::from(&disk.name);
    let number = fs::metadata(&path)?.rdev();
    let in_kernel = kernel.device(major(number), minor(number))?;
    let mut partitions: Vec<PathBuf> = device
        .partitions
        .iter()
        .map(|partition| PathBuf::from(&partition.name))
        .collect();
    partitions.sort_unstable_by(|a, b| b.cmp(a));
    let uses: Vec<Use> = kernel
        .uses(&in_kernel)?
        .into_iter()
        .filter(|used| !matches!(used.kind, UseKind::Holder(_)))
        .collect();
    let obstacle = if !uses.is_empty() {
        Some(Obstacle::InUse(busy::list(&uses)))
    } else if device.is_raid_member() || is_raid_member(&path, &partitions)? {
        Some(Obstacle::RaidMember)
    } else {
        disk.traits.read_only.then_some(Obstacle::ReadOnly)
    };
    Ok(Erasable {
        disk: path,
        partitions,
        is_ata: matches!(disk.tran.as_deref(), Some("sata" | "ata")),
        obstacle,
        erasable_namespaces: 0,
    })
}

/// A disk counts as a member when one of its partitions is, as with the
/// original.
fn is_raid_member(disk: &Path, partitions: &[PathBuf]) -> std::io::Result<bool> {
    for path in partitions.iter().map(PathBuf::as_path).chain([disk]) {
        let device = std::fs::File::open(path)?;
        let size = block_ioctl::size_bytes(&device)?;
        if !md_superblock::find(&device, size)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn look_failed(name: &str, error: std::io::Error) -> Failure {
    Failure::new(
        Class::BlockDeviceEraseError,
        format!("{name}: finding out what is on it: {error}"),
    )
}

/// One failure of several disks, `None` if there is none.
pub(super) fn joined(failures: &[(String, Failure)]) -> Option<Failure> {
    if failures.is_empty() {
        return None;
    }
    let texts: Vec<String> = failures
        .iter()
        .map(|(name, failure)| format!("\"{name}\": {failure}"))
        .collect();
    Some(Failure::new(Class::BlockDeviceEraseError, texts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys_tree::plant;

    #[test]
    fn namespaces_that_may_not_be_erased_are_not_counted() {
        let mut disks = [
            "/dev/nvme0n1",
            "/dev/nvme0n2",
            "/dev/nvme0n3",
            "/dev/nvme10n1",
            "/dev/sdn",
        ]
        .map(Erasable::for_test);
        disks[1].obstacle = Some(Obstacle::InUse("it is mounted on /".into()));
        count_namespaces(&mut disks);
        let counts = disks.map(|disk| disk.erasable_namespaces);
        assert_eq!(counts, [2, 2, 2, 1, 0]);
    }

    #[test]
    fn an_array_on_a_spared_disk_is_spared() {
        let root = plant(
            r"sys/block/dm-0/dev = 252:0\n
sys/block/dm-0/size = 4096\n
sys/block/dm-0/dm/uuid = mpath-1\n
sys/block/dm-0/slaves/md0p1/
sys/block/md0/dev = 9:0\n
sys/block/md0/size = 4096\n
sys/block/md0/md/level = raid1\n
sys/block/md0/md0p1/partition = 1\n
sys/block/md0/md0p1/size = 64\n
sys/block/md0/slaves/sda1/
sys/block/md0/slaves/sdb1/
sys/block/md1/dev = 9:1\n
sys/block/md1/size = 4096\n
sys/block/md1/md/level = raid1\n
sys/block/md1/slaves/sdb2/
sys/block/sda/dev = 8:0\n
sys/block/sda/size = 8192\n
sys/block/sda/sda1/partition = 1\n
sys/block/sda/sda1/size = 64\n
sys/block/sdb/dev = 8:16\n
sys/block/sdb/size = 8192\n",
        );
        let (skipped, left) = block_devices::collect(root.path())
            .into_iter()
            .partition::<Vec<_>, _>(|device| device.disk.name == "/dev/sda");
        assert_eq!((skipped.len(), left.len()), (1, 4));
        let left = without_those_made_of(left, skipped.iter().flat_map(names).collect());
        let left: Vec<&str> = left.iter().map(|device| &*device.disk.name).collect();
        assert_eq!(left, ["/dev/sdb", "/dev/md1"]);
    }
}
