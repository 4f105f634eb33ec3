//! The matrix of machines that QEMU can emulate, from the table
//! tests/hardware/matrix.txt.
//!
//! The test target `hardware` has one test for each row ([`Row::run`]). A row is an
//! installation, or a guest with many devices. The row of a machine that cannot work
//! contains the reason.

mod devices;
mod emulated;
mod installation;

use anyhow::{Context as _, Result, ensure};
use landfall_initramfs::arch::Arch;

pub use devices::Devices;
pub use emulated::Emulated;
pub use installation::Installation;

use crate::known_hardware::lines;
use crate::lab::Lab;
use crate::ramdisk_parts::{Kernel, ModuleSet};

const TABLE: &str = include_str!("../hardware/matrix.txt");

/// The title of the rows that are installations.
pub const INSTALLATIONS: &str = "installations";
/// The title of the rows that are guests with devices.
pub const DEVICES: &str = "devices";

const KERNELS: [(&str, Kernel); 3] = [
    ("cloud", Kernel::Cloud),
    ("generic", Kernel::Generic),
    ("rpm", Kernel::Rpm),
];

const MODULE_SETS: [(&str, ModuleSet); 2] = [("vm", ModuleSet::Vm), ("server", ModuleSet::Server)];

/// A row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: &'static str,
    /// The title above the row: [`INSTALLATIONS`] or [`DEVICES`].
    pub title: &'static str,
    /// The other cells, as they are written.
    pub cells: Vec<&'static str>,
    pub machine: Machine,
    /// Why the machine cannot work.
    pub reason: Option<&'static str>,
}

/// The machine that a row describes.
#[derive(Debug, Clone)]
pub enum Machine {
    Installation(Installation),
    Devices(Devices),
}

impl Row {
    /// Whether the row can run with hosts of this architecture. The rows describe PCs; some
    /// of their installations are also possible on aarch64.
    #[must_use]
    pub fn is_for(&self, arch: Arch) -> bool {
        match (arch, &self.machine) {
            (Arch::X86_64, _) => true,
            (Arch::Aarch64, Machine::Installation(one)) => one.is_possible_on_aarch64(),
            (Arch::Aarch64, Machine::Devices(_)) => false,
        }
    }

    /// Boots the machine, and checks what the row promises.
    pub async fn run(&self, lab: &Lab) -> Result<()> {
        match &self.machine {
            Machine::Installation(installation) => installation.run(lab).await,
            Machine::Devices(devices) => devices.run(lab).await,
        }
    }
}

/// All rows of the table.
pub fn rows() -> Result<Vec<Row>> {
    parse(TABLE)
}

fn parse(table: &'static str) -> Result<Vec<Row>> {
    let mut title = "";
    let mut rows: Vec<Row> = Vec::new();
    for line in lines(table) {
        if let Some(text) = line.strip_prefix("# ") {
            title = text;
            continue;
        }
        let row = row(title, line).with_context(|| format!("matrix.txt: {line}"))?;
        let is_new = rows.iter().all(|other| other.name != row.name);
        ensure!(is_new, "matrix.txt: {}: two rows have this name", row.name);
        rows.push(row);
    }
    Ok(rows)
}

fn row(title: &'static str, line: &'static str) -> Result<Row> {
    let (cells, reason) = match line.split_once(" -- ") {
        Some((cells, reason)) => (cells, Some(reason)),
        None => (line, None),
    };
    let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
    let (name, cells) = cells.split_first().context("expected a name")?;
    let is_name = |letter: char| letter.is_ascii_lowercase() || "_0123456789".contains(letter);
    ensure!(
        !name.is_empty() && name.chars().all(is_name),
        "expected a name of small letters, digits and _, found '{name}'"
    );
    let machine = match title {
        INSTALLATIONS => Machine::Installation(Installation::parse(cells)?),
        DEVICES => Machine::Devices(Devices::parse(cells)?),
        _ => anyhow::bail!(
            "expected the title '# {INSTALLATIONS}' or '# {DEVICES}' above the row, \
             found '# {title}'"
        ),
    };
    Ok(Row {
        name,
        title,
        cells: cells.to_vec(),
        machine,
        reason,
    })
}

/// Returns the value for the word `found`. `column` is the name of the column for the
/// error.
fn value<T: Copy>(column: &str, found: &str, values: &[(&str, T)]) -> Result<T> {
    let value = values.iter().find(|(word, _)| *word == found);
    let (_, value) = value.with_context(|| {
        let words: Vec<&str> = values.iter().map(|(word, _)| *word).collect();
        format!("{column}: expected {}, found '{found}'", words.join(", "))
    })?;
    Ok(*value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::known_hardware;

    /// docs/hardware.md names for each driver the device of QEMU with which it was
    /// tried. A row must test exactly these devices.
    #[test]
    fn the_rows_have_the_devices_that_the_drivers_were_tried_as() {
        let rows = rows().unwrap();
        let tried = rows.iter().filter(|row| row.reason.is_none());
        let in_rows: BTreeSet<&str> = tried
            .filter_map(|row| match &row.machine {
                Machine::Installation(_) => None,
                Machine::Devices(devices) => Some(devices),
            })
            .flat_map(|devices| devices.driven.iter().map(|device| device.name))
            .collect();
        let drivers = known_hardware::devices().unwrap();
        let tried_as = drivers
            .iter()
            .flat_map(|driver| driver.tried.iter().copied());
        let tried_as: BTreeSet<&str> = tried_as.collect();
        assert_eq!(
            in_rows, tried_as,
            "devices of tests/hardware/matrix.txt, and column TRIED of devices.txt"
        );
        for name in in_rows {
            let drivers = drivers.iter().filter(|driver| driver.tried.contains(&name));
            assert_eq!(drivers.count(), 1, "{name}: expected one driver");
        }
    }

    #[test]
    fn some_rows_are_also_for_aarch64() {
        let mut rows = rows().unwrap();
        rows.retain(|row| row.is_for(Arch::Aarch64) && row.reason.is_none());
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        let expected = [
            "iso_uefi_server",
            "stick_uefi",
            "pxe_uefi_server",
            "http_uefi",
            "uki_uefi",
            "iso_secure_boot",
            "pxe_secure_boot",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_reason_ends_the_row() {
        let table = "Header\n\n# devices\none | cloud | vm | nvme igb | - -- no igb\n";
        let rows = parse(table).unwrap();
        assert_eq!(rows[0].reason, Some("no igb"));
        assert_eq!(rows[0].cells, ["cloud", "vm", "nvme igb", "-"]);
    }

    #[test]
    fn faults_of_the_table() {
        for (row, expected) in [
            (
                "# installations\none | bios | floppy | cloud | vm | nvme",
                "way: expected iso, ",
            ),
            (
                "# installations\none | bios | iso | cloud | vm",
                "expected six cells, found 5",
            ),
            (
                "# devices\none | cloud | vm | nvme | -",
                "expected a NIC, found none",
            ),
            (
                "# devices\none | cloud | vm | virtio-net-pci floppy | -",
                "emulated.rs, found floppy",
            ),
            (
                "# devices\nOne | cloud | vm | virtio-net-pci | -",
                "expected a name of small letters",
            ),
            ("# others\none | cloud", "found '# others'"),
            (
                "# devices\none | cloud | vm | igb | -\none | cloud | vm | igb | -",
                "two rows have this name",
            ),
        ] {
            let table: &'static str = format!("Header\n\n{row}\n").leak();
            let error = format!("{:#}", parse(table).unwrap_err());
            assert!(error.contains(expected), "{row}: {error}");
        }
    }
}
