//! Mounts the file systems that every program expects to find.

use std::fs;
use std::path::Path;

use landfall_sys::mount::mount_at;
use nix::mount::MsFlags;

/// Mounts /proc, /sys, /dev, /run. Returns the faults; the caller reports them once there
/// is a console.
pub(super) fn mount_all() -> Vec<String> {
    let hardened = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    let mut faults = Vec::new();
    for (target, fstype, flags, data) in [
        ("/proc", "proc", hardened, None),
        ("/sys", "sysfs", hardened, None),
        (
            "/dev",
            "devtmpfs",
            MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
            Some("mode=0755"),
        ),
        // The agent stores the body of a running command in /run. 64 MB are enough for
        // the largest body, which has a config drive (agent/src/api/body.rs).
        ("/run", "tmpfs", hardened, Some("mode=0755,size=64m")),
    ] {
        let mounted = fs::create_dir_all(target)
            .and_then(|()| mount_at(Path::new(fstype), Path::new(target), fstype, flags, data));
        if let Err(error) = mounted
            // EBUSY: a kernel with DEVTMPFS_MOUNT has mounted /dev itself.
            && error.raw_os_error() != Some(nix::errno::Errno::EBUSY as i32)
        {
            faults.push(format!("cannot mount {fstype} on {target}: {error}"));
        }
    }
    // By default, the kernel accepts only 10 lines in 5 s from a program that writes to
    // /dev/kmsg, and drops the rest of our log.
    if let Err(error) = fs::write("/proc/sys/kernel/printk_devkmsg", "on\n") {
        faults.push(format!(
            "cannot write to /proc/sys/kernel/printk_devkmsg: {error}; the kernel drops log lines"
        ));
    }
    faults
}

/// Mounts efivarfs if the firmware is UEFI. mount(2) loads the module efivarfs through
/// [`super::modprobe`], which must be registered first. efivarfs depends on no other
/// driver.
pub(super) fn mount_efivarfs() {
    let target = Path::new("/sys/firmware/efi/efivars");
    if !target.exists() {
        return;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    if let Err(error) = mount_at(Path::new("efivarfs"), target, "efivarfs", flags, None) {
        tracing::warn!(
            "cannot mount efivarfs on {}: {error}; the boot order cannot be changed in this boot",
            target.display()
        );
    }
}
