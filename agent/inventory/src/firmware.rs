//! Reports vendor, model and serial number of the machine and its firmware, from
//! the fields of SMBIOS types 0 and 1 that the kernel keeps.

use super::report_types::{Firmware, SystemVendor};
use super::system_path::SystemPath;
use super::{Warning, sysfs};

/// Reads /sys/class/dmi/id. A missing field becomes an empty text.
pub fn collect(root: &SystemPath) -> (SystemVendor, Vec<Warning>) {
    let directory = root.join("sys/class/dmi/id");
    let field = |name: &str| sysfs::text(&directory.join(name)).unwrap_or_default();
    let mut product_name = field("product_name");
    let sku = field("product_sku");
    if !sku.is_empty() {
        // This is lshw's format, so operators match on it in Ironic.
        product_name = format!("{product_name} ({sku})").trim_start().to_owned();
    }
    let vendor = SystemVendor {
        product_name,
        serial_number: field("product_serial"),
        manufacturer: field("sys_vendor"),
        firmware: Firmware {
            vendor: field("bios_vendor"),
            version: field("bios_version"),
            build_date: field("bios_date"),
        },
    };
    let mut warnings = Vec::new();
    if !directory.is_dir() {
        warnings.push(Warning::new(
            "no SMBIOS (/sys/class/dmi/id): product, serial number and firmware are unknown",
        ));
    }
    (vendor, warnings)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sys_tree::PlantedTree;

    #[test]
    fn sku_goes_in_brackets() {
        for (product, sku, expected) in [
            ("Rocket_9000\n", "SKU-9\n", "Rocket_9000 (SKU-9)"),
            ("Rocket 9000  \n", "\n", "Rocket 9000"),
            ("\n", "SKU-9\n", "(SKU-9)"),
            ("\n", "\n", ""),
        ] {
            let root = PlantedTree::default();
            let directory = root.directory().join("sys/class/dmi/id");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("product_name"), product).unwrap();
            fs::write(directory.join("product_sku"), sku).unwrap();
            let (vendor, warnings) = collect(root.path());
            assert_eq!(vendor.product_name, expected);
            assert_eq!(vendor.manufacturer, "");
            assert_eq!(warnings, []);
        }
    }

    #[test]
    fn without_smbios_there_is_a_warning() {
        let root = PlantedTree::default();
        let (vendor, warnings) = collect(root.path());
        assert_eq!(vendor.serial_number, "");
        assert_eq!(warnings.len(), 1);
    }
}
