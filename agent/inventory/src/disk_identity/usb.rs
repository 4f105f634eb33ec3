//! Identifies disks behind USB in the same way as udev's usb_id.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::{DiskIdentity, cleaned, scsi_kind};
use crate::by_path;

/// `bInterfaceClass` of mass storage.
const MASS_STORAGE: &str = "08";
/// `bInterfaceSubClass` of devices that accept SCSI commands: ATAPI, SCSI.
const WITH_INQUIRY: [&str; 2] = ["02", "06"];

/// The identity of a SCSI device; `None` if it is not behind USB. `device` is its
/// directory in /sys/devices.
///
/// The names come from INQUIRY if the interface supports it, otherwise from the texts of
/// the USB device, otherwise from the device's numbers.
pub fn identity(device: &SystemPath) -> Option<DiskIdentity> {
    let interface = device
        .ancestors()
        .find(|parent| parent.join("bInterfaceClass").exists())?;
    let usb = interface
        .ancestors()
        .find(|parent| parent.join("idVendor").exists())?;
    let interface_is = |attribute: &str, values: &[&str]| {
        sysfs::text(&interface.join(attribute)).is_some_and(|text| values.contains(&&*text))
    };
    let speaks_scsi = interface_is("bInterfaceClass", &[MASS_STORAGE])
        && interface_is("bInterfaceSubClass", &WITH_INQUIRY);
    let of_scsi = |attribute: &str| {
        let text = sysfs::padded_text(&device.join(attribute)).filter(|_| speaks_scsi)?;
        cleaned(&text).map(|_| text)
    };
    let of_usb = |attribute: &str| sysfs::padded_text(&usb.join(attribute));
    let vendor_text = of_scsi("vendor")
        .or_else(|| of_usb("manufacturer"))
        .or_else(|| of_usb("idVendor"));
    let model_text = of_scsi("model")
        .or_else(|| of_usb("product"))
        .or_else(|| of_usb("idProduct"));
    let revision = of_scsi("rev").or_else(|| of_usb("bcdDevice"));
    let (vendor, model) = (
        vendor_text.as_deref().and_then(cleaned),
        model_text.as_deref().and_then(cleaned),
    );
    let serial_short = of_usb("serial")
        // Like usb_id, ignore a serial number that has a comma, or bytes outside 0x20 to
        // 0x7f.
        .filter(|text| text.bytes().all(|b| matches!(b, 0x20..=0x7f) && b != b','))
        .and_then(|text| cleaned(&text));

    let mut serial = format!(
        "{}_{}",
        vendor.as_deref().unwrap_or_default(),
        model.as_deref().unwrap_or_default()
    );
    if let Some(short) = &serial_short {
        serial = format!("{serial}_{short}");
    }
    if speaks_scsi && let Some([_, _, target, lun]) = device.name().and_then(by_path::hctl) {
        serial = format!("{serial}-{target}:{lun}");
    }
    Some(DiskIdentity {
        usb_serial: Some(serial.clone()),
        serial: Some(serial),
        serial_short,
        vendor,
        vendor_text,
        model,
        model_text,
        revision: revision.as_deref().and_then(cleaned),
        bus: Some("usb"),
        kind: Some(scsi_kind(device)),
        ..DiskIdentity::default()
    })
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    /// A USB stick at usb1/1-1. `lines` adds to the tree below `usb1`.
    fn stick(lines: &[&str]) -> DiskIdentity {
        let mut text = [
            "1-1/idVendor = 0951\\n",
            "1-1/idProduct = 1666\\n",
            "1-1/bcdDevice = 0110\\n",
            "1-1/1-1:1.0/bInterfaceClass = 08\\n",
            "1-1/1-1:1.0/host7/7:0:2:1/vendor = ACME    \\n",
            "1-1/1-1:1.0/host7/7:0:2:1/model = SUPER DISK      \\n",
            "1-1/1-1:1.0/host7/7:0:2:1/rev = 1.0 \\n",
        ]
        .map(|line| format!("usb1/{line}\n"))
        .concat();
        for line in lines {
            text += &format!("usb1/{line}\n");
        }
        let root = plant(&text);
        identity(&root.path().join("usb1/1-1/1-1:1.0/host7/7:0:2:1")).unwrap()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    const SCSI: &str = "1-1/1-1:1.0/bInterfaceSubClass = 06\\n";

    #[test]
    fn inquiry_comes_first() {
        let disk = stick(&[SCSI, "1-1/serial = STICK 01\\n", "1-1/product = X\\n"]);
        assert_eq!(disk.serial, some("ACME_SUPER_DISK_STICK_01-2:1"));
        assert_eq!(disk.serial_short, some("STICK_01"));
        assert_eq!(disk.model_text, some("SUPER DISK      "));
        assert_eq!(disk.revision, some("1.0"));
        assert_eq!(disk.usb_serial, disk.serial);
    }

    #[test]
    fn other_subclasses_have_the_names_of_usb() {
        let rbc = "1-1/1-1:1.0/bInterfaceSubClass = 01\\n";
        let disk = stick(&[rbc, "1-1/manufacturer = Maker Inc.\\n", "1-1/serial = 1\\n"]);
        assert_eq!(disk.serial, some("Maker_Inc._1666_1"));
        assert_eq!(disk.revision, some("0110"));
    }

    #[test]
    fn serial_with_forbidden_bytes_is_dropped() {
        for serial in ["a,b", r"a\x01b", r"\xc3\xa9"] {
            let disk = stick(&[SCSI, &format!("1-1/serial = {serial}\\n")]);
            assert_eq!(disk.serial, some("ACME_SUPER_DISK-2:1"), "{serial}");
            assert_eq!(disk.serial_short, None, "{serial}");
        }
    }

    #[test]
    fn other_buses_are_not_usb() {
        let root = plant("pci0/0000:00:03.0/host0/0:0:0:0/vendor = ACME\\n");
        assert_eq!(
            identity(&root.path().join("pci0/0000:00:03.0/host0/0:0:0:0")),
            None
        );
    }
}
