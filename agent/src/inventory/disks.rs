//! The disks that an image could be written to, as lsblk and udev would
//! describe them.

use super::disk_identity::{DiskIdentity, identify};
use super::report_types::{Disk, DiskTraits};
use super::system_path::SystemPath;
use super::{by_path, sysfs};

/// /sys/block/X/size counts these whatever the disk's sectors are.
const SIZE_UNIT: u64 = 512;
/// `TYPE_DISK` in linux/include/scsi/scsi_proto.h.
const SCSI_TYPE_DISK: u32 = 0;
/// No disks: made of memory or of other disks, floppies, CDs, flash chips.
const FOREIGN: [&str; 9] = [
    "dm-", "fd", "loop", "md", "mtdblock", "nbd", "ram", "sr", "zram",
];

/// Reads /sys/block, in the order of device numbers (lsblk's, which decides
/// between several disks that match the same hints).
pub fn collect(root: &SystemPath) -> Vec<Disk> {
    let directory = root.join("sys/block");
    let mut disks: Vec<((u32, u32), Disk)> = sysfs::names(&directory)
        .into_iter()
        .filter(|name| !FOREIGN.iter().any(|prefix| is_named(name, prefix)))
        .filter_map(|name| {
            let block = directory.join(&name).resolved()?;
            let number = device_number(&sysfs::text(&block.join("dev"))?)?;
            Some((number, disk(root, &block, &name)?))
        })
        .collect();
    disks.sort_by_key(|(number, _)| *number);
    disks.into_iter().map(|(_, disk)| disk).collect()
}

/// `loop0` for `loop`, but not `srv0` for `sr`.
fn is_named(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn device_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `None` if it is not a disk with a medium.
fn disk(root: &SystemPath, block: &SystemPath, name: &str) -> Option<Disk> {
    let device = block.join("device");
    let size = sysfs::number::<u64>(&block.join("size"))?.checked_mul(SIZE_UNIT)?;
    // Each leg of a multipath NVMe disk is hidden behind the disk itself.
    if size == 0 || sysfs::flag(&block.join("hidden")) {
        return None;
    }
    let is_scsi = sysfs::link_name(&device.join("subsystem")).as_deref() == Some("scsi");
    if is_scsi && sysfs::number(&device.join("type")) != Some(SCSI_TYPE_DISK) {
        return None;
    }
    let identity = identify(block, name);
    let hctl = is_scsi
        .then(|| device.resolved())
        .flatten()
        .and_then(|path| Some(path.name()?.to_owned()));
    let tran = transport(root, block, name, hctl.as_deref());
    let by_paths = by_path::names(block);
    let vendor = sysfs::text(&device.join("vendor"));
    let queue = |attribute: &str| sysfs::number(&block.join("queue").join(attribute));
    Some(Disk {
        name: format!("/dev/{name}"),
        size,
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
            read_only: sysfs::flag(&block.join("ro")),
            virtual_media: is_virtual_media(tran, vendor.as_deref(), identity.model.as_deref()),
            ..forms(&identity, by_paths)
        },
        tran: tran.map(str::to_owned),
        vendor,
    })
}

/// All forms of the disk's names, so that a hint may be written in any.
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

/// lsblk's TRAN, in its order of questions.
fn transport(
    root: &SystemPath,
    block: &SystemPath,
    name: &str,
    hctl: Option<&str>,
) -> Option<&'static str> {
    let Some(hctl) = hctl else {
        // virtio and mmc have names in newer versions of lsblk only.
        return name.starts_with("nvme").then_some("nvme");
    };
    let host = format!("host{}", hctl.split(':').next()?);
    let class = |class: &str| root.join("sys/class").join(class).join(&host);
    if class("spi_host").is_dir() {
        return Some("spi");
    }
    if class("fc_host").is_dir() {
        let name = sysfs::text(&class("fc_host").join("symbolic_name"))?;
        return Some(if name.contains(" over ") {
            "fcoe"
        } else {
            "fc"
        });
    }
    if class("sas_host").is_dir() || block.join("device/sas_device").exists() {
        return Some("sas");
    }
    if class("iscsi_host").is_dir() {
        return Some("iscsi");
    }
    if block.as_path().to_str()?.contains("/usb") {
        return Some("usb");
    }
    let driver = sysfs::text(&class("scsi_host").join("proc_name"))?;
    if driver.starts_with("ahci") || driver.starts_with("sata") {
        return Some("sata");
    }
    driver.contains("ata").then_some("ata")
}

/// What BMCs call the USB disk that they show to the host: `Virtual` at most
/// (AMI, iDRAC, iLO, ATEN), `vKVM-Mapped` and `CIMC-Mapped` at Cisco.
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
    use super::*;
    use crate::inventory::sys_tree::plant;

    /// A disk of 8 GiB with this device number and further lines about it.
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
                "/dev/nvme0n1"
            ]
        );
    }

    #[test]
    fn what_is_no_disk_is_left_out() {
        for name in [
            "loop0", "ram15", "zram0", "fd0", "sr0", "dm-3", "md127", "nbd1",
        ] {
            assert_eq!(names(&block(name, "7:0", &[])), [""; 0], "{name}");
        }
        for (line, is_disk) in [
            ("hidden = 1\\n", false),
            ("hidden = 0\\n", true),
            (
                "device/subsystem -> /bus/scsi\nsys/block/sda/device/type = 5\\n",
                false,
            ),
            (
                "device/subsystem -> /bus/scsi\nsys/block/sda/device/type = 0\\n",
                true,
            ),
            ("device/type = SD\\n", true),
        ] {
            assert_eq!(
                names(&block("sda", "8:0", &[line])).len(),
                usize::from(is_disk),
                "{line}"
            );
        }
        let empty = block("sda", "8:0", &[]).replace("16777216", "0");
        assert_eq!(names(&empty), [""; 0], "a card reader without a card");
    }

    #[test]
    fn transports() {
        let scsi = [
            "device -> ../../devices/x/2:0:0:0",
            "x -> x\nsys/devices/x/2:0:0:0/subsystem -> /bus/scsi\nsys/devices/x/2:0:0:0/type = 0\\n",
        ];
        for (line, expected) in [
            (
                "sys/class/scsi_host/host2/proc_name = ahci\\n",
                Some("sata"),
            ),
            (
                "sys/class/scsi_host/host2/proc_name = sata_nv\\n",
                Some("sata"),
            ),
            (
                "sys/class/scsi_host/host2/proc_name = ata_piix\\n",
                Some("ata"),
            ),
            ("sys/class/scsi_host/host2/proc_name = virtio_scsi\\n", None),
            ("sys/class/sas_host/host2/", Some("sas")),
            ("sys/class/spi_host/host2/", Some("spi")),
            ("sys/class/iscsi_host/host2/", Some("iscsi")),
            (
                "sys/class/fc_host/host2/symbolic_name = QLE2562\\n",
                Some("fc"),
            ),
            (
                "sys/class/fc_host/host2/symbolic_name = bnx2fc over eth3\\n",
                Some("fcoe"),
            ),
        ] {
            let root = plant(&(block("sda", "8:0", &scsi) + line));
            let disks = collect(root.path());
            assert_eq!(disks[0].tran.as_deref(), expected, "{line}");
            assert_eq!(disks[0].hctl.as_deref(), Some("2:0:0:0"));
        }
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
