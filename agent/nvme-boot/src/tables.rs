//! Reads the tables of this machine. Each driver of the firmware that has booted from
//! NVMe/TCP has its own table: NBFT, NBFT1 and so on.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use crate::nbft::{LARGEST, Nbft};

/// The maximum number of tables that are read. Each NIC with a driver of its own in the
/// firmware can have a table.
const MOST_TABLES: usize = 16;

/// One table of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirmwareTable {
    /// The name of its file.
    pub name: String,
    pub content: Nbft,
}

/// The valid tables below this mounted /sys, and a line for each fault.
pub fn read_tables(sysfs: &SystemPath) -> (Vec<FirmwareTable>, Vec<String>) {
    let directory = sysfs.join("firmware/acpi/tables");
    let names = sysfs::names(&directory).into_iter();
    let names = names.filter(|name| name.starts_with("NBFT"));
    let (mut tables, mut faults) = (Vec::new(), Vec::new());
    for name in names.take(MOST_TABLES) {
        let Some(bytes) = sysfs::bytes(&directory.join(&name)) else {
            faults.push(format!(
                "the firmware's table {name} cannot be read; it is ignored"
            ));
            continue;
        };
        let bytes = &bytes[..bytes.len().min(LARGEST)];
        match Nbft::parse(bytes) {
            Ok(Some(content)) => {
                let each = content.faults.iter();
                faults.extend(each.map(|fault| {
                    format!("the firmware's table {name}: {fault}; this part is ignored")
                }));
                tables.push(FirmwareTable { name, content });
            }
            Ok(None) => {}
            Err(fault) => faults.push(format!(
                "the firmware's table {name}: {fault}; the table is ignored"
            )),
        }
    }
    (tables, faults)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::nbft::fixtures::{Nic, table};

    #[test]
    fn every_table_is_read_and_a_damaged_one_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("firmware/acpi/tables");
        fs::create_dir_all(&directory).unwrap();
        let good = table(&[Nic::new(1, [2; 6], "192.0.2.5", 24)], &[], &[]);
        let mut unused = good.clone();
        unused[70] = 0;
        crate::nbft::fixtures::correct_checksum(&mut unused);
        for (name, content) in [
            ("NBFT", &good[..]),
            ("NBFT1", &good[..good.len() - 1]),
            ("NBFT2", &unused),
            ("NBFT3", &good),
            ("APIC", b"APIC"),
        ] {
            fs::write(directory.join(name), content).unwrap();
        }
        let sysfs = SystemPath::captured(root.path()).unwrap();
        let (tables, faults) = read_tables(&sysfs);
        let names: Vec<&str> = tables.iter().map(|table| &table.name[..]).collect();
        assert_eq!(names, ["NBFT", "NBFT3"]);
        let [fault] = &faults[..] else {
            panic!("{faults:?}");
        };
        assert!(
            fault.starts_with("the firmware's table NBFT1: expected ")
                && fault.ends_with("; the table is ignored"),
            "{fault}"
        );
        let empty = tempfile::tempdir().unwrap();
        let sysfs = SystemPath::captured(empty.path()).unwrap();
        assert_eq!(read_tables(&sysfs), (Vec::new(), Vec::new()));
    }
}
