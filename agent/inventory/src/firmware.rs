//! Reports vendor, model and serial number of the machine and its firmware, from the
//! fields of SMBIOS types 0 and 1 that the kernel keeps. An aarch64 machine may have no
//! SMBIOS; then the names come from the device tree.

use super::report_types::{Firmware, SystemVendor};
use super::system_path::SystemPath;
use super::{Warning, sysfs};

/// Reads /sys/class/dmi/id, or else the device tree. A missing field becomes an empty
/// text.
pub fn collect(root: &SystemPath) -> (SystemVendor, Vec<Warning>) {
    let directory = root.join("sys/class/dmi/id");
    let field = |name: &str| sysfs::text(&directory.join(name)).unwrap_or_default();
    let mut product_name = field("product_name");
    let sku = field("product_sku");
    if !sku.is_empty() {
        // This is the format of lshw, from which Ironic's agent takes the name.
        // Operators' rules in Ironic match on it.
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
    if directory.is_dir() {
        return (vendor, Vec::new());
    }
    if let Some(vendor) = of_device_tree(root) {
        return (vendor, Vec::new());
    }
    let warning = Warning::new(
        "no SMBIOS (/sys/class/dmi/id): product, serial number and firmware are unknown",
    );
    (vendor, vec![warning])
}

/// The names in the root of the device tree (Devicetree Specification 2.3 and 3.2).
/// `None` if there is no device tree, or if it names no model. lshw reads the same
/// properties.
fn of_device_tree(root: &SystemPath) -> Option<SystemVendor> {
    let directory = root.join("proc/device-tree");
    let property = |name: &str| {
        let bytes = sysfs::bytes(&directory.join(name))?;
        // The first text of a list. Each ends with a NUL.
        let first = bytes.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(first).trim().to_owned())
    };
    let product_name = property("model").filter(|model| !model.is_empty())?;
    // `manufacturer,model`
    let compatible = property("compatible").unwrap_or_default();
    let manufacturer = compatible.split_once(',').map(|(vendor, _)| vendor);
    Some(SystemVendor {
        product_name,
        serial_number: property("serial-number").unwrap_or_default(),
        manufacturer: manufacturer.unwrap_or_default().to_owned(),
        firmware: Firmware {
            vendor: String::new(),
            version: String::new(),
            build_date: String::new(),
        },
    })
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
    fn without_smbios_the_device_tree_names_the_machine() {
        let root = PlantedTree::default();
        let directory = root.directory().join("proc/device-tree");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("compatible"), "acme,rocket\0acme,base\0").unwrap();
        assert_eq!(collect(root.path()).1.len(), 1, "there is no model");
        fs::write(directory.join("model"), "ACME Rocket\0").unwrap();
        fs::write(directory.join("serial-number"), "S9\0").unwrap();
        let (vendor, warnings) = collect(root.path());
        assert_eq!(vendor.product_name, "ACME Rocket");
        assert_eq!(vendor.serial_number, "S9");
        assert_eq!(vendor.manufacturer, "acme");
        assert_eq!(vendor.firmware.version, "");
        assert_eq!(warnings, []);
    }

    #[test]
    fn without_smbios_there_is_a_warning() {
        let root = PlantedTree::default();
        let (vendor, warnings) = collect(root.path());
        assert_eq!(vendor.serial_number, "");
        assert_eq!(warnings.len(), 1);
    }
}
