//! Computes the properties and links that udev would give a disk, so that operators can
//! compare them with those on an installed system. The agent does not send them to
//! Ironic.

use landfall_sys::system_path::SystemPath;
use serde::Serialize;

use super::by_path::PathId;
use super::disk_identity::{DiskIdentity, identify};
use super::report_types::Disk;
use super::udev_text;

const LINKS: &str = "/dev/disk/by-id/";

/// udev's properties (for example, `serial` is `ID_SERIAL`) and links. `null` means that
/// a property is not set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UdevProperties {
    serial: Option<String>,
    serial_short: Option<String>,
    scsi_serial: Option<String>,
    usb_serial: Option<String>,
    wwn: Option<String>,
    wwn_with_extension: Option<String>,
    wwn_vendor_extension: Option<String>,
    vendor: Option<String>,
    vendor_enc: Option<String>,
    model: Option<String>,
    model_enc: Option<String>,
    revision: Option<String>,
    bus: Option<&'static str>,
    r#type: Option<&'static str>,
    nsid: Option<String>,
    name: Option<String>,
    path: Option<String>,
    path_ata_compat: Option<String>,
    by_path: Vec<String>,
    by_id: Vec<String>,
}

impl UdevProperties {
    /// The properties of a whole disk. `block` is its directory in /sys/devices.
    pub fn of(block: &SystemPath, name: &str) -> Self {
        let identity = identify(block, name);
        let path = PathId::of(block);
        let mut by_path = path.links(name);
        by_path.sort_unstable();
        let encoded = |text: &Option<String>| text.as_deref().map(udev_text::encode);
        Self {
            by_id: by_id(&identity, name),
            vendor_enc: encoded(&identity.vendor_text),
            model_enc: encoded(&identity.model_text),
            serial: identity.serial,
            serial_short: identity.serial_short,
            scsi_serial: identity.scsi_serial,
            usb_serial: identity.usb_serial,
            wwn: identity.wwn,
            wwn_with_extension: identity.wwn_with_extension,
            wwn_vendor_extension: identity.wwn_vendor_extension,
            vendor: identity.vendor,
            model: identity.model,
            revision: identity.revision,
            bus: identity.bus,
            r#type: identity.kind,
            nsid: identity.namespace,
            name: identity.card,
            path: path.path,
            path_ata_compat: path.ata_compat,
            by_path,
        }
    }
}

/// The links below /dev/disk that udev would create for this disk. They need not exist in
/// this boot.
pub fn links(root: &SystemPath, disk: &Disk) -> Vec<String> {
    let name = disk.name.trim_start_matches("/dev/");
    let Some(block) = root.join("sys/block").join(name).resolved() else {
        return Vec::new();
    };
    let properties = UdevProperties::of(&block, name);
    let mut links = properties.by_id;
    links.extend(properties.by_path);
    links
}

/// The links that udev's rules build from an identity, sorted.
fn by_id(identity: &DiskIdentity, name: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut link = |prefix: &str, name: &Option<String>| {
        if let Some(name) = name {
            links.push(format!("{LINKS}{prefix}-{name}"));
        }
    };
    if name.starts_with("nvme") {
        link("nvme", &identity.wwn);
        link("nvme", &identity.serial);
        // Before systemd 252 the name did not include the namespace.
        let (model, serial) = (&identity.model, &identity.serial_short);
        let older = model.as_ref().zip(serial.as_ref());
        let older = older.map(|(model, serial)| format!("{model}_{serial}"));
        link("nvme", &older.as_deref().map(udev_text::replace_characters));
    } else if name.starts_with("vd") {
        link("virtio", &identity.serial);
    } else if let Some(card) = &identity.card {
        let serial = identity.serial.as_ref();
        link("mmc", &serial.map(|serial| format!("{card}_{serial}")));
    } else if let Some(bus) = identity.bus {
        link(bus, &identity.serial);
        if bus != "usb" {
            link("usb", &identity.usb_serial);
        }
    }
    link("wwn", &identity.wwn_with_extension);
    links.sort_unstable();
    links
}
