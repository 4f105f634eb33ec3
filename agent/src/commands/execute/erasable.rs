//! The disks that a clean step may work on.

mod obstacle;
mod open;

use std::collections::BTreeSet;
use std::path::PathBuf;

use landfall_devices::block_graph;
use landfall_devices::disk_sets::DiskSets;
use landfall_devices::identity::Identity;
use landfall_disk::device::busy::{Device, KernelView};
use landfall_disk::erase::guard;
use landfall_inventory::block_devices::{self, BlockDevice};
use landfall_inventory::report_types::Disk;
use landfall_inventory::root_device::sets_below;
use landfall_inventory::root_device_hints::SkipList;
use landfall_report::failure::{Class, Failure, Result};
use landfall_sys::system_path::SystemPath;
use serde_json::Value;

use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

pub(super) use obstacle::Obstacle;

/// A disk that is a candidate for erasure.
#[derive(Debug, Clone)]
pub(super) struct Erasable {
    pub disk: PathBuf,
    /// Identifies the disk as it was when it was listed; `None` if the kernel gives no
    /// device number. Cleaning takes hours, and in this time the name may pass to another
    /// disk that must not be erased.
    identity: Option<Identity>,
    /// The partitions, in descending order of their names.
    pub partitions: Vec<PathBuf>,
    /// Whether ATA commands reach the disk itself, without a bridge in between.
    pub is_ata: bool,
    /// The reason why a step skips the disk or fails on it, if there is one.
    pub obstacle: Option<Obstacle>,
    /// For an NVMe disk: how many namespaces of its controller may be erased.
    pub erasable_namespaces: usize,
}

impl Erasable {
    fn of(device: &BlockDevice) -> Self {
        let mut partitions: Vec<PathBuf> = device
            .partitions
            .iter()
            .map(|partition| PathBuf::from(&partition.name))
            .collect();
        partitions.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            disk: PathBuf::from(&device.disk.name),
            identity: device.disk.traits.identity,
            partitions,
            is_ata: matches!(device.disk.tran.as_deref(), Some("sata" | "ata")),
            obstacle: None,
            erasable_namespaces: 0,
        }
    }

    /// The name that Ironic uses for the disk.
    pub fn name(&self) -> String {
        self.disk.display().to_string()
    }

    /// Whether this is an NVMe disk. The name decides, as in Ironic's agent.
    pub fn is_nvme(&self) -> bool {
        self.name().starts_with("/dev/nvme")
    }

    #[cfg(test)]
    pub fn for_test(disk: &str) -> Self {
        let directory = landfall_devices::devices_below::in_sysfs(disk.as_ref());
        Self {
            disk: disk.into(),
            identity: directory.and_then(|directory| Identity::in_sysfs(&directory)),
            partitions: Vec::new(),
            is_ata: false,
            obstacle: None,
            erasable_namespaces: 1,
        }
    }
}

/// All disks of the machine, in descending order of their names. Disks in the node's skip
/// list, virtual media and the medium that this host booted from are left out, and so are
/// the disks below and the devices above a disk that is left out. A disk that cannot be
/// inspected is in the list, with [`Obstacle::Unreadable`].
///
/// # Errors
/// If the skip list is invalid.
pub(super) fn list(node: &Node) -> Result<Vec<Erasable>> {
    let skip_list = skip_list(node)?;
    let root = SystemPath::live();
    let devices = block_devices::collect(&root);
    Ok(choose(devices, &skip_list, &sets_below(&root))?.disks)
}

/// The disks to search for software RAID to delete, and the devices to keep.
pub(super) struct Arrays {
    /// The disks of [`list`], and the disks of the volumes to keep: the caller must know
    /// which other arrays share a disk with these volumes.
    pub disks: Vec<Erasable>,
    /// The disks and partitions to leave unchanged. An array with a member among them
    /// must be kept, because an array needs its members.
    pub spared: BTreeSet<PathBuf>,
}

/// The disks of the machine, for [`Arrays`].
///
/// # Errors
/// See [`list`]. Also if a disk is a RAID member and the skip list names an array by a
/// device node that does not exist, because then the agent does not know which array to
/// keep.
pub(super) fn list_for_arrays(node: &Node) -> Result<Arrays> {
    let devices = block_devices::collect(&SystemPath::live());
    let skip_list = skip_list(node)?;
    let missing = skip_list.missing_array(devices.iter().map(|device| &device.disk))?;
    let missing = missing.map(str::to_owned);
    let Chosen { disks, spared } = choose(devices, &skip_list, &|_| DiskSets::default())?;
    let is_member = |disk: &Erasable| disk.obstacle == Some(Obstacle::RaidMember);
    match missing.filter(|_| disks.iter().any(is_member)) {
        None => Ok(Arrays {
            disks,
            spared: spared.into_iter().map(PathBuf::from).collect(),
        }),
        Some(array) => Err(Failure::new(
            Class::SoftwareRaidError,
            format!(
                "skip_block_devices names {array}, but no assembled array has this name, so the agent does not know which array to keep; nothing was deleted"
            ),
        )
        .hint("name the array in skip_block_devices by volume_name")),
    }
}

/// The disks that the node says to skip.
///
/// # Errors
/// If the list is invalid.
pub(super) fn skip_list(node: &Node) -> Result<SkipList> {
    SkipList::parse(node.property("skip_block_devices").unwrap_or(&Value::Null))
}

struct Chosen {
    disks: Vec<Erasable>,
    /// The device nodes of the disks that are left out of `disks`, and of their
    /// partitions.
    spared: BTreeSet<String>,
}

fn choose(
    devices: Vec<BlockDevice>,
    skip_list: &SkipList,
    sets: &dyn Fn(&Disk) -> DiskSets,
) -> Result<Chosen> {
    let kernel = KernelView::default();
    let mut spared = BTreeSet::new();
    for device in &devices {
        let disk = &device.disk;
        let kept_volume = match skip_list.volumes() {
            [] => None,
            volumes => sets(disk).kept_volume(volumes),
        };
        if let Some(volume) = kept_volume {
            tracing::warn!(
                "{} is left unchanged: it is part of the software RAID volume {volume}, which is in skip_block_devices",
                disk.name
            );
        } else if skip_list.contains(disk)? {
            tracing::warn!(
                "{} is left unchanged: it or one of its partitions is in skip_block_devices",
                disk.name
            );
        } else if let Some(medium) = medium(disk) {
            tracing::info!("{} is left unchanged: it is {medium}", disk.name);
        } else {
            continue;
        }
        spared.extend(names(device));
    }
    let left = without_those_below(devices, &mut spared);
    let mut disks: Vec<Erasable> = without_those_made_of(left, &mut spared)
        .iter()
        .map(|device| inspect(&kernel, device))
        .collect();
    disks.sort_by(|a, b| b.disk.cmp(&a.disk));
    mark_entangled(&kernel, &mut disks);
    count_namespaces(&mut disks);
    Ok(Chosen { disks, spared })
}

/// Marks the disks that cannot be erased because of a device on them: it also uses
/// another disk that is not erased (for example an LVM volume), or it is no device of the
/// device mapper and so cannot be released (for example bcache).
fn mark_entangled(kernel: &KernelView, disks: &mut [Erasable]) {
    loop {
        let free: BTreeSet<String> = disks
            .iter()
            .filter(|disk| disk.obstacle.is_none())
            .map(Erasable::name)
            .collect();
        for disk in disks.iter_mut().filter(|disk| disk.obstacle.is_none()) {
            let found = kernel
                .device_at(&disk.disk)
                .and_then(|device| entanglement(kernel, &device, &free));
            disk.obstacle = match found {
                Ok(entangled) => entangled.map(Obstacle::InUse),
                Err(error) => Some(Obstacle::Unreadable(error.to_string())),
            };
        }
        let left = disks.iter().filter(|disk| disk.obstacle.is_none()).count();
        if left == free.len() {
            return;
        }
    }
}

fn entanglement(
    kernel: &KernelView,
    disk: &Device,
    free: &BTreeSet<String>,
) -> std::io::Result<Option<String>> {
    let stack = kernel.stack(disk)?;
    let in_stack = |name: &str| {
        stack
            .iter()
            .any(|device| name.strip_prefix("/dev/") == Some(&device.name))
    };
    for device in &stack {
        let label = kernel.label(device);
        if !device.is_mapped() {
            return Ok(Some(format!("it is held by {label}")));
        }
        let below = block_graph::disks_of_parts(&device.directory)?;
        let below: Vec<String> = below.iter().map(|name| format!("/dev/{name}")).collect();
        if let Some(other) = below
            .iter()
            .find(|name| !free.contains(*name) && !in_stack(name))
        {
            return Ok(Some(format!(
                "{label} is on it and on {other}, which is not erased"
            )));
        }
    }
    Ok(None)
}

/// Counts the erasable namespaces of each controller, because some controllers cannot
/// erase a single namespace.
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

/// Returns `/dev/nvme0` for `/dev/nvme0n1`.
fn controller(disk: &str) -> Option<&str> {
    let (controller, _) = disk.rsplit_once('n')?;
    controller.starts_with("/dev/nvme").then_some(controller)
}

/// The device nodes of a disk and of its partitions, for every path to the disk.
fn names(device: &BlockDevice) -> impl Iterator<Item = String> {
    let traits = &device.disk.traits;
    let partitions = device.partitions.iter().map(|part| part.name.clone());
    let of_paths = traits.partitions.iter().map(|part| part.name.clone());
    let paths = traits.other_paths.iter().map(|path| path.name.clone());
    partitions
        .chain(of_paths)
        .chain(paths)
        .chain([device.disk.name.clone()])
}

/// Removes the spared devices and every device that they are made of. Adds these
/// underlying devices to `spared`. For example, the disks of a spared array must also be
/// spared.
fn without_those_below(
    devices: Vec<BlockDevice>,
    spared: &mut BTreeSet<String>,
) -> Vec<BlockDevice> {
    loop {
        let above = |device: &&BlockDevice| spared.contains(&device.disk.name);
        let parts: BTreeSet<&String> = devices
            .iter()
            .filter(above)
            .flat_map(|device| &device.made_of)
            .collect();
        let below: Vec<&BlockDevice> = devices
            .iter()
            .filter(|device| !above(device) && names(device).any(|name| parts.contains(&name)))
            .collect();
        if below.is_empty() {
            break;
        }
        for device in below {
            tracing::warn!(
                "{} is left unchanged: a device that must not be changed is on it",
                device.disk.name
            );
            spared.extend(names(device));
        }
    }
    let mut left = devices;
    left.retain(|device| !spared.contains(&device.disk.name));
    left
}

/// Removes the devices that are made of a spared device, and adds them to `spared`,
/// because data that is written to an array or a multipath disk ends up on the underlying
/// disks.
fn without_those_made_of(
    mut left: Vec<BlockDevice>,
    spared: &mut BTreeSet<String>,
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
                "{} is left unchanged: a part of it is on a disk that must not be changed",
                device.disk.name
            );
            spared.extend(names(device));
        }
    }
}

/// Whether [`guard`] protects file systems that other machines use. Both the settings and
/// the node can switch this off.
pub(super) fn is_guarded(machine: &Machine, node: &Node) -> bool {
    *machine.settings.params.guard_special_filesystems
        && node.driver_switch("wipe_special_filesystems", true)
}

/// Like [`list`], for a step that erases the disks: first waits for late disks.
///
/// # Errors
/// See [`list`] and [`Machine::all_disks`]. Also if `guarded` is set and a disk holds a
/// file system that other machines use. No disk has been changed.
pub(super) async fn list_unshared(
    machine: &Machine,
    node: &Node,
    guarded: bool,
) -> Result<Vec<Erasable>> {
    machine.all_disks().await?;
    let node = node.clone();
    blocking(move || {
        let mut disks = list(&node)?;
        if guarded {
            disks.iter_mut().try_for_each(refuse_shared)?;
        }
        Ok(disks)
    })
    .await
}

/// Inspects again a disk that [`list`] could not read. The skip lists are not checked
/// again, because they only use data that the kernel provides without reading the disk.
///
/// # Errors
/// If the disk has disappeared, if another disk now has its name, or if it is a medium
/// that must not be erased. Also if `guarded` is set and the disk holds a file system
/// that other machines use.
pub(super) fn inspect_again(disk: &Erasable, guarded: bool) -> Result<Erasable> {
    let name = disk.name();
    // The skip lists were applied to the disk that had this name at the time of the
    // listing, so it must be the same disk.
    disk.identity()?.refuse_other_name(&disk.disk)?;
    let devices = block_devices::collect(&SystemPath::live());
    let Some(device) = devices.iter().find(|device| device.disk.name == name) else {
        return Err(Failure::device_not_found(format!(
            "{name}: the disk went away"
        )));
    };
    if let Some(medium) = medium(&device.disk) {
        return Err(Failure::erasure(format!("{name}: it is {medium}")));
    }
    let mut inspected = inspect(&KernelView::default(), device);
    inspected.identity = disk.identity;
    inspected.erasable_namespaces = disk.erasable_namespaces;
    if guarded {
        refuse_shared(&mut inspected)?;
    }
    Ok(inspected)
}

/// Fails if the disk holds a file system that other machines use. If the agent cannot
/// search the disk for file systems, marks the disk as unreadable.
fn refuse_shared(disk: &mut Erasable) -> Result<()> {
    if let Some(Obstacle::Unreadable(_)) = disk.obstacle {
        return Ok(());
    }
    match guard::refuse_shared(&disk.disk, &disk.partitions) {
        Err(failure) if failure.class != Class::ProtectedDeviceError => {
            disk.obstacle = Some(Obstacle::Unreadable(failure.details));
            Ok(())
        }
        judged => judged,
    }
}

/// The kind of medium, if this disk is virtual media or the medium that this host booted
/// from. (Other code handles read-only disks, because the conductor decides whether
/// cleaning may skip them.)
fn medium(disk: &Disk) -> Option<String> {
    let traits = &disk.traits;
    (traits.virtual_media || traits.boot_medium.is_some())
        .then(|| traits.why_untouchable())
        .flatten()
}

fn inspect(kernel: &KernelView, device: &BlockDevice) -> Erasable {
    let mut disk = Erasable::of(device);
    disk.obstacle = obstacle::find(kernel, device, &disk)
        .unwrap_or_else(|error| Some(Obstacle::Unreadable(error.to_string())));
    disk
}

/// Combines the failures of several disks into one. Returns `None` if there are
/// none.
pub(super) fn joined(failures: &[(String, Failure)]) -> Option<Failure> {
    if failures.is_empty() {
        return None;
    }
    let texts: Vec<String> = failures
        .iter()
        .map(|(name, failure)| format!("\"{name}\": {failure}"))
        .collect();
    Some(Failure::erasure(texts.join("; ")))
}

#[cfg(test)]
mod tests;
