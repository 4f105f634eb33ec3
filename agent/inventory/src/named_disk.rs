//! Finds the disk that an operator names by a path: a device node, or a link below
//! /dev/disk that udev would create. There is no udev in the ramdisk, so the agent
//! computes the links from the inventory.

use landfall_devices::boot_medium;
use landfall_devices::driver_faults::{self, DriverFault, Purpose};
use landfall_report::failure::{Failure, Result};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::report_types::Disk;
use super::udev_properties;

/// The maximum number of disks in an error. A disk shelf has more disks than anybody
/// would read.
const LISTED: usize = 16;

/// The directories whose links name disks. The links in the other directories name
/// file systems and partitions.
const OF_DISKS: [&str; 2] = ["/dev/disk/by-id/", "/dev/disk/by-path/"];

/// The disk with this name among `disks`, which were found below `root`.
///
/// # Errors
/// If the path names no disk, several disks, or a disk that the agent may not write to.
/// An error for an unknown name lists the disks of the machine.
pub fn find<'a>(root: &SystemPath, path: &str, disks: &'a [Disk]) -> Result<&'a Disk> {
    if let Some(kind) = other_links(path) {
        let expected = OF_DISKS.join("... or ");
        return Err(Failure::device_not_found(format!(
            "{path}: {kind} names no disk, expected a device node, {expected}..."
        )));
    }
    let is_link = path.starts_with("/dev/disk/");
    // If a disk has several paths, an operator may name any of them. `Disk::name` is only
    // the path that the agent uses.
    let is_named = |disk: &&Disk| match is_link {
        true => {
            let links = udev_properties::links(root, disk);
            let mut names = links.iter().chain(&disk.traits.by_paths);
            names.any(|name| name == path)
        }
        false => {
            let mut others = disk.traits.other_paths.iter();
            disk.name == path || others.any(|other| other.name == path)
        }
    };
    let named: Vec<&Disk> = disks.iter().filter(is_named).collect();
    let disk = match named[..] {
        [disk] => disk,
        [] => return Err(missing(root, path, disks, is_link)),
        [..] => {
            return Err(Failure::device_not_found(format!(
                "{path}: expected one disk of this name, found {}",
                list(root, named.into_iter(), is_link)
            ))
            .hint("name it by /dev/disk/by-path/... or by another name that only one disk has"));
        }
    };
    let Some(reason) = disk.traits.why_untouchable() else {
        return Ok(disk);
    };
    let failure = match is_link {
        true => Failure::device_not_found(format!("{path} ({}) is {reason}", disk.name)),
        false => Failure::device_not_found(format!("{path} is {reason}")),
    };
    Err(match disk.traits.boot_medium {
        Some(_) => failure.hint(boot_medium::HINT),
        None => failure,
    })
}

fn other_links(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/dev/disk/")?;
    let is_of_disks = OF_DISKS.iter().any(|place| path.starts_with(place));
    (!is_of_disks).then(|| rest.split('/').next().unwrap_or_default())
}

fn missing(root: &SystemPath, path: &str, disks: &[Disk], is_link: bool) -> Failure {
    let kernel_name = path.trim_start_matches("/dev/");
    let class = root.join("sys/class/block").join(kernel_name);
    if !is_link && sysfs::number::<u32>(&class.join("partition")).is_some() {
        return Failure::device_not_found(format!("{path} is a partition, expected a whole disk"));
    }
    if disks.is_empty() {
        let driver_faults::Reason { cause, remedy } =
            driver_faults::why_none(root, Purpose::Storage);
        return Failure::device_not_found(format!(
            "{path}: the kernel knows of no disk in this machine: {cause}"
        ))
        .hint(remedy);
    }
    let found = list(root, disks.iter(), is_link);
    let mut faults = driver_faults::all(root).into_iter();
    match faults.find(hides_disks) {
        Some(fault) => {
            let remedy = fault.remedy();
            Failure::device_not_found(format!(
                "{path}: no disk of this name, found {found}; {fault}"
            ))
            .hint(remedy)
        }
        None => Failure::device_not_found(format!("{path}: no disk of this name, found {found}")),
    }
}

/// Whether this fault may be why a disk is missing.
fn hides_disks(fault: &DriverFault) -> bool {
    fault.purpose == Purpose::Storage && fault.is_serious()
}

/// Describes the disks so that an operator can distinguish them. With `links` the text
/// includes all links of each disk, otherwise its serial number.
fn list<'a>(root: &SystemPath, disks: impl Iterator<Item = &'a Disk>, links: bool) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut left = 0;
    for disk in disks {
        if texts.len() == LISTED {
            left += 1;
            continue;
        }
        let gib = disk.size as f64 / f64::from(1 << 30);
        let model = disk.model.as_deref().unwrap_or("no model");
        let mut text = format!("{} ({gib:.1} GiB, {model}", disk.name);
        match links {
            true => {
                let names = udev_properties::links(root, disk);
                let names = names
                    .iter()
                    .map(|name| name.trim_start_matches("/dev/disk/"));
                text.extend(names.flat_map(|name| [", ", name]));
            }
            false => {
                text += ", serial ";
                text += disk.serial.as_deref().unwrap_or("unknown");
            }
        }
        texts.push(text + ")");
    }
    if left > 0 {
        texts.push(format!("{left} more"));
    }
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks;
    use crate::sys_tree::{captured, plant};

    /// The device node of the disk that the operator's path names on a captured
    /// machine, or the details of the error.
    fn found(tree: &str, path: &str) -> std::result::Result<String, String> {
        let root = captured(tree);
        let disks = disks::collect(root.path());
        match find(root.path(), path, &disks) {
            Ok(disk) => Ok(disk.name.clone()),
            Err(failure) => Err(failure.details),
        }
    }

    #[test]
    fn nodes_and_links_name_disks() {
        const NVME: &str = "20-q35-nvme-ids";
        for (path, name) in [
            ("/dev/nvme0n1", "/dev/nvme0n1"),
            (
                "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_S4EV_NX0_1234_2",
                "/dev/nvme0n2",
            ),
            ("/dev/disk/by-id/nvme-eui.0025385a11b2c3d4", "/dev/nvme0n1"),
        ] {
            assert_eq!(found(NVME, path).as_deref(), Ok(name));
        }
        let shared = found(NVME, "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_S4EV_NX0_1234").unwrap_err();
        assert!(
            shared.contains("expected one disk of this name, found /dev/nvme0n1 (")
                && shared.contains("; /dev/nvme0n2 ("),
            "{shared}"
        );
    }

    /// The inventory has already merged the paths of one disk. So two disks with the same
    /// name are different disks, and choosing the wrong one would destroy its data.
    #[test]
    fn twins_behind_bridges_are_not_chosen_among() {
        const NAMES: &str =
            r"device/vpd_pg83 = \x00\x83\x00\x0c\x01\x03\x00\x08\x50\x00\x00\x00\x00\x00\x00\x01";
        let bridge = |port: u32, disk: &str, minor: u32| {
            let place = format!("sys/devices/pci0000:00/usb{port}/host{port}/block/{disk}");
            format!(
                "sys/block/{disk} -> ../devices/pci0000:00/usb{port}/host{port}/block/{disk}\n\
                 {place}/dev = 8:{minor}\\n\n{place}/size = 16777216\\n\n{place}/{NAMES}\n\
                 {place}/device/subsystem -> /bus/scsi\n"
            )
        };
        let root = plant(&[bridge(1, "sda", 0), bridge(2, "sdb", 16)].concat());
        let disks = disks::collect(root.path());
        assert_eq!(disks.len(), 2);
        let link = "/dev/disk/by-id/wwn-0x5000000000000001";
        let details = find(root.path(), link, &disks).unwrap_err().details;
        assert!(
            details.contains("expected one disk of this name"),
            "{details}"
        );
    }

    /// The second path is not a separate disk: its name also finds the disk.
    #[test]
    fn every_path_names_the_disk() {
        let path = |port: u32, disk: &str, minor: u32| {
            let place = format!("sys/devices/pci0000:00/0000:00:0{port}.0/host{port}/block/{disk}");
            format!(
                "sys/block/{disk} -> ../devices/pci0000:00/0000:00:0{port}.0/host{port}/block/{disk}\n\
                 {place}/dev = 8:{minor}\\n\n{place}/size = 16777216\\n\n\
                 {place}/device/wwid = naa.600\\n\n{place}/device/model = LUN\\n\n"
            )
        };
        let root = plant(&[path(1, "sda", 0), path(2, "sdb", 16)].concat());
        let disks = disks::collect(root.path());
        assert_eq!(disks.len(), 1);
        for name in ["/dev/sda", "/dev/sdb"] {
            assert_eq!(find(root.path(), name, &disks).unwrap().name, "/dev/sda");
        }
        assert!(find(root.path(), "/dev/sdc", &disks).is_err());
        let mut disks = disks;
        let link = "/dev/disk/by-path/pci-0000:00:02.0-fc-0x5-lun-0";
        disks[0].traits.by_paths.push(link.to_owned());
        assert_eq!(find(root.path(), link, &disks).unwrap().name, "/dev/sda");
    }

    #[test]
    fn a_rejection_lists_the_disks() {
        const SCSI: &str = "scsi-uefi-2nic";
        let details = found(SCSI, "/dev/vda").unwrap_err();
        assert!(
            details.starts_with("/dev/vda: no disk of this name, found /dev/sda ("),
            "{details}"
        );
        let details = found(SCSI, "/dev/disk/by-id/wwn-0x5").unwrap_err();
        assert!(details.contains(", by-id/scsi-"), "{details}");
        assert!(details.contains(", by-path/pci-"), "{details}");
        let details = found(SCSI, "/dev/disk/by-label/boot").unwrap_err();
        assert!(details.contains("by-label names no disk"), "{details}");
        let details = found("nodisk-bios", "/dev/sda").unwrap_err();
        assert!(details.contains("no disk in this machine"), "{details}");
    }

    #[test]
    fn a_controller_without_a_driver_is_named() {
        let device = "sys/bus/pci/devices/0000:00:1f.2";
        let modalias = "pci:v00008086d00002922sv00001AF4sd00001100bc01sc06i01";
        let root = plant(&format!(
            "{device}/class = 0x010601\\n\n{device}/vendor = 0x8086\\n\n\
             {device}/device = 0x2922\\n\n{device}/modalias = {modalias}\\n\n"
        ));
        let failure = find(root.path(), "/dev/sda", &[]).unwrap_err();
        assert_eq!(
            failure.details,
            "/dev/sda: the kernel knows of no disk in this machine: no driver for storage \
             controller 0000:00:1f.2 (PCI ID 8086:2922)"
        );
        let hint = failure.hint.unwrap();
        assert!(hint.contains("complete kernel"), "{hint}");

        // The controller is not mentioned if the machine has disks: many virtual machines
        // have a SATA controller without any disk.
        let disks = disks::collect(captured("scsi-uefi-2nic").path());
        let failure = find(root.path(), "/dev/vda", &disks).unwrap_err();
        assert!(!failure.details.contains("no driver"), "{failure}");
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn partitions_and_read_only_disks_are_rejected() {
        let root = plant(
            "sys/block/sda/dev = 8:0\\n\nsys/block/sda/size = 16777216\\n\nsys/block/sda/ro = 1\\n\n\
             sys/class/block/sda1/partition = 1\\n",
        );
        let disks = disks::collect(root.path());
        let details = |path| find(root.path(), path, &disks).unwrap_err().details;
        assert_eq!(
            details("/dev/sda1"),
            "/dev/sda1 is a partition, expected a whole disk"
        );
        assert_eq!(details("/dev/sda"), "/dev/sda is read-only");
    }
}
