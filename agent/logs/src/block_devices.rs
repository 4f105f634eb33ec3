//! `lsblk` and `lsblk-full`: the block devices that the kernel has.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use landfall_devices::block_graph;
use landfall_sys::system_path::SystemPath;

/// A disk or a partition.
struct Device {
    name: String,
    path: PathBuf,
    is_partition: bool,
}

/// The disks by name, each followed by its partitions in the order of their numbers.
fn devices(sys_block: &Path) -> Vec<Device> {
    let mut devices = Vec::new();
    for name in names(sys_block) {
        let path = sys_block.join(&name);
        let partitions = block_graph::partitions(&SystemPath::live().join(&path));
        devices.push(Device {
            name,
            path,
            is_partition: false,
        });
        devices.extend(
            partitions
                .readable
                .into_iter()
                .map(|(_, directory)| Device {
                    name: directory.name().unwrap_or_default().to_owned(),
                    path: directory.as_path().to_owned(),
                    is_partition: true,
                }),
        );
    }
    devices
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

impl Device {
    fn attribute(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path.join(name)).unwrap_or_default();
        text.trim().to_owned()
    }

    /// An attribute from the directory of the disk, or else from its link `device`,
    /// because each driver has its own place. `serial` is in the directory for virtio,
    /// and in `device` (the controller) for NVMe. `wwid` is in the directory for NVMe,
    /// and in `device` for SCSI.
    fn either(&self, name: &str) -> String {
        match self.attribute(name) {
            empty if empty.is_empty() => self.attribute(&format!("device/{name}")),
            found => found,
        }
    }

    /// /sys counts in sectors of 512 bytes, whatever the disk's sector size is.
    fn bytes(&self) -> u64 {
        self.attribute("size").parse().unwrap_or(0) * 512
    }

    fn kind(&self) -> &'static str {
        if self.is_partition {
            "part"
        } else if self.name.starts_with("sr") {
            "rom"
        } else if self.name.starts_with("loop") {
            "loop"
        } else if self.name.starts_with("md") {
            "raid"
        } else {
            "disk"
        }
    }

    /// The names of the devices on top of this one, such as RAID arrays and device-mapper
    /// devices, separated by commas.
    fn holders(&self) -> String {
        names(&self.path.join("holders")).join(",")
    }
}

/// The devices as a table for people.
pub(super) fn lsblk(sys_block: &Path) -> String {
    let mut out = format!(
        "{:<14} {:>7} {:>16} {:>2} {:<5} HOLDERS MODEL\n",
        "KNAME", "MAJ:MIN", "SIZE", "RO", "TYPE"
    );
    for device in devices(sys_block) {
        let branch = if device.is_partition { "`-" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<14} {:>7} {:>16} {:>2} {:<5} {} {}",
            format!("{branch}{}", device.name),
            device.attribute("dev"),
            device.bytes(),
            device.attribute("ro"),
            device.kind(),
            device.holders(),
            device.attribute("device/model"),
        );
    }
    out
}

/// The devices as `KEY="value"` pairs for programs, one device per line.
pub(super) fn lsblk_full(sys_block: &Path) -> String {
    let mut out = String::new();
    for device in devices(sys_block) {
        let uevent = device.attribute("uevent");
        let of_uevent = |key: &str| {
            let value = uevent
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            value.unwrap_or_default().to_owned()
        };
        let pairs = [
            ("KNAME", device.name.clone()),
            ("MAJ:MIN", device.attribute("dev")),
            ("SIZE", device.bytes().to_string()),
            ("RO", device.attribute("ro")),
            ("RM", device.attribute("removable")),
            ("TYPE", device.kind().to_owned()),
            ("ROTA", device.attribute("queue/rotational")),
            ("LOG-SEC", device.attribute("queue/logical_block_size")),
            ("PHY-SEC", device.attribute("queue/physical_block_size")),
            ("VENDOR", device.attribute("device/vendor")),
            ("MODEL", device.attribute("device/model")),
            ("SERIAL", device.either("serial")),
            ("WWN", device.either("wwid")),
            ("STATE", device.attribute("device/state")),
            ("PARTN", of_uevent("PARTN")),
            ("PARTLABEL", of_uevent("PARTNAME")),
            ("START", device.attribute("start")),
            ("HOLDERS", device.holders()),
        ];
        let pairs: Vec<String> = pairs
            .iter()
            .map(|(key, value)| format!("{key}={value:?}"))
            .collect();
        let _ = writeln!(out, "{}", pairs.join(" "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plant() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("sda/dev", "8:0\n"),
            ("sda/size", "2048\n"),
            ("sda/ro", "0\n"),
            ("sda/device/model", "QEMU HARDDISK   \n"),
            ("sda/holders/md127/x", ""),
            ("sda/sda1/partition", "1\n"),
            ("sda/sda1/dev", "8:1\n"),
            ("sda/sda1/size", "1024\n"),
            ("sda/sda1/uevent", "DEVNAME=sda1\nPARTN=1\nPARTNAME=root\n"),
            ("sda/device/wwid", "naa.5000c500\n"),
            ("vda/vda10/partition", "10\n"),
            ("vda/vda9/partition", "9\n"),
            ("sr0/dev", "11:0\n"),
            ("nvme0n1/wwid", "eui.0025\n"),
            ("nvme0n1/device/serial", "S4EV   \n"),
            ("vda/serial", "disk-1\n"),
        ] {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        sys
    }

    #[test]
    fn disks_come_with_their_partitions() {
        let sys = plant();
        let out = lsblk(sys.path());
        let rows: Vec<Vec<&str>> = out
            .lines()
            // After the heading and the NVMe disk.
            .skip(2)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[0],
            [
                "sda", "8:0", "1048576", "0", "disk", "md127", "QEMU", "HARDDISK"
            ]
        );
        assert_eq!(rows[1][..3], ["`-sda1", "8:1", "524288"]);
        assert_eq!(rows[2][0], "sr0");
        assert!(rows[2].contains(&"rom"));
        // The partitions are in the order of their numbers, not of their names.
        assert_eq!([rows[4][0], rows[5][0]], ["`-vda9", "`-vda10"]);
    }

    #[test]
    fn each_driver_has_its_place_for_the_serial_number() {
        let sys = plant();
        let out = lsblk_full(sys.path());
        for (name, expected) in [
            ("sda", r#"SERIAL="" WWN="naa.5000c500""#),
            ("nvme0n1", r#"SERIAL="S4EV" WWN="eui.0025""#),
            ("vda", r#"SERIAL="disk-1" WWN="""#),
            ("sda1", r#"SERIAL="" WWN="""#),
        ] {
            let start = format!("KNAME=\"{name}\"");
            let line = out.lines().find(|line| line.starts_with(&start)).unwrap();
            assert!(line.contains(expected), "{line}");
        }
    }

    #[test]
    fn pairs_are_quoted() {
        let sys = plant();
        let out = lsblk_full(sys.path());
        let partition = out.lines().find(|line| line.contains("sda1")).unwrap();
        assert!(partition.contains(r#"PARTN="1" PARTLABEL="root""#), "{out}");
        assert!(out.contains(r#"MODEL="QEMU HARDDISK""#), "{out}");
    }
}
