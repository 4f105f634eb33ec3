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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Array {
    pub path: PathBuf,
    pub directory: SystemPath,
    /// The array itself and its partitions.
    pub devices: Vec<PathBuf>,
    pub members: Vec<PathBuf>,
}

pub(super) fn assembled_arrays() -> Result<Vec<Array>> {
    let node = |name: &str| Path::new("/dev").join(name);
    let arrays = || {
        let kernel = KernelView::default();
        let mut arrays = Vec::new();
        for device in kernel.disks()? {
            if !device.is_array() {
                continue;
            }
            let members = block_graph::parts(&device.directory)?;
            let partitions = kernel.partitions(&device)?;
            let devices = [&device].into_iter().chain(&partitions);
            arrays.push(Array {
                path: node(&device.name),
                devices: devices.map(|device| node(&device.name)).collect(),
                members: members.iter().map(|part| node(part)).collect(),
                directory: device.directory,
            });
        }
        Ok(arrays)
    };
    arrays().map_err(|e| raid_error(Path::new("/sys/block"), "cannot look for arrays", &e))
}

/// The assembled arrays, from the top: an array that is a member of another one comes
/// after it.
pub(super) struct Assembled {
    /// Those that are made of the disks and of nothing else.
    pub ours: Vec<Array>,
    /// Those with a member elsewhere. A write to such an array would change that member,
    /// too.
    pub entangled: Vec<Array>,
}

impl Assembled {
    pub fn look(disks: &[Candidate]) -> Result<Self> {
        Ok(Self::of(disks, assembled_arrays()?))
    }

    pub fn of(disks: &[Candidate], arrays: Vec<Array>) -> Self {
        let mut devices: BTreeSet<PathBuf> = disks
            .iter()
            .flat_map(|candidate| candidate.partitions.iter().chain([&candidate.disk]))
            .cloned()
            .collect();
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
        // An array was found after those that it is made of.
        ours.reverse();
        Self { ours, entangled }
    }
}

/// Stops every array of these disks that has one of these members.
pub(super) fn stop_arrays(
    disks: &[Candidate],
    members: &BTreeSet<&Path>,
    permission: &WritePermission,
) -> Result<()> {
    for array in Assembled::look(disks)?.ours {
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
