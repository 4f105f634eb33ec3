//! `log.collect_system_logs`: the archive of `landfall_logs`, plus the properties of the
//! disks and the firmware's boot entries.

use std::fmt::Write as _;

use landfall_handover::efi_entry;
use landfall_handover::efi_variables::Variables;
use landfall_inventory::disks;
use landfall_inventory::report_types::Disk;
use landfall_logs::Member;
use landfall_report::failure::Result;
use landfall_sys::system_path::SystemPath;
use serde_json::{Value, json};

/// The maximum number of journal lines in an inspection, as in Ironic's agent.
const LINES_OF_INSPECTION: usize = 10_000;

/// The archive in base64, as Ironic stores it.
pub(super) fn collect() -> String {
    tracing::info!("collecting logs for Ironic");
    archive(None)
}

/// The archive for the collector `logs` of an inspection, with a shorter journal.
pub fn logs_for_inspection() -> String {
    archive(Some(LINES_OF_INSPECTION))
}

fn archive(most: Option<usize>) -> String {
    let mut members = landfall_logs::members(most);
    if efi_entry::booted_by_uefi() {
        let entries = Variables::of_firmware().and_then(|variables| boot_entries(&variables));
        let text = entries.unwrap_or_else(|failure| format!("{failure}\n"));
        members.push(Member::new("efibootmgr", text));
    }
    members.extend(
        disks::collect(&SystemPath::live())
            .iter()
            .map(udev_properties),
    );
    landfall_logs::pack(&members)
}

/// The firmware's boot entries in the format of efibootmgr(8).
fn boot_entries(variables: &Variables) -> Result<String> {
    let entries = variables.entries()?;
    let order: Vec<String> = variables
        .order()
        .unwrap_or_default()
        .iter()
        .map(|number| format!("{number:04X}"))
        .collect();
    let mut text = format!("BootOrder: {}\n", order.join(","));
    for entry in entries {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "Boot{:04X}* {}", entry.number, entry.label);
    }
    Ok(text)
}

/// The properties that udev would set for a disk. They are included because root device
/// hints can refer to them.
fn udev_properties(disk: &Disk) -> Member {
    let kernel_name = disk.name.trim_start_matches("/dev/");
    let by_path = disk.by_path.as_deref();
    let properties = [
        ("DEVNAME", Some(disk.name.as_str())),
        ("DEVTYPE", Some("disk")),
        ("SUBSYSTEM", Some("block")),
        ("ID_MODEL", disk.model.as_deref()),
        ("ID_VENDOR", disk.vendor.as_deref()),
        ("ID_SERIAL_SHORT", disk.serial.as_deref()),
        ("ID_WWN", disk.wwn.as_deref()),
        ("ID_WWN_WITH_EXTENSION", disk.wwn_with_extension.as_deref()),
        (
            "ID_WWN_VENDOR_EXTENSION",
            disk.wwn_vendor_extension.as_deref(),
        ),
        ("ID_BUS", disk.tran.as_deref()),
        (
            "ID_PATH",
            by_path.map(|path| path.trim_start_matches("/dev/disk/by-path/")),
        ),
    ];
    let known: serde_json::Map<String, Value> = properties
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), json!(value?))))
        .collect();
    Member::new(
        format!("udev/{kernel_name}"),
        format!("{:#}\n", Value::Object(known)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_comes_out_of_its_base64() {
        let members = landfall_logs::fixtures::unpack(&logs_for_inspection());
        assert!(members.contains_key("mount"), "{:?}", members.keys());
    }

    #[test]
    fn boot_entries_are_listed_in_their_order() {
        const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &[u8]| {
            let path = directory.path().join(format!("{name}-{GLOBAL}"));
            std::fs::write(path, [&[7, 0, 0, 0], content].concat()).unwrap();
        };
        write("BootOrder", &[0x0a, 0, 1, 0]);
        write("Boot000A", b"");
        let text = boot_entries(&Variables::for_test(directory.path())).unwrap();
        assert_eq!(text, "BootOrder: 000A,0001\nBoot000A* \n");
    }
}
