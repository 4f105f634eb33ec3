//! Checks the disks and the downloads after the run.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result};
use landfall_tests::image_server::Request;

use super::deployments::Ended;
use super::images::Images;
use super::room::Room;

/// Returns the faults of all disks. The disk of an active node must have the image. On
/// the disk of a failed node the first sector must be empty: the agent writes it last,
/// because it makes the disk bootable.
pub fn disks(room: &Room, ended: &[Ended], images: &Images) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (one, disk) in ended.iter().zip(&room.disks) {
        let start = start_of(disk, images.content().len())?;
        let name = one.part.name();
        let is_active = one.state == "active";
        if is_active && start != images.content() {
            faults.push(format!("{name} is active, but its disk is not the image"));
        }
        let first_sector = start.get(..512).unwrap_or_default();
        if !is_active && first_sector.iter().any(|byte| *byte != 0) {
            faults.push(format!("{name} has failed, but its disk may boot"));
        }
    }
    Ok(faults)
}

/// Returns a fault unless the image server got exactly one GET request, through the
/// cache. Only Ironic itself sends a HEAD request, without the cache.
#[must_use]
pub fn downloads(requests: &[Request]) -> Option<String> {
    let gets: Vec<&Request> = { requests.iter() }
        .filter(|request| request.method == "GET")
        .collect();
    let is_right = matches!(gets.as_slice(), [one] if one.by_proxy);
    (!is_right).then(|| format!("expected one GET through the cache, found {gets:?}"))
}

fn start_of(disk: &Path, length: usize) -> Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(disk)
        .and_then(|file| file.take(length as u64).read_to_end(&mut start))
        .with_context(|| format!("reading {}", disk.display()))?;
    Ok(start)
}
