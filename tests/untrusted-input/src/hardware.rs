//! Fuzz functions for data from the kernel, the firmware and the devices.

use landfall_inventory::hint_expression::Expression;
use landfall_inventory::{ata_identify, disk_query, memory, smbios, vpd};
use landfall_sys::uevent::Uevent;

/// Reads a uevent, the kernel's message about a device.
pub fn uevent(data: &[u8]) {
    if let Some(event) = Uevent::parse(data) {
        let _ = (event.subsystem(), event.modalias(), event.devtype());
    }
}

pub fn smbios(data: &[u8]) {
    for structure in smbios::structures(data) {
        let _ = (
            structure.byte(4),
            structure.word(4),
            structure.double_word(4),
        );
    }
    let _ = memory::modules_mib(data);
}

/// Reads a page of a SCSI disk's vital product data.
pub fn vpd(data: &[u8]) {
    let _ = (vpd::unit_serial(data), vpd::pre_spc3_name(data));
    let _ = vpd::designators(data).count();
    let _ = vpd::lists(data, 0x83);
    let _ = (
        ata_identify::in_page_83(data),
        ata_identify::in_page_89(data),
    );
}

/// Reads IDENTIFY data as the disk sends it, and as a captured tree stores it.
pub fn ata_identify(data: &[u8]) {
    let _ = ata_identify::parse(data);
    let text = String::from_utf8_lossy(data);
    if let Some(words) = disk_query::words(&text) {
        let _ = ata_identify::parse(&words);
    }
    let _ = disk_query::bytes(&text);
}

/// Compares a root device hint (first line) with a property of a disk (the
/// rest).
pub fn root_device_hint(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (hint, value) = text.split_once('\n').unwrap_or((&text, ""));
    if let Ok(expression) = Expression::for_text(hint) {
        let _ = (expression.matches_text(value), expression.is_exclusion());
    }
    if let Ok(expression) = Expression::for_size(hint) {
        let _ = expression.matches_size(value.parse().unwrap_or(100.0));
    }
}
