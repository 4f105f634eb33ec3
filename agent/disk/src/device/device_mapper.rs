//! Removes device-mapper devices that are built on a disk: LVM volumes, opened LUKS
//! containers, partitions of a multipath disk.
//!
//! The ramdisk creates no such devices, but a live system activates the volumes that it
//! finds.

use std::fs::File;
use std::io;
use std::path::Path;

use landfall_devices::permission::WritePermission;
use landfall_report::failure::{Failure, Result};
use landfall_sys::dm_ioctl;
use nix::errno::Errno;

use crate::device::busy::{Device, KernelView};

const CONTROL: &str = "/dev/mapper/control";

/// Deactivates every device-mapper device that is built on a disk, so that the
/// agent can open the disk exclusively. The content of the disk does not change.
///
/// # Errors
/// If one of these devices is in use, or if a device of another kind (an array) is built
/// on the disk; the message names it. Also if sysfs or the device-mapper control device
/// reports an error.
pub fn release(disk: &Path, _permission: &WritePermission) -> Result<()> {
    let kernel = KernelView::default();
    let stack = { kernel.device_at(disk) }
        .and_then(|device| kernel.stack(&device))
        .map_err(|error| {
            failed(
                disk,
                &format!("cannot find out which volumes are on it: {error}"),
            )
        })?;
    if stack.is_empty() {
        return Ok(());
    }
    let control = File::open(CONTROL).map_err(|error| {
        failed(
            disk,
            &format!("cannot open {CONTROL}, so the volumes on it stay: {error}"),
        )
    })?;
    for device in stack {
        let label = kernel.label(&device);
        if !device.is_mapped() {
            if !device.directory.exists() {
                continue;
            }
            return Err(failed(disk, &format!("it is held by {label}")));
        }
        match remove(&control, &device) {
            Ok(()) => {
                tracing::info!("{}: {label} on it is deactivated", disk.display());
            }
            // Another thread or udev has already removed it.
            Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => {}
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
                return Err(failed(
                    disk,
                    &format!("cannot deactivate {label} on it: a program has {label} open"),
                )
                .hint(
                    "end the program, or deactivate the volume (vgchange -an, cryptsetup close)",
                ));
            }
            Err(error) => {
                return Err(failed(
                    disk,
                    &format!("cannot deactivate {label} on it: {error}"),
                ));
            }
        }
    }
    Ok(())
}

fn failed(disk: &Path, what: &str) -> Failure {
    Failure::block_device(format!("{}: {what}", disk.display()))
}

fn remove(control: &File, device: &Device) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let (major, minor) = device.number.split_once(':').ok_or_else(invalid)?;
    let parse = |number: &str| number.parse().map_err(|_| invalid());
    dm_ioctl::remove(control, parse(major)?, parse(minor)?)
}
