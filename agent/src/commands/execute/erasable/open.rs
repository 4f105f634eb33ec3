//! Opens a disk to erase it, if it still is the disk that was listed.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use landfall_devices::identity::Identity;
use landfall_devices::permission::WritePermission;
use landfall_disk::device::busy::KernelView;
use landfall_disk::device::device_mapper;
use landfall_disk::device::target::Target;
use landfall_report::failure::{Class, Failure, Result};

use super::Erasable;

/// How long to retry while another program, such as udev or a probe, has the disk open.
const OPEN_LIMIT: Duration = Duration::from_secs(20);
const OPEN_PAUSE: Duration = Duration::from_secs(1);

impl Erasable {
    /// Deactivates the devices that a live system has built on the disk. Call this only
    /// for a disk without an obstacle, because then all these devices use only erasable
    /// disks.
    ///
    /// # Errors
    /// If a device cannot be deactivated, if the identity of the listed disk is not
    /// known, or if another disk now has its name.
    pub fn release(&self, permission: &WritePermission) -> Result<()> {
        self.identity()?.refuse_other_name(&self.disk)?;
        device_mapper::release(&self.disk, permission)
    }

    /// Opens the disk or one of its partitions, see [`open_when_free`]. A clean step
    /// writes only to targets that this function has returned.
    ///
    /// # Errors
    /// See [`open_when_free`]. Also if the identity of the listed disk is not known, if
    /// another disk now has its name, or if the inventory counts two disks as one because
    /// they have the same identity.
    pub fn open(&self, path: &Path, permission: &WritePermission) -> Result<Target> {
        let identity = self.identity()?;
        // Check the name first: if another disk now has it and is busy, the agent must
        // not wait for that disk.
        identity.refuse_other_name(path)?;
        let target = open_when_free(path, permission)?.only_proven_paths();
        target.refuse_other(identity)?;
        target.refuse_namesake()?;
        Ok(target)
    }

    /// The identity of the disk at the time when it was listed.
    pub fn identity(&self) -> Result<Identity> {
        self.identity.ok_or_else(|| {
            Failure::erasure(
                "it was not erased, because the kernel does not give its device number",
            )
        })
    }
}

/// Opens a disk or partition. If another program has it open, waits for that program to
/// close it.
///
/// # Errors
/// If another program still has the device open after 20 s, if the device is mounted or
/// held by another device, or if the open fails for another reason.
fn open_when_free(path: &Path, permission: &WritePermission) -> Result<Target> {
    let end = Instant::now() + OPEN_LIMIT;
    let mut is_reported = false;
    loop {
        match Target::open_disk_or_partition(path, permission) {
            Err(failure)
                if failure.class == Class::BlockDeviceError
                    && Instant::now() < end
                    && !has_lasting_use(path) =>
            {
                if !is_reported {
                    tracing::info!("{failure}; waiting for it");
                    is_reported = true;
                }
                thread::sleep(OPEN_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Whether the kernel reports a use that does not end by itself: a mount, swap, or a
/// device on top.
fn has_lasting_use(path: &Path) -> bool {
    let kernel = KernelView::default();
    let uses = { kernel.device_at(path) }.and_then(|device| kernel.uses(&device));
    uses.is_ok_and(|uses| !uses.is_empty())
}
