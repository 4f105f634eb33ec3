//! Lists the disks to which an image could be written, with the values that lsblk and
//! udev would report.

use landfall_devices::block_graph;
use landfall_devices::boot_medium::BootMedia;
use landfall_devices::identity::Identity;
use landfall_devices::whole_disk::WholeDisk;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::Warning;
use super::by_path::PathId;
use super::disk_identity::{DiskIdentity, identify};
use super::disk_kind::{NoDisk, why_no_disk};
use super::report_types::{Disk, DiskTraits, OtherPath, PartitionNode};
use super::transport::transport;

/// All disks, sorted by device number as in lsblk, because the choice takes the first
/// disk that matches the hints. The list includes disks that the agent never writes to,
/// see [`DiskTraits::why_untouchable`].
pub fn collect(root: &SystemPath) -> Vec<Disk> {
    // Read the identities first. If a disk is exchanged afterwards, its identity differs,
    // and the agent does not write to it.
    let mut devices = devices(root);
    devices.retain(|device| device.no_disk.is_none());
    let boot_media = BootMedia::look(root);
    let listed = |device: &Device| {
        let mut listed = disk(device);
        listed.traits.boot_medium = boot_media.below(&device.block).map(|(_, medium)| medium);
        listed
    };
    WholeDisk::group(devices, |device| &device.block)
        .iter()
        .map(|whole| {
            let mut disk = listed(&whole.path);
            for other in &whole.other_paths {
                add_path(&mut disk, listed(other));
            }
            disk
        })
        .collect()
}

fn add_path(disk: &mut Disk, mut other: Disk) {
    let traits = &mut disk.traits;
    traits.by_paths.append(&mut other.traits.by_paths);
    traits.partitions.append(&mut other.traits.partitions);
    traits.other_paths.push(OtherPath {
        name: other.name,
        hctl: other.hctl,
    });
}

/// A whole block device.
pub struct Device {
    /// The kernel name: `sda`.
    pub name: String,
    /// The directory in /sys/devices.
    pub block: SystemPath,
    /// In bytes.
    pub size: u64,
    /// `None` for the hidden paths of a multipath NVMe disk, which have no device
    /// number.
    pub identity: Option<Identity>,
    /// Why the device is not a disk; `None` if it is one.
    pub no_disk: Option<NoDisk>,
}

/// All whole block devices, in lsblk's order.
pub fn devices(root: &SystemPath) -> Vec<Device> {
    let directory = root.join("sys/block");
    let mut devices: Vec<(u64, Device)> = sysfs::names(&directory)
        .into_iter()
        .filter_map(|name| {
            let block = directory.join(&name).resolved()?;
            let identity = Identity::in_sysfs(&block);
            // lsblk sorts by this number, in which the minor numbers above 255 are in
            // higher bits than the major number. The hidden paths of a multipath NVMe
            // disk have no device number.
            let number = sysfs::device_number(&block).unwrap_or(u64::MAX);
            let size = sysfs::block_size(&block)?;
            let no_disk = why_no_disk(&block, &name, size);
            let device = Device {
                name,
                block,
                size,
                identity,
                no_disk,
            };
            Some((number, device))
        })
        .collect();
    devices.sort_by_key(|(number, _)| *number);
    devices.into_iter().map(|(_, device)| device).collect()
}

fn disk(device: &Device) -> Disk {
    let Device { name, block, .. } = device;
    let directory = block.join("device");
    let identity = identify(block, name);
    let hctl = hctl(&directory);
    let tran = transport(block, name, hctl.as_deref());
    let by_paths = PathId::of(block).links(name);
    let vendor = sysfs::text(&directory.join("vendor"));
    let queue = |attribute: &str| sysfs::number(&block.join("queue").join(attribute));
    Disk {
        name: format!("/dev/{name}"),
        size: device.size,
        rotational: sysfs::flag(&block.join("queue/rotational")),
        model: identity.reported_model(),
        wwn: identity.reported_wwn(),
        serial: identity.reported_serial(),
        wwn_with_extension: identity.wwn_with_extension.clone(),
        wwn_vendor_extension: identity.wwn_vendor_extension.clone(),
        hctl,
        by_path: by_paths.first().cloned(),
        logical_sectors: queue("logical_block_size").unwrap_or(512),
        physical_sectors: queue("physical_block_size").unwrap_or(512),
        traits: DiskTraits {
            identity: device.identity,
            read_only: sysfs::flag(&block.join("ro")),
            virtual_media: is_virtual_media(tran, vendor.as_deref(), identity.model.as_deref()),
            partitions: partitions(block),
            ..forms(&identity, by_paths)
        },
        tran: tran.map(str::to_owned),
        vendor,
    }
}

/// The partitions of a disk in the order of their numbers. Leaves out partitions that
/// cannot be read: the agent does not write to a disk with such a partition
/// (`obstacle.rs` of the commands, and `Target`).
pub fn partitions(block: &SystemPath) -> Vec<PartitionNode> {
    let partitions = block_graph::partitions(block).readable;
    { partitions.into_iter() }
        .filter_map(|(number, directory)| {
            Some(PartitionNode {
                number,
                size: sysfs::block_size(&directory)?,
                name: format!("/dev/{}", directory.name()?),
            })
        })
        .collect()
}

/// SCSI host, channel, target and LUN; `None` if it is not a SCSI device.
pub fn hctl(device: &SystemPath) -> Option<String> {
    let subsystem = sysfs::link_name(&device.join("subsystem"));
    if subsystem.as_deref() != Some("scsi") {
        return None;
    }
    Some(device.resolved()?.name()?.to_owned())
}

/// A warning for each disk that has several paths.
pub fn paths_to_one_disk(disks: &[Disk]) -> Vec<Warning> {
    disks
        .iter()
        .filter(|disk| !disk.traits.other_paths.is_empty())
        .map(|disk| {
            let others = disk.traits.other_paths.iter().map(|path| &*path.name);
            let names: Vec<&str> = [&*disk.name].into_iter().chain(others).collect();
            let wwn = disk.wwn_with_extension.as_ref().or(disk.wwn.as_ref());
            Warning::new(format!(
                "{} are paths of one disk (WWN {}), {} is used",
                names.join(" and "),
                wwn.map_or("not known", |wwn| wwn),
                disk.name
            ))
        })
        .collect()
}

/// Collects all forms of the disk's serial number, WWN and links, so that a
/// hint may use any of them.
fn forms(identity: &DiskIdentity, by_paths: Vec<String>) -> DiskTraits {
    let distinct = |forms: [Option<String>; 3]| {
        let mut distinct: Vec<String> = Vec::new();
        for form in forms.into_iter().flatten() {
            if !distinct.contains(&form) {
                distinct.push(form);
            }
        }
        distinct
    };
    DiskTraits {
        serials: distinct([
            identity.reported_serial(),
            identity.serial_short.clone(),
            identity.serial.clone(),
        ]),
        wwns: distinct([
            identity.reported_wwn(),
            identity.wwn.clone(),
            identity.wwn_with_extension.clone(),
        ]),
        by_paths,
        ..DiskTraits::default()
    }
}

/// Whether the names of a disk are those of a USB disk that a BMC presents to the host.
/// Most of these names contain `Virtual` (AMI, iDRAC, iLO, ATEN); Cisco uses
/// `vKVM-Mapped` and `CIMC-Mapped`.
fn is_virtual_media(tran: Option<&str>, vendor: Option<&str>, model: Option<&str>) -> bool {
    let name = format!(
        "{} {}",
        vendor.unwrap_or_default(),
        model.unwrap_or_default()
    )
    .to_lowercase();
    tran == Some("usb") && (name.contains("virtual") || name.contains("-mapped"))
}

#[cfg(test)]
mod tests {
    use landfall_devices::disk_sets::DiskSets;
    use landfall_sys::sys_tree::plant;

    use super::*;

    /// A disk of 8 GiB with this device number; `lines` adds to its directory.
    fn block(name: &str, number: &str, lines: &[&str]) -> String {
        let mut text =
            format!("sys/block/{name}/dev = {number}\\n\nsys/block/{name}/size = 16777216\\n\n");
        for line in lines {
            text += &format!("sys/block/{name}/{line}\n");
        }
        text
    }

    fn names(text: &str) -> Vec<String> {
        let root = plant(text);
        let disks = collect(root.path());
        disks.into_iter().map(|disk| disk.name).collect()
    }

    #[test]
    fn order_is_that_of_device_numbers() {
        let text = [
            block("vdq", "254:256", &[]),
            block("nvme0n1", "259:0", &[]),
            block("vda", "254:0", &[]),
            block("sdab", "65:176", &[]),
            block("sda", "8:0", &[]),
            block("sdb", "8:16", &[]),
        ]
        .concat();
        assert_eq!(
            names(&text),
            [
                "/dev/sda",
                "/dev/sdb",
                "/dev/sdab",
                "/dev/vda",
                "/dev/nvme0n1",
                "/dev/vdq"
            ]
        );
    }

    #[test]
    fn devices_that_are_not_disks_are_left_out() {
        let cd = "device/type = 5\\n";
        let text = [
            block("sr0", "11:0", &[cd]),
            block("loop0", "7:0", &[]),
            block("sda", "8:0", &[]).replace("16777216", "0"),
            block("sdb", "8:16", &[]),
        ];
        assert_eq!(names(&text.concat()), ["/dev/sdb"]);
    }

    #[test]
    fn disks_made_of_disks_are_disks() {
        let text = [
            block("md127", "9:127", &["md/level = raid1\\n"]),
            block("sda", "8:0", &["holders/md127/"]),
            block("sdb", "8:16", &["holders/dm-0/"]),
            block("sdc", "8:32", &["holders/dm-0/"]),
            block("dm-0", "253:0", &["dm/uuid = mpath-3600140\\n"]),
        ];
        assert_eq!(
            names(&text.concat()),
            ["/dev/sda", "/dev/md127", "/dev/dm-0"]
        );
    }

    /// Two LUNs of an array with several paths each, some of which are on standby.
    #[test]
    fn paths_of_one_disk_are_one() {
        let scsi = |name: &str, number: &str, lun: &str, access: &str| {
            let lines = [
                "device/subsystem -> /bus/scsi",
                &format!(
                    "device/vpd_pg83 = \\x00\\x83\\x00\\x0c\\x01\\x03\\x00\\x08\\x50\\x00\\x00\\x00\\x00\\x00\\x00\\x{lun}"
                ),
                &format!("device/wwid = naa.50000000000000{lun}\\n"),
                &format!("device/access_state = {access}\\n"),
            ];
            block(name, number, &lines)
        };
        let root = plant(
            &[
                scsi("sda", "8:0", "01", "active/optimized"),
                scsi("sdb", "8:16", "02", "standby"),
                scsi("sdc", "8:32", "01", "standby"),
                scsi("sdd", "8:48", "02", "active/non-optimized"),
                scsi("sde", "8:64", "01", "active/optimized"),
                block("vda", "254:0", &[]),
                block("vdb", "254:16", &[]),
            ]
            .concat(),
        );
        let disks = collect(root.path());
        let names: Vec<&str> = disks.iter().map(|disk| &*disk.name).collect();
        assert_eq!(names, ["/dev/sda", "/dev/sdd", "/dev/vda", "/dev/vdb"]);
        let notes = paths_to_one_disk(&disks);
        assert_eq!(
            notes,
            [
                Warning::new(
                    "/dev/sda and /dev/sdc and /dev/sde are paths of one disk (WWN 0x5000000000000001), /dev/sda is used"
                ),
                Warning::new(
                    "/dev/sdd and /dev/sdb are paths of one disk (WWN 0x5000000000000002), /dev/sdd is used"
                ),
            ]
        );
        let chosen = |hint: &str| {
            let node = serde_json::json!({"instance_info": {"root_device": {"name": hint}}});
            let embedded = landfall_network_plan::Embedded::default();
            let none = |_: &Disk| DiskSets::default();
            let chosen =
                super::super::root_device::choose_for_node(Some(&node), &embedded, &disks, &none);
            chosen.map(|choice| choice.disk.name.clone())
        };
        assert_eq!(
            chosen("s== /dev/sde").unwrap(),
            "/dev/sda",
            "by its other name"
        );
        assert_eq!(chosen("s== /dev/sdb").unwrap(), "/dev/sdd");
        assert!(chosen("s== /dev/sdf").is_err());
    }

    #[test]
    fn media_of_the_bmc_are_known_by_their_names() {
        for (tran, vendor, model, expected) in [
            (Some("usb"), "AMI", "Virtual HDISK0", true),
            (Some("usb"), "iDRAC", "LCDRIVE Virtual", true),
            (Some("usb"), "Cisco", "vKVM-Mapped vHDD", true),
            (Some("usb"), "SanDisk", "Ultra Fit", false),
            (Some("sas"), "DELL", "Virtual Disk", false),
            (None, "Msft", "Virtual Disk", false),
        ] {
            let found = is_virtual_media(tran, Some(vendor), Some(model));
            assert_eq!(found, expected, "{vendor} {model}");
        }
    }
}
