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
    /// Units of 512 bytes, the model and the number of the unit: there are
    /// bridges that give every disk behind them the same name.
    size: u64,
    model: Option<String>,
    serial: Option<Vec<u8>>,
}

/// The identity of the disk behind a block device, by its directory in
/// /sys/devices. `None` if it has no name that can be relied on: USB bridges are
/// known for names that are those of the bridge, cheap SATA disks for names that
/// a whole series of them has. A SATA disk has one port anyway.
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
    // What both libata and the translation of a SAS controller say (SAT, 10.3.2).
    if text("device/vendor").is_some_and(|vendor| vendor == "ATA") {
        return None;
    }
    // SCSI, else NVMe without multipath of its own.
    let wwid = text("device/wwid").or_else(|| text("wwid"))?;
    if !names_something(&wwid) {
        return None;
    }
    Some(SharedIdentity {
        wwid,
        size: sysfs::number(&block.join("size")).filter(|&size| size > 0)?,
        model: text("device/model"),
        // The unit's own (SPC-4, 7.8.18), by every path the same; NVMe's.
        serial: sysfs::bytes(&block.join("device/vpd_pg80"))
            .or_else(|| text("device/serial").map(String::into_bytes)),
    })
}

/// Not only zeros, as in a disk that nobody has given a name.
fn names_something(wwid: &str) -> bool {
    let number = wwid.split_once('.').map_or(wwid, |(_, number)| number);
    number.chars().any(|c| c != '0' && !c.is_whitespace())
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

    /// Names that clones, bridges and cheap disks share must not make one disk of
    /// two: the wrong one would be written.
    #[test]
    fn other_disks_with_the_same_name_are_others() {
        let of = |lines: &str| {
            let root = plant(&format!(
                "sys/block/sda/size = 2048\\n\nsys/block/sda/device/model = D\\n\n{lines}"
            ));
            identity(&root.path().join("sys/block/sda"))
        };
        let scsi = |wwid: &str, rest: &str| {
            of(&format!(
                "sys/block/sda/device/wwid = {wwid}\\n\nsys/block/sda/device/{rest}\\n"
            ))
        };
        let number = |last: &str| scsi("naa.600", &format!(r"vpd_pg80 = \x00\x80\x00\x02A{last}"));
        assert!(number("1").is_some());
        assert_eq!(number("1"), number("1"));
        assert_ne!(number("1"), number("2"));
        for nobody in [
            "naa.",
            "naa.0",
            "naa.0000000000000000",
            "eui.0000000000000000",
            "0",
        ] {
            assert_eq!(scsi(nobody, "vendor = LIO"), None, "{nobody}");
        }
        assert!(scsi("t10.LIO 0", "vendor = LIO").is_some());
        let cheap = "naa.5000000000000000";
        assert_eq!(scsi(cheap, "vendor = ATA     "), None);
        let nvme = |serial: &str| {
            of(&format!(
                "sys/block/sda/wwid = eui.01\\n\nsys/block/sda/device/serial = {serial}\\n"
            ))
        };
        assert_eq!(nvme("1"), nvme("1"));
        assert_ne!(nvme("1"), nvme("2"));
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
