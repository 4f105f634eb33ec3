//! Model, serial number and names of a disk, in udev's words.
//!
//! There is no udev here, so its rules for block devices are followed on what
//! the kernel shows in /sys (60-persistent-storage.rules, ata_id, scsi_id and
//! usb_id of systemd). What only an ioctl tells is missing: the names of an
//! ATA disk in a USB enclosure are those of the enclosure.

use super::system_path::SystemPath;
use super::vpd::{self, AtaIdentity, Designator, Kind};
use super::{by_path, sysfs, udev_text};

/// The properties that udev would have set. `None`: not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskIdentity {
    /// `ID_SERIAL`, which has maker and model in front for most disks.
    pub serial: Option<String>,
    /// `ID_SERIAL_SHORT`.
    pub serial_short: Option<String>,
    /// `ID_SCSI_SERIAL`: the unit serial number where another name came first.
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
    /// `ID_MODEL_ENC` decoded: the model with its blanks, padding and all.
    pub model_text: Option<String>,
    /// `ID_REVISION`.
    pub revision: Option<String>,
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

/// Reads what the kernel says of a whole disk: `block` is its directory in
/// /sys/devices, `name` its name there.
pub fn identify(block: &SystemPath, name: &str) -> DiskIdentity {
    let device = block.join("device");
    if name.starts_with("nvme") {
        return nvme(block);
    }
    if name.starts_with("vd") {
        return with_serial_only(attribute(&block.join("serial")));
    }
    if name.starts_with("mmcblk") {
        return with_serial_only(attribute(&device.join("serial")));
    }
    if sysfs::link_name(&device.join("subsystem")).as_deref() != Some("scsi") {
        return DiskIdentity::default();
    }
    if sysfs::text(&device.join("vendor")).as_deref() == Some("ATA")
        && let Some(ata) = ata_identity(&device)
    {
        return ata_disk(&device, &ata);
    }
    usb_disk(&device).unwrap_or_else(|| scsi_disk(&device))
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn cleaned(text: &str) -> Option<String> {
    non_empty(udev_text::clean(text))
}

/// A sysfs value as a rule's `$attr{...}` gives it.
fn attribute(path: &SystemPath) -> Option<String> {
    non_empty(udev_text::attribute(&sysfs::padded_text(path)?))
}

fn with_serial_only(serial: Option<String>) -> DiskIdentity {
    DiskIdentity {
        serial,
        ..DiskIdentity::default()
    }
}

/// Attributes of the namespace first, then of its controller (`ATTRS` climbs).
fn nvme(block: &SystemPath) -> DiskIdentity {
    let attribute = |name: &str| {
        attribute(&block.join(name)).or_else(|| attribute(&block.join("device").join(name)))
    };
    let (model, serial_short) = (attribute("model"), attribute("serial"));
    // Of all forms that systemd had, the newest, with the namespace.
    let serial = match (&model, &serial_short, attribute("nsid")) {
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
        ..DiskIdentity::default()
    }
}

/// Page 0x89 is IDENTIFY itself; where an older kernel does not keep it, 0x83
/// has the same text as the SCSI translation made it.
fn ata_identity(device: &SystemPath) -> Option<AtaIdentity> {
    sysfs::bytes(&device.join("vpd_pg89"))
        .and_then(|page| vpd::ata_information(&page))
        .or_else(|| vpd::ata_designators(&sysfs::bytes(&device.join("vpd_pg83"))?))
}

fn ata_disk(device: &SystemPath, ata: &AtaIdentity) -> DiskIdentity {
    let (model, serial_short) = (cleaned(&ata.model), cleaned(&ata.serial));
    let wwn = ata.wwn.map(|wwn| format!("0x{wwn:016x}"));
    DiskIdentity {
        serial: match (&model, &serial_short) {
            (Some(model), Some(serial)) => Some(format!("{model}_{serial}")),
            _ => model.clone(),
        },
        serial_short,
        wwn: wwn.clone(),
        wwn_with_extension: wwn,
        model,
        model_text: Some(ata.model.clone()),
        revision: sysfs::text(&device.join("rev")).and_then(|text| cleaned(&text)),
        ..DiskIdentity::default()
    }
}

/// Maker, model and revision from INQUIRY.
fn inquiry(device: &SystemPath) -> DiskIdentity {
    let field = |name: &str| sysfs::padded_text(&device.join(name));
    DiskIdentity {
        vendor: field("vendor").and_then(|text| cleaned(&text)),
        model: field("model").and_then(|text| cleaned(&text)),
        model_text: field("model"),
        revision: field("rev").and_then(|text| cleaned(&text)),
        ..DiskIdentity::default()
    }
}

/// A disk behind USB mass storage, if it is one.
fn usb_disk(device: &SystemPath) -> Option<DiskIdentity> {
    let device = device.resolved()?;
    let usb = device
        .ancestors()
        .find(|parent| parent.join("idVendor").exists())?;
    let serial_short = sysfs::padded_text(&usb.join("serial"))
        // usb_id drops a number with bytes that the standard does not allow.
        .filter(|text| text.bytes().all(|b| matches!(b, 0x20..=0x7f) && b != b','))
        .and_then(|text| cleaned(&text));
    let identity = inquiry(&device);
    let [_, _, target, lun] = by_path::hctl(device.name()?)?;
    let mut serial = format!(
        "{}_{}",
        identity.vendor.as_deref().unwrap_or_default(),
        identity.model.as_deref().unwrap_or_default()
    );
    if let Some(short) = &serial_short {
        serial = format!("{serial}_{short}");
    }
    Some(DiskIdentity {
        serial: Some(format!("{serial}-{target}:{lun}")),
        serial_short,
        ..identity
    })
}

fn scsi_disk(device: &SystemPath) -> DiskIdentity {
    let identity = inquiry(device);
    let unit_serial = sysfs::bytes(&device.join("vpd_pg80"))
        .and_then(|page| vpd::unit_serial(&page))
        .and_then(non_empty);
    let product = || {
        let field = |name| sysfs::padded_text(&device.join(name)).unwrap_or_default();
        format!("{:<8}{:<16}", field("vendor"), field("model"))
    };
    if let Some(page) = sysfs::bytes(&device.join("vpd_pg83"))
        && let Some(name) = unit_name(&page, &product())
    {
        return DiskIdentity {
            serial: cleaned(&format!("{}{}{}", name.digit, name.prefix, name.text)),
            serial_short: cleaned(&name.text),
            scsi_serial: unit_serial,
            ..name.world_wide(identity)
        };
    }
    DiskIdentity {
        serial: unit_serial
            .as_ref()
            .and_then(|serial| cleaned(&format!("S{}{serial}", product()))),
        serial_short: unit_serial.as_deref().and_then(cleaned),
        ..identity
    }
}

/// The designator that scsi_id takes as the disk's name.
struct UnitName {
    /// The type's number, which `ID_SERIAL` begins with.
    digit: char,
    /// Maker and model, where the name alone is not unique.
    prefix: String,
    text: String,
    /// Whether it is a World Wide Name.
    is_naa: bool,
}

impl UnitName {
    /// `identity` with this name as WWN: 16 hexadecimal digits, and beyond them
    /// the vendor's extension.
    fn world_wide(&self, identity: DiskIdentity) -> DiskIdentity {
        if !self.is_naa {
            return identity;
        }
        let wwn: String = self.text.chars().take(16).collect();
        let extension: String = self.text.chars().skip(16).take(16).collect();
        DiskIdentity {
            wwn: Some(format!("0x{wwn}")),
            wwn_with_extension: Some(format!("0x{wwn}{extension}")),
            wwn_vendor_extension: (!extension.is_empty()).then(|| format!("0x{extension}")),
            ..identity
        }
    }
}

/// The best name of page 0x83: kinds in scsi_id's order, the binary form of
/// each before the text form.
fn unit_name(page: &[u8], product: &str) -> Option<UnitName> {
    if let Some(bytes) = vpd::pre_spc3_name(page) {
        return Some(UnitName {
            digit: '3',
            prefix: String::new(),
            text: hexadecimal(bytes),
            is_naa: false,
        });
    }
    let naa = |wanted: u8| {
        move |d: &Designator<'_>| {
            d.kind == Kind::Naa && d.bytes.first().is_some_and(|byte| byte >> 4 == wanted)
        }
    };
    let kind = |wanted: Kind| move |d: &Designator<'_>| d.kind == wanted;
    find(page, naa(6))
        .or_else(|| find(page, naa(5)))
        .or_else(|| find(page, kind(Kind::Naa)))
        .or_else(|| find(page, kind(Kind::Eui64)))
        .or_else(|| find(page, kind(Kind::T10Vendor)))
        .or_else(|| find(page, kind(Kind::VendorSpecific)))
        .map(|designator| UnitName {
            digit: match designator.kind {
                Kind::Naa => '3',
                Kind::Eui64 => '2',
                Kind::T10Vendor => '1',
                Kind::VendorSpecific | Kind::Other => '0',
            },
            prefix: match designator.kind {
                Kind::VendorSpecific => product.to_owned(),
                _ => String::new(),
            },
            text: if designator.is_text {
                String::from_utf8_lossy(designator.bytes).into_owned()
            } else {
                hexadecimal(designator.bytes)
            },
            is_naa: designator.kind == Kind::Naa,
        })
}

fn find<'a>(page: &'a [u8], wanted: impl Fn(&Designator<'a>) -> bool) -> Option<Designator<'a>> {
    let mut text = None;
    for designator in vpd::designators(page).filter(|d| d.names_unit && wanted(d)) {
        if designator.is_binary {
            return Some(designator);
        }
        if designator.is_text && text.is_none() {
            text = Some(designator);
        }
    }
    text
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys_tree::plant;

    /// A SCSI disk ACME SUPERDISK with these VPD pages (0x80 and 0x83).
    fn scsi(page_80: &str, page_83: &str) -> DiskIdentity {
        let root = plant(
            &[
                "device/subsystem -> /bus/scsi",
                "device/vendor = ACME    \\n",
                "device/model = SUPER DISK      \\n",
                "device/rev = 1.0 \\n",
                page_80,
                page_83,
            ]
            .join("\n"),
        );
        identify(root.path(), "sda")
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    const SERIAL: &str = r"device/vpd_pg80 = \x00\x80\x00\x05SN 01";
    const NO_SERIAL: &str = "";

    #[test]
    fn extended_naa_name_is_split() {
        let disk = scsi(
            NO_SERIAL,
            r"device/vpd_pg83 = \x00\x83\x00\x14\x01\x03\x00\x10`\x05\x08\xb4\x00\x10^!\x00\x01\x02\x03\x04\x05\x06\x07",
        );
        assert_eq!(disk.serial, some("3600508b400105e210001020304050607"));
        assert_eq!(disk.wwn, some("0x600508b400105e21"));
        assert_eq!(disk.wwn_vendor_extension, some("0x0001020304050607"));
        assert_eq!(
            disk.reported_wwn(),
            some("0x600508b400105e210001020304050607")
        );
        assert_eq!(disk.vendor, some("ACME"));
        assert_eq!(disk.model, some("SUPER_DISK"));
        assert_eq!(disk.reported_model(), some("SUPER DISK"));
    }

    #[test]
    fn names_have_an_order() {
        let naa_3 = r"\x01\x03\x00\x08\x30\x00\x00\x00\x00\x00\x00\x03";
        let naa_5 = r"\x01\x03\x00\x08\x50\x00\x00\x00\x00\x00\x00\x05";
        let eui = r"\x01\x02\x00\x08\x00\x00\x00\x00\x00\x00\x00\xee";
        let t10 = r"\x02\x01\x00\x0aACME    T1";
        let own = r"\x02\x00\x00\x08VENDOR 1";
        let of_port = r"\x01\x13\x00\x08\x50\x00\x00\x00\x00\x00\x00\x99";
        for (names, serial) in [
            (
                vec![of_port, own, t10, eui, naa_3, naa_5],
                "35000000000000005",
            ),
            (vec![of_port, own, t10, eui, naa_3], "33000000000000003"),
            (vec![of_port, own, t10, eui], "200000000000000ee"),
            (vec![of_port, own, t10], "1ACME_T1"),
            (vec![of_port, own], "0ACME_SUPER_DISK_VENDOR_1"),
            (vec![of_port], "SACME_SUPER_DISK_SN_01"),
        ] {
            let names = names.concat();
            // An escape is four characters of text and one byte.
            let length = names.len() - 3 * names.matches(r"\x").count();
            let page = format!(r"device/vpd_pg83 = \x00\x83\x00\x{length:02x}{names}");
            let disk = scsi(SERIAL, &page);
            assert_eq!(disk.serial, some(serial));
            assert_eq!(disk.wwn.is_some(), serial.starts_with('3'), "{serial}");
            assert_eq!(
                disk.reported_serial(),
                match serial.starts_with('S') {
                    true => some("SN_01"),
                    false => some("SN 01"),
                }
            );
        }
    }

    #[test]
    fn without_pages_there_is_no_serial_number() {
        let disk = scsi("", "");
        assert_eq!(disk.serial, None);
        assert_eq!(disk.reported_serial(), None);
        assert_eq!(disk.revision, some("1.0"));
    }

    #[test]
    fn pages_from_before_spc_3_are_one_name_but_no_wwn() {
        let disk = scsi(
            NO_SERIAL,
            r"device/vpd_pg83 = \x00\x83\x00\x08\x20\x11\x22\x33\x44\x55\x66\x77",
        );
        assert_eq!(disk.serial, some("32011223344556677"));
        assert_eq!(disk.wwn, None);
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

    #[test]
    fn usb_serial_with_forbidden_bytes_is_dropped() {
        for (serial, expected) in [
            ("STICK 01", "ACME_DISK_STICK_01-0:0"),
            ("a,b", "ACME_DISK-0:0"),
            (r"a\x01b", "ACME_DISK-0:0"),
        ] {
            let root = plant(&format!(
                "usb1/idVendor = 0951\\n\nusb1/serial = {serial}\\n\nusb1/7:0:0:0/vendor = ACME    \\n\nusb1/7:0:0:0/model = DISK\\n\nusb1/7:0:0:0/subsystem -> /bus/scsi\nblock/device -> ../usb1/7:0:0:0"
            ));
            let disk = identify(&root.path().join("block").resolved().unwrap(), "sda");
            assert_eq!(disk.serial, some(expected), "{serial}");
        }
    }
}
