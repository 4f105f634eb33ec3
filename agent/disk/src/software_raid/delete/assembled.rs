//! The arrays that the kernel has assembled: what they are made of, and how they end.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use landfall_devices::block_graph;
use landfall_devices::permission::WritePermission;
use landfall_report::failure::Result;
use landfall_sys::md_ioctl;
use landfall_sys::system_path::SystemPath;

use super::super::raid_error;
use super::Candidate;
use crate::device::busy::KernelView;
use crate::device::device_mapper;
use crate::device::target::Target;
use crate::erase::metadata::erase_metadata;

/// How many times to check whether a stopped array has released its members, which
/// takes a moment.
const STOP_TRIES: u32 = 20;
const STOP_PAUSE: Duration = Duration::from_millis(100);
/// An array that the kernel has assembled.
pub(super) struct Array {
    pub path: PathBuf,
    pub directory: SystemPath,
    pub members: Vec<PathBuf>,
}

pub(super) fn assembled_arrays() -> Result<Vec<Array>> {
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
pub(super) fn entangled(disks: &[Candidate], arrays: Vec<Array>) -> BTreeSet<PathBuf> {
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
pub(super) fn stop_arrays(members: &BTreeSet<&Path>, permission: &WritePermission) -> Result<()> {
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
