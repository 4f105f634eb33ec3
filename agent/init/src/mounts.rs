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
        // 64 MB are enough for a request with a config drive, which the agent keeps
        // (see api/routes.rs).
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
    // Without this setting the kernel drops all but 10 of our log lines in 5 s.
    if let Err(error) = fs::write("/proc/sys/kernel/printk_devkmsg", "on\n") {
        faults.push(format!(
            "cannot write to /proc/sys/kernel/printk_devkmsg: {error}; the kernel drops log lines"
        ));
    }
    faults
}

/// Mounts efivarfs if the firmware is UEFI. mount(2) loads the module through
/// [`super::modprobe`], which must be registered first. No other driver is needed.
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
