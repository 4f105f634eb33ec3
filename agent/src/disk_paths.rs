//! Several ways to one disk (multipath): what tells that two block devices are
//! the same one.
//!
//! The ramdisk has no multipathd, which would group them by a database of
//! vendors. Any path of a disk that is active reads and writes it; one is used,
//! and the others must not be taken for further disks.

use crate::sysfs;
use crate::system_path::SystemPath;

/// The same for all paths of a disk, and for no other disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedIdentity {
    /// The logical unit's world-wide name as the kernel has it: `naa.6001405...`
    pub wwid: String,
    /// Units of 512 bytes, and the model: there are bridges that give every
    /// disk behind them the same name.
    size: u64,
    model: Option<String>,
}

/// The identity of the disk behind a block device, by its directory in
/// /sys/devices. `None` if it has no name that can be relied on: USB bridges are
/// known for names that are those of the bridge.
pub fn identity(block: &SystemPath) -> Option<SharedIdentity> {
    let by_usb = block.as_path().components().any(|part| {
        let part = part.as_os_str().to_string_lossy();
        part.strip_prefix("usb")
            .is_some_and(|number| number.bytes().next().is_some_and(|b| b.is_ascii_digit()))
    });
    if by_usb {
        return None;
    }
    let text = |attribute: &str| sysfs::text(&block.join(attribute));
    Some(SharedIdentity {
        // SCSI, else NVMe without multipath of its own.
        wwid: text("device/wwid").or_else(|| text("wwid"))?,
        size: sysfs::number(&block.join("size")).filter(|&size| size > 0)?,
        model: text("device/model"),
    })
}

/// Whether reads and writes by this path are answered (SCSI: the device's state
/// and that of its target port group, SPC-4, 5.15.2.4; NVMe: the controller's).
pub fn is_active(block: &SystemPath) -> bool {
    let text = |attribute: &str| sysfs::text(&block.join(attribute));
    let state = text("device/state");
    let access = text("device/access_state");
    state.is_none_or(|state| matches!(state.as_str(), "running" | "live"))
        && access.is_none_or(|access| access.starts_with("active"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys_tree::plant;

    #[test]
    fn equal_names_sizes_and_models_are_one_disk() {
        let disk = |directory: &str, wwid: &str, size: &str| {
            format!(
                "{directory}/size = {size}\\n\n{directory}/device/model = LUN\\n\n{directory}/device/wwid = {wwid}\\n\n"
            )
        };
        let root = plant(
            &[
                disk("sys/devices/pci0/host1/block/sda", "naa.600", "2048"),
                disk("sys/devices/pci0/host2/block/sdb", "naa.600", "2048"),
                disk("sys/devices/pci0/host2/block/sdc", "naa.600", "4096"),
                disk("sys/devices/pci0/host2/block/sdd", "naa.601", "2048"),
                disk("sys/devices/pci0/usb3/3-1/block/sde", "naa.600", "2048"),
                disk("sys/devices/pci0/host2/block/sdf", "naa.600", "0"),
            ]
            .concat(),
        );
        let of = |path: &str| identity(&root.path().join("sys/devices/pci0").join(path));
        let first = of("host1/block/sda").unwrap();
        assert_eq!(first.wwid, "naa.600");
        assert_eq!(Some(first.clone()), of("host2/block/sdb"));
        assert_ne!(Some(first.clone()), of("host2/block/sdc"));
        assert_ne!(Some(first), of("host2/block/sdd"));
        assert_eq!(of("usb3/3-1/block/sde"), None);
        assert_eq!(of("host2/block/sdf"), None);
    }

    #[test]
    fn standby_paths_are_not_active() {
        for (state, access, expected) in [
            ("running", "active/optimized", true),
            ("running", "active/non-optimized", true),
            ("running", "standby", false),
            ("offline", "active/optimized", false),
            ("live", "", true),
        ] {
            let root = plant(&format!(
                "sys/block/sda/device/state = {state}\\n\nsys/block/sda/device/access_state = {access}\\n"
            ));
            let found = is_active(&root.path().join("sys/block/sda"));
            assert_eq!(found, expected, "{state} {access}");
        }
    }
}
