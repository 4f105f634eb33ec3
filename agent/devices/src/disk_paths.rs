//! Multipath: finds out whether two block devices are paths to the same disk.
//!
//! The ramdisk has no multipathd, which groups paths by a database of vendors. Any
//! active path can read and write the disk. The agent uses one of the paths, and must
//! not count the others as further disks.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// Equal for all paths of a disk, and different for any other disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedIdentity {
    /// The logical unit's world-wide name as the kernel reports it:
    /// `naa.6001405...`
    pub wwid: String,
    /// In units of 512 bytes. Two paths lead to one disk only if the size, the model
    /// and the serial number are equal as well, because some bridges give the same
    /// name to every disk behind them.
    size: u64,
    model: Option<String>,
    serial: Option<Vec<u8>>,
}

/// The identity of the disk behind a block device. `block` is the device's directory
/// in /sys/devices.
///
/// `None` if the disk has no reliable name. Some USB bridges report their own name, and
/// some cheap SATA disks report a name that all disks of a series share. A SATA disk
/// also has only one port, so it never has several paths.
pub fn identity(block: &SystemPath) -> Option<SharedIdentity> {
    if sysfs::is_on_usb(block.as_path()) {
        return None;
    }
    let text = |attribute: &str| sysfs::text(&block.join(attribute));
    // libata, and the translation in a SAS controller, report this vendor for a SATA
    // disk (SAT, 10.3.2).
    if text("device/vendor").is_some_and(|vendor| vendor == "ATA") {
        return None;
    }
    // SCSI disks have `device/wwid`; NVMe disks without native multipath have `wwid`.
    let wwid = text("device/wwid").or_else(|| text("wwid"))?;
    if !names_something(&wwid) {
        return None;
    }
    Some(SharedIdentity {
        wwid,
        size: sysfs::number(&block.join("size")).filter(|&size| size > 0)?,
        model: text("device/model"),
        // `vpd_pg80` is the serial number of a SCSI unit, which is the same on every path
        // (SPC-4, 7.8.18). `serial` is the serial number of an NVMe disk.
        serial: sysfs::bytes(&block.join("device/vpd_pg80"))
            .or_else(|| text("device/serial").map(String::into_bytes)),
    })
}

/// Whether the number in the name has a digit other than 0. A disk that has no name of
/// its own reports only zeros.
fn names_something(wwid: &str) -> bool {
    let number = wwid.split_once('.').map_or(wwid, |(_, number)| number);
    number.chars().any(|c| c != '0' && !c.is_whitespace())
}

/// Whether the disk answers reads and writes on this path. For SCSI this is the state of
/// the device and of its target port group (SPC-4, 5.15.2.4), for NVMe the state of the
/// controller. A path whose state is unknown counts as active.
pub fn is_active(block: &SystemPath) -> bool {
    let text = |attribute: &str| sysfs::text(&block.join(attribute));
    let state = text("device/state");
    let access = text("device/access_state");
    state.is_none_or(|state| matches!(state.as_str(), "running" | "live"))
        && access.is_none_or(|access| access.starts_with("active"))
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

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
                disk("sys/devices/pci0/usb3hub/3-1/block/sdg", "naa.600", "2048"),
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
        // The directory of a USB bus is `usb` and a number, so `usb3hub` is no USB bus.
        assert!(of("usb3hub/3-1/block/sdg").is_some());
    }

    /// Cloned disks, disks behind a bridge and cheap disks may share a name. They must
    /// not count as one disk, because the agent could then write to the wrong disk.
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
        for identifier in [
            "naa.",
            "naa.0",
            "naa.0000000000000000",
            "eui.0000000000000000",
            "0",
        ] {
            assert_eq!(scsi(identifier, "vendor = LIO"), None, "{identifier}");
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
