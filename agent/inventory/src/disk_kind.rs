//! Decides which block devices are disks. Makes the same choice as Ironic's agent, which
//! uses lsblk's TYPE, except for flash chips.

use landfall_devices::block_graph;

use super::sysfs;
use super::system_path::SystemPath;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoDisk {
    /// There is no medium, or the device was never set up.
    Empty,
    /// One of several paths to an NVMe disk; the disk itself is listed.
    HiddenPath,
    /// One of several paths to this device-mapper disk.
    PathOf(String),
    /// Memory of the machine, or a flash chip of the board.
    Memory,
    Floppy,
    /// Another type, in lsblk's words: `rom`, `loop`, `lvm`, `crypt`.
    Type(String),
}

impl std::fmt::Display for NoDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("no medium: its size is zero"),
            Self::HiddenPath => f.write_str("a path to an NVMe disk that has its own entry"),
            Self::PathOf(disk) => write!(f, "a path to the multipath disk {disk}"),
            Self::Memory => f.write_str("memory or a flash chip, not a disk"),
            Self::Floppy => f.write_str("a floppy drive"),
            Self::Type(name) => write!(f, "of type {name}, not a disk"),
        }
    }
}

/// The reason why this block device is not listed; `None` if it is a disk. `block` is its
/// directory in /sys. `size` may be in any unit, because only zero matters.
pub fn why_no_disk(block: &SystemPath, name: &str, size: u64) -> Option<NoDisk> {
    if sysfs::flag(&block.join("hidden")) {
        return Some(NoDisk::HiddenPath);
    }
    if is_numbered(name, "fd") {
        return Some(NoDisk::Floppy);
    }
    // Unlike Ironic's agent, Landfall does not list flash chips: an image written
    // over the firmware would destroy the machine.
    if ["ram", "zram", "mtdblock"]
        .iter()
        .any(|prefix| is_numbered(name, prefix))
    {
        return Some(NoDisk::Memory);
    }
    let kind = lsblk_type(block, name);
    if !(kind == "disk" || kind == "mpath" || kind.contains("raid")) {
        return Some(NoDisk::Type(kind));
    }
    if size == 0 {
        return Some(NoDisk::Empty);
    }
    block_graph::holders(block)
        .unwrap_or_default()
        .into_iter()
        .find(|holder| lsblk_type(&block.join("/sys/block").join(holder), holder) == "mpath")
        .map(NoDisk::PathOf)
}

/// `loop0` matches `loop`, but `srv0` does not match `sr`.
fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// lsblk's TYPE of a whole device (util-linux, `get_type` of lsblk.c).
fn lsblk_type(block: &SystemPath, name: &str) -> String {
    let attribute = |attribute: &str| sysfs::text(&block.join(attribute));
    let kind = if name.starts_with("dm-") {
        // The UUID of a device-mapper device begins with a text for the program that made
        // the device: LVM-..., mpath-... or part1-mpath-...
        let owner = attribute("dm/uuid").map(|uuid| match uuid.split('-').next() {
            Some(owner) if owner.to_lowercase().starts_with("part") => "part".to_owned(),
            owner => owner.unwrap_or_default().to_owned(),
        });
        owner.unwrap_or_else(|| "dm".into())
    } else if name.starts_with("loop") {
        "loop".into()
    } else if name.starts_with("md") {
        attribute("md/level").unwrap_or_else(|| "md".into())
    } else {
        scsi_type(sysfs::number(&block.join("device/type"))).into()
    };
    kind.to_lowercase()
}

/// util-linux's names of the peripheral device types (SPC-4, table 141).
fn scsi_type(number: Option<u32>) -> &'static str {
    match number {
        Some(0x01) => "tape",
        Some(0x02) => "printer",
        Some(0x03) => "processor",
        Some(0x04) => "worm",
        Some(0x05) => "rom",
        Some(0x06) => "scanner",
        Some(0x07) => "mo-disk",
        Some(0x08) => "changer",
        Some(0x09) => "comm",
        Some(0x0c) => "raid",
        Some(0x0d) => "enclosure",
        Some(0x0e) => "rbc",
        Some(0x11) => "osd",
        Some(0x7f) => "no-lun",
        // On other buses `type` is a word (`SD` on mmc). Their devices are disks as well.
        _ => "disk",
    }
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    fn why(name: &str, lines: &str) -> Option<String> {
        let root = plant(lines);
        let block = root.path().join("sys/block").join(name);
        why_no_disk(&block, name, 8).map(|reason| reason.to_string())
    }

    #[test]
    fn types_are_lsblks() {
        for (name, lines, expected) in [
            ("sda", "", None),
            ("sda", "sys/block/sda/device/type = 0\\n", None),
            ("mmcblk0", "sys/block/mmcblk0/device/type = SD\\n", None),
            ("mmcblk0boot0", "", None),
            ("srv0", "", None),
            ("nbd0", "", None),
            ("sr0", "sys/block/sr0/device/type = 5\\n", Some("rom")),
            ("sda", "sys/block/sda/device/type = 14\\n", Some("rbc")),
            ("loop7", "", Some("loop")),
            ("md127", "sys/block/md127/md/level = raid1\\n", None),
            ("md0", "sys/block/md0/md/level = raid10\\n", None),
            ("md0", "sys/block/md0/md/level = linear\\n", Some("linear")),
            (
                "md127",
                "sys/block/md127/md/level = container\\n",
                Some("container"),
            ),
            ("md0", "sys/block/md0/md/level = \\n", Some("md")),
            ("dm-0", "sys/block/dm-0/dm/uuid = LVM-x\\n", Some("lvm")),
            (
                "dm-0",
                "sys/block/dm-0/dm/uuid = CRYPT-LUKS2-x\\n",
                Some("crypt"),
            ),
            ("dm-0", "sys/block/dm-0/dm/uuid = mpath-36001405\\n", None),
            (
                "dm-1",
                "sys/block/dm-1/dm/uuid = part1-mpath-36001405\\n",
                Some("part"),
            ),
            ("dm-0", "sys/block/dm-0/dm/uuid = DMRAID-isw_x\\n", None),
            ("dm-0", "", Some("dm")),
        ] {
            let expected = expected.map(|kind| format!("of type {kind}, not a disk"));
            assert_eq!(why(name, lines), expected, "{name} {lines}");
        }
    }

    #[test]
    fn some_disks_are_none() {
        for (name, lines, expected) in [
            ("fd0", "", "a floppy drive"),
            ("ram3", "", "memory or a flash chip, not a disk"),
            ("zram0", "", "memory or a flash chip, not a disk"),
            ("mtdblock0", "", "memory or a flash chip, not a disk"),
            (
                "nvme0c1n1",
                "sys/block/nvme0c1n1/hidden = 1\\n",
                "a path to an NVMe disk that has its own entry",
            ),
            (
                "sdb",
                "sys/block/sdb/holders/dm-4/\nsys/block/dm-4/dm/uuid = mpath-36001405\\n",
                "a path to the multipath disk dm-4",
            ),
        ] {
            assert_eq!(why(name, lines).as_deref(), Some(expected), "{name}");
        }
        let lvm = "sys/block/sdb/holders/dm-4/\nsys/block/dm-4/dm/uuid = LVM-x\\n";
        assert_eq!(why("sdb", lvm), None, "a disk that LVM uses is a disk");
        let reader = plant("");
        assert_eq!(
            why_no_disk(&reader.path().join("sys/block/sdc"), "sdc", 0),
            Some(NoDisk::Empty)
        );
    }
}
