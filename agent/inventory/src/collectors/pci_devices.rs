//! The collector `pci-devices`. Ironic's `pci-devices` hook turns its list into
//! capabilities of the node.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use serde::Serialize;

/// One PCI device. All numbers are hexadecimal text without `0x`, except the
/// NUMA node, which is the kernel's decimal text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PciDevice {
    vendor_id: String,
    product_id: String,
    class: String,
    revision: Option<String>,
    bus: String,
    numa_node_id: Option<String>,
}

/// Reads /sys/bus/pci/devices, in the order of the addresses. Skips a device that lacks
/// its vendor, product or class.
pub fn collect(root: &SystemPath) -> Vec<PciDevice> {
    let directory = root.join("sys/bus/pci/devices");
    sysfs::names(&directory)
        .into_iter()
        .filter_map(|bus| {
            let device = directory.join(&bus);
            let hex = |name: &str| {
                let text = sysfs::text(&device.join(name))?;
                text.strip_prefix("0x").map(str::to_owned)
            };
            Some(PciDevice {
                vendor_id: hex("vendor")?,
                product_id: hex("device")?,
                class: hex("class")?,
                revision: hex("revision"),
                numa_node_id: sysfs::text(&device.join("numa_node")),
                bus,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;
    use serde_json::json;

    use super::*;

    #[test]
    fn devices_have_the_format_of_the_original() {
        let root = plant(
            "sys/bus/pci/devices/0000:00:1f.2/vendor = 0x8086\\n\n\
             sys/bus/pci/devices/0000:00:1f.2/device = 0x2922\\n\n\
             sys/bus/pci/devices/0000:00:1f.2/class = 0x010601\\n\n\
             sys/bus/pci/devices/0000:00:1f.2/revision = 0x02\\n\n\
             sys/bus/pci/devices/0000:00:1f.2/numa_node = -1\\n\n\
             sys/bus/pci/devices/0000:00:02.0/vendor = 0x1af4\\n\n\
             sys/bus/pci/devices/0000:00:02.0/device = 0x1000\\n\n\
             sys/bus/pci/devices/0000:00:02.0/class = 0x020000\\n\n\
             sys/bus/pci/devices/0000:00:03.0/vendor = 8086\\n\n\
             sys/bus/pci/devices/0000:00:04.0/\n",
        );
        assert_eq!(
            serde_json::to_value(collect(root.path())).unwrap(),
            json!([
                {"vendor_id": "1af4", "product_id": "1000", "class": "020000",
                 "revision": null, "bus": "0000:00:02.0", "numa_node_id": null},
                {"vendor_id": "8086", "product_id": "2922", "class": "010601",
                 "revision": "02", "bus": "0000:00:1f.2", "numa_node_id": "-1"},
            ])
        );
    }
}
