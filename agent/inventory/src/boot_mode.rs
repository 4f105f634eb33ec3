//! Detects how the machine was booted.

use super::report_types::Boot;
use super::system_path::SystemPath;

/// Reads the boot mode from /sys. `bootif` is the kernel argument `BOOTIF`, verbatim,
/// because Ironic itself normalises it and then compares it with the ports' addresses.
pub fn collect(root: &SystemPath, bootif: Option<&str>) -> Boot {
    // The kernel creates this directory only if the machine was booted through UEFI.
    let uefi = root.join("sys/firmware/efi").is_dir();
    Boot {
        current_boot_mode: if uefi { "uefi" } else { "bios" },
        pxe_interface: bootif.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys_tree::PlantedTree;

    #[test]
    fn firmware_directory_means_uefi() {
        let root = PlantedTree::default();
        let bios = collect(root.path(), None);
        assert_eq!(bios.current_boot_mode, "bios");
        assert_eq!(bios.pxe_interface, None);
        std::fs::create_dir_all(root.directory().join("sys/firmware/efi")).unwrap();
        let uefi = collect(root.path(), Some("01-52-54-00-AA-BB-01"));
        assert_eq!(uefi.current_boot_mode, "uefi");
        assert_eq!(uefi.pxe_interface.as_deref(), Some("01-52-54-00-AA-BB-01"));
    }
}
