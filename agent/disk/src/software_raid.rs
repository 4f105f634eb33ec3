//! Linux software RAID on the disks of the node: creates volumes ([`create`]), starts
//! them again after a boot ([`start`]) and deletes them ([`delete`]).
//!
//! The agent finds the members of an array by the superblocks on disks and partitions.
//! So the kernel need not have assembled the array, and members may be missing.
//! [`layout`] computes the places of the members of new arrays, and [`member`] makes
//! their superblocks. Firmware cannot read arrays, so [`system_partitions`] copies the
//! image's EFI system partition to the disks of an array.

pub mod create;
pub mod delete;
pub mod layout;
pub mod member;
pub mod start;
pub mod system_partitions;

use std::fs::File;
use std::io;
use std::path::Path;

use landfall_report::failure::{Class, Failure};
use landfall_sys::block_ioctl;

/// A device and its size in bytes.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let device = File::open(path)?;
    let size = block_ioctl::size_bytes(&device)?;
    Ok((device, size))
}

fn raid_error(path: &Path, doing: &str, error: &io::Error) -> Failure {
    Failure::new(
        Class::SoftwareRaidError,
        format!("{}: {doing}: {error}", path.display()),
    )
}
