//! Determines the model, serial number and names of a disk as udev would report
//! them.
//!
//! There is no udev in the ramdisk. So this module applies udev's rules for block devices
//! (60-persistent-storage.rules, ata_id, scsi_id and usb_id of systemd 252 to 257) to the
//! values in /sys. It sends commands to the disk only for values that are not in /sys.

mod ata;
mod scsi;
mod usb;

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::disk_query::DiskQuery;
use super::udev_text;

/// The properties that udev would set. `None` means not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskIdentity {
    /// `ID_SERIAL`, which contains the model for ATA, NVMe and USB disks.
    pub serial: Option<String>,
    /// `ID_SERIAL_SHORT`.
    pub serial_short: Option<String>,
    /// `ID_SCSI_SERIAL`: the unit serial number (page 0x80), if `ID_SERIAL` comes from
    /// page 0x83.
    pub scsi_serial: Option<String>,
    /// `ID_WWN`.
    pub wwn: Option<String>,
    /// `ID_WWN_WITH_EXTENSION`.
    pub wwn_with_extension: Option<String>,
    /// `ID_WWN_VENDOR_EXTENSION`.
    pub wwn_vendor_extension: Option<String>,
    /// `ID_VENDOR`.
    pub vendor: Option<String>,
    /// `ID_MODEL`.
    pub model: Option<String>,
    /// `ID_MODEL_ENC`, decoded: the model with its spaces and padding.
    pub model_text: Option<String>,
    /// `ID_VENDOR_ENC`, decoded.
    pub vendor_text: Option<String>,
    /// `ID_REVISION`.
    pub revision: Option<String>,
    /// `ID_BUS`.
    pub bus: Option<&'static str>,
    /// `ID_TYPE`.
    pub kind: Option<&'static str>,
    /// `ID_USB_SERIAL`: the `ID_SERIAL` that usb_id would set from the names of the USB
    /// enclosure.
    pub usb_serial: Option<String>,
    /// `ID_NSID` of an NVMe disk.
    pub namespace: Option<String>,
    /// `ID_NAME` of a memory card.
    pub card: Option<String>,
}

impl DiskIdentity {
    /// The serial number that lsblk reports.
    pub fn reported_serial(&self) -> Option<String> {
        let serial = self
            .scsi_serial
            .as_ref()
            .or(self.serial_short.as_ref())
            .or(self.serial.as_ref())?;
        non_empty(udev_text::for_people(serial))
    }

    /// The WWN that lsblk reports.
    pub fn reported_wwn(&self) -> Option<String> {
        self.wwn_with_extension.clone().or_else(|| self.wwn.clone())
    }

    /// The model that lsblk reports.
    pub fn reported_model(&self) -> Option<String> {
        let model = self.model_text.as_ref().or(self.model.as_ref())?;
        non_empty(udev_text::for_people(model))
    }
}

/// Identifies a whole disk. `block` is its directory in /sys/devices, `name` its kernel
/// name.
pub fn identify(block: &SystemPath, name: &str) -> DiskIdentity {
    let device = block.join("device");
    if name.starts_with("nvme") {
        return nvme(block);
    }
    if name.starts_with("vd") {
        return DiskIdentity {
            serial: attribute(&block.join("serial")),
            ..DiskIdentity::default()
        };
    }
    if let Some(number) = name.strip_prefix("mmcblk") {
        return memory_card(&device, number);
    }
    if sysfs::link_name(&device.join("subsystem")).as_deref() != Some("scsi") {
        return DiskIdentity::default();
    }
    let removable = sysfs::flag(&block.join("removable"));
    let query = DiskQuery::new(block, name);
    device
        .resolved()
        .map_or_else(DiskIdentity::default, |device| {
            behind_scsi(&device, &query, removable)
        })
}

/// Tries udev's tools in udev's order: the first tool that identifies the disk sets the
/// names.
fn behind_scsi(device: &SystemPath, query: &DiskQuery, removable: bool) -> DiskIdentity {
    let usb = usb::identity(device);
    let is_ata = sysfs::text(&device.join("vendor")).as_deref() == Some("ATA");
    // udev runs ata_id on packet devices that conform to SPC-3 or later. The kernel
    // reports SPC-3 as level 6.
    let is_packet_device = scsi_kind(device) == "cd"
        && sysfs::number(&device.join("scsi_level")).is_some_and(|level: u32| level >= 6);
    let ata = match &usb {
        Some(_) if !removable => ata::behind_usb(device, query),
        None if is_ata || is_packet_device => ata::behind_scsi(device, query),
        _ => None,
    };
    match (ata, usb) {
        (Some(ata), usb) => DiskIdentity {
            usb_serial: usb.and_then(|usb| usb.serial),
            ..ata
        },
        (None, Some(usb)) => usb,
        (None, None) => scsi::identity(device, query),
    }
}

/// udev's word for the peripheral device type (SPC-4, table 141).
fn scsi_kind(device: &SystemPath) -> &'static str {
    match sysfs::number(&device.join("type")) {
        Some(0x00 | 0x0e) => "disk",
        Some(0x01) => "tape",
        Some(0x04 | 0x07 | 0x0f) => "optical",
        Some(0x05) => "cd",
        _ => "generic",
    }
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn cleaned(text: &str) -> Option<String> {
    non_empty(udev_text::clean(text))
}

/// Reads a sysfs attribute and converts it in the same way as `$attr{...}` in a udev
/// rule.
fn attribute(path: &SystemPath) -> Option<String> {
    non_empty(udev_text::attribute(&sysfs::padded_text(path)?))
}

/// The identity of a memory card. udev's rule covers only the first ten cards (`mmcblk0`
/// to `mmcblk9`), and not their boot areas.
fn memory_card(device: &SystemPath, number: &str) -> DiskIdentity {
    if number.len() > 1 {
        return DiskIdentity::default();
    }
    DiskIdentity {
        serial: attribute(&device.join("serial")),
        card: attribute(&device.join("name")),
        ..DiskIdentity::default()
    }
}

/// Attributes of the namespace take precedence over those of its controller, because
/// udev's `ATTRS` searches from a device to its parents.
fn nvme(block: &SystemPath) -> DiskIdentity {
    let attribute = |name: &str| {
        attribute(&block.join(name)).or_else(|| attribute(&block.join("device").join(name)))
    };
    let (model, serial_short) = (attribute("model"), attribute("serial"));
    // systemd has used several forms of `ID_SERIAL`. This is the newest form, which
    // contains the namespace.
    let namespace = attribute("nsid");
    let serial = match (&model, &serial_short, &namespace) {
        (Some(model), Some(serial), Some(namespace)) => Some(udev_text::replace_characters(
            &format!("{model}_{serial}_{namespace}"),
        )),
        _ => None,
    };
    DiskIdentity {
        serial,
        serial_short,
        wwn: attribute("wwid"),
        model,
        revision: attribute("firmware_rev"),
        namespace,
        ..DiskIdentity::default()
    }
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn nvme_serial_with_blanks_and_quotes() {
        let root = plant(
            "device/model = QEMU NVMe Ctrl   \\n\ndevice/serial =   lead & \"q\"/s  \\n\nnsid = 1\\n\nwwid = eui.0025385a11b2c3d4\\n",
        );
        let disk = identify(root.path(), "nvme0n1");
        assert_eq!(disk.serial_short, some("  lead _ _q_/s"));
        assert_eq!(disk.serial, some("QEMU_NVMe_Ctrl___lead____q__s_1"));
        assert_eq!(disk.reported_serial(), some("lead _ _q_/s"));
        assert_eq!(disk.reported_wwn(), some("eui.0025385a11b2c3d4"));
    }

    /// `ID_SERIAL` and `ID_USB_SERIAL` of a disk with these lines about its device.
    fn serial_of(lines: &str) -> (Option<String>, Option<String>) {
        let root = plant(&format!(
            "sys/block/sda/device -> ../../devices/1:0:0:0\nsys/devices/1:0:0:0/subsystem -> /bus/scsi\n{lines}"
        ));
        let disk = identify(&root.path().join("sys/block/sda"), "sda");
        (disk.serial, disk.usb_serial)
    }

    /// IDENTIFY data with a serial number and a model, in the captured form.
    fn identify_words() -> String {
        let mut words = vec!["2020".to_owned(); 256];
        words[0] = "0040".into();
        words[10] = "4142".into();
        words[27] = "5858".into();
        words[108] = "0000".into();
        words.join(" ")
    }

    #[test]
    fn ata_disk_that_is_asked() {
        let lines = format!(
            "sys/devices/1:0:0:0/vendor = ATA     \\n\nioctl/sda/ata-identify.hex = {}\n",
            identify_words()
        );
        assert_eq!(serial_of(&lines).0.as_deref(), Some("XX_AB"));
        // The query gets no answer, and there are no SCSI pages either.
        assert_eq!(
            serial_of("sys/devices/1:0:0:0/vendor = ATA     \\n").0,
            None
        );
    }

    #[test]
    fn enclosures_pass_identify_on_or_not() {
        let enclosure = format!(
            "ioctl/sda/ata-identify.hex = {}\n\
             sys/devices/1:0:0:0/idVendor = 0951\\n\n\
             sys/devices/1:0:0:0/bInterfaceClass = 08\\n\n\
             sys/devices/1:0:0:0/bInterfaceSubClass = 06\\n\n\
             sys/devices/1:0:0:0/vendor = Maker   \\n\n\
             sys/devices/1:0:0:0/model = Box\\n\n",
            identify_words()
        );
        let of_box = Some("Maker_Box-0:0".to_owned());
        assert_eq!(
            serial_of(&enclosure),
            (Some("XX_AB".to_owned()), of_box.clone())
        );
        let stick = format!("{enclosure}sys/block/sda/removable = 1\\n\n");
        assert_eq!(serial_of(&stick), (of_box.clone(), of_box));
    }

    #[test]
    fn memory_cards_and_their_boot_areas() {
        let root =
            plant("sys/block/device/serial = 0xdeadbeef\\n\nsys/block/device/name = QEMU!\\n");
        let block = root.path().join("sys/block");
        let card = identify(&block, "mmcblk0");
        assert_eq!(card.serial.as_deref(), Some("0xdeadbeef"));
        assert_eq!(card.card.as_deref(), Some("QEMU_"));
        for name in ["mmcblk0boot1", "mmcblk10"] {
            assert_eq!(identify(&block, name), DiskIdentity::default(), "{name}");
        }
    }
}
