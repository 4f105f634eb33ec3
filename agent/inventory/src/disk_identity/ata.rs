//! Identifies ATA disks in the same way as udev's ata_id.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::{DiskIdentity, cleaned};
use crate::ata_identify::{self, AtaIdentity};
use crate::disk_query::DiskQuery;

/// The identity of a disk behind an ATA host or behind SAS, or of a CD drive.
///
/// The first source is page 0x89, which contains the IDENTIFY data. If the kernel does
/// not keep that page, the agent requests the data from the disk. The last source is page
/// 0x83, into which the SCSI translation copies the same texts.
pub fn behind_scsi(device: &SystemPath, query: &DiskQuery) -> Option<DiskIdentity> {
    let ata = sysfs::bytes(&device.join("vpd_pg89"))
        .and_then(|page| ata_identify::in_page_89(&page))
        .or_else(|| ata_identify::parse(&query.identify()?))
        .or_else(|| {
            let page = sysfs::bytes(&device.join("vpd_pg83")).or_else(|| query.page(0x83))?;
            ata_identify::in_page_83(&page)
        })?;
    Some(describe(&ata, device))
}

/// The identity of a disk in a USB enclosure, if the enclosure forwards IDENTIFY.
pub fn behind_usb(device: &SystemPath, query: &DiskQuery) -> Option<DiskIdentity> {
    let ata = ata_identify::parse(&query.identify()?)?;
    Some(describe(&ata, device))
}

fn describe(ata: &AtaIdentity, device: &SystemPath) -> DiskIdentity {
    let (model, serial_short) = (cleaned(&ata.model), cleaned(&ata.serial));
    let wwn = ata.wwn.map(|wwn| format!("0x{wwn:016x}"));
    let firmware = ata.firmware.clone();
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
        // The kernel's attribute `rev` has only four of the eight characters.
        revision: firmware
            .or_else(|| sysfs::text(&device.join("rev")))
            .and_then(|text| cleaned(&text)),
        bus: Some("ata"),
        kind: Some(if ata.is_packet_device { "cd" } else { "disk" }),
        ..DiskIdentity::default()
    }
}
