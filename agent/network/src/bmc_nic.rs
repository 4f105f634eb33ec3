//! Detects the USB NIC that a BMC presents to its host. Its MAC address is the same on
//! every host of a model. So no port of the node may have this address: a lookup by
//! this address finds several nodes (Ironic's DuplicateNodeOnLookup).

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// Drivers of the generic USB network classes, to which the USB NIC of a BMC belongs.
/// Most other USB NICs have drivers of their own.
const DRIVERS: [&str; 3] = ["cdc_ether", "cdc_ncm", "rndis_host"];

/// Whether the NIC `name` leads to the BMC, according to its driver. `root` is the
/// directory `/`, or a copy of it in tests.
pub fn leads_to_bmc(root: &SystemPath, name: &str) -> bool {
    let driver = root.join("sys/class/net").join(name).join("device/driver");
    sysfs::link_name(&driver).is_some_and(|driver| DRIVERS.contains(&driver.as_str()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use landfall_sys::sys_tree::PlantedTree;

    use super::*;

    #[test]
    fn the_driver_identifies_a_bmc_nic() {
        for (driver, expected) in [
            ("cdc_ether", true),
            ("cdc_ncm", true),
            ("rndis_host", true),
            ("r8152", false),
            ("virtio_net", false),
        ] {
            let root = PlantedTree::default();
            let device = root.directory().join("sys/class/net/eth0/device");
            fs::create_dir_all(&device).unwrap();
            symlink(format!("../drivers/{driver}"), device.join("driver")).unwrap();
            assert_eq!(leads_to_bmc(root.path(), "eth0"), expected, "{driver}");
            assert!(!leads_to_bmc(root.path(), "eth1"), "not there");
        }
    }
}
