//! Finds the disks that a write to a block device would change.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use crate::block_graph::{self, BlockGraph};

/// How many levels of stacked devices are followed. A partition counts as one.
const DEPTH_LIMIT: u32 = 16;

/// The directory of a device node in sysfs; `None` if the path is no block device.
pub fn in_sysfs(node: &Path) -> Option<SystemPath> {
    let number = block_graph::number_of(&fs::metadata(node).ok()?)?;
    Some(BlockGraph::live().link(number))
}

/// Lists the device and all devices below it. For a partition the list begins with its
/// disk. The devices below a multipath set, an array or a logical volume are its
/// members. The device below a loop device is the device that it reads.
pub fn devices_below(device: &SystemPath) -> Vec<SystemPath> {
    let mut found = Vec::new();
    add(device, &mut found, &mut BTreeSet::new(), 0);
    found
}

fn add(device: &SystemPath, found: &mut Vec<SystemPath>, seen: &mut BTreeSet<PathBuf>, depth: u32) {
    let Some(device) = device.resolved().filter(|_| depth < DEPTH_LIMIT) else {
        return;
    };
    if device.join("partition").exists()
        && let Some(disk) = device.parent()
    {
        return add(&disk, found, seen, depth + 1);
    }
    if !seen.insert(device.as_path().to_owned()) {
        return;
    }
    found.push(device.clone());
    // A loop device has no slaves. If its backing file is a block device of this
    // machine, that device is below it.
    if device.is_live()
        && let Some(file) = sysfs::text(&device.join("loop/backing_file"))
        && let Some(below) = in_sysfs(Path::new(&file))
    {
        add(&below, found, seen, depth + 1);
    }
    let slaves = device.join("slaves");
    for part in block_graph::parts(&device).unwrap_or_default() {
        add(&slaves.join(part), found, seen, depth + 1);
    }
}
