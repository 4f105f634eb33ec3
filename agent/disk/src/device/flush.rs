//! Flushes all disks of the machine.

use std::fs::{self, File};
use std::path::Path;

use landfall_report::failure::{Failure, Result};
use landfall_sys::block_ioctl;
use nix::errno::Errno;

/// Writes all cached data to the disks, and drops the kernel's caches of every
/// disk, because the next reader of a disk may be another machine's firmware.
///
/// # Errors
/// If /sys/block cannot be read, or flushing a disk fails. If a disk cannot be opened,
/// the function only logs a warning.
pub fn sync_disks() -> Result<()> {
    nix::unistd::sync();
    if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
        tracing::warn!("cannot write to /proc/sys/vm/drop_caches: {error}; the page cache stays");
    }
    let disks = fs::read_dir("/sys/block").map_err(|error| fault("/sys/block", &error))?;
    for disk in disks.flatten() {
        // Virtual disks (loop, ram, zram) have no `device` in sysfs.
        if !disk.path().join("device").exists() {
            continue;
        }
        // With NVMe multipath, each path to a disk (nvme0c0n1) is listed too, but only
        // the disk itself has a device node.
        let hidden = fs::read_to_string(disk.path().join("hidden"));
        if hidden.is_ok_and(|hidden| hidden.trim() == "1") {
            continue;
        }
        let node = Path::new("/dev").join(disk.file_name());
        let device = match File::open(&node) {
            Ok(device) => device,
            // An empty drive has nothing to flush.
            Err(error) if error.raw_os_error() == Some(Errno::ENOMEDIUM as i32) => continue,
            Err(error) => {
                tracing::warn!("cannot open {}: {error}; it is not flushed", node.display());
                continue;
            }
        };
        block_ioctl::flush_buffers(&device)
            .map_err(|error| fault(&node.display().to_string(), &error))?;
    }
    Ok(())
}

fn fault(what: &str, error: &std::io::Error) -> Failure {
    Failure::other(format!("cannot flush the disks: {what}: {error}"))
}
