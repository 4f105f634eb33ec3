//! How an NVMe disk is attached.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// Whether a disk is attached by NVMe/TCP. `block` is its directory in /sys.
///
/// With native multipath a disk belongs to a subsystem, and the directory of the
/// subsystem has a link for each controller. Without multipath the disk belongs to a
/// single controller.
pub fn is_nvme_tcp(block: &SystemPath) -> bool {
    let device = block.join("device");
    let is_tcp = |controller: &SystemPath| {
        sysfs::text(&controller.join("transport")).as_deref() == Some("tcp")
    };
    is_tcp(&device) || { sysfs::names(&device).into_iter() }
        .filter(|name| name.starts_with("nvme"))
        .any(|name| is_tcp(&device.join(&name)))
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    #[test]
    fn the_transport_is_that_of_a_controller() {
        for (lines, expected) in [
            (r"sys/block/nvme0n1/device/transport = tcp\n", true),
            (r"sys/block/nvme0n1/device/transport = pcie\n", false),
            (r"sys/block/nvme0n1/device/nvme1/transport = tcp\n", true),
            (r"sys/block/nvme0n1/device/nvme1/transport = pcie\n", false),
            (r"sys/block/nvme0n1/size = 8\n", false),
        ] {
            let root = plant(lines);
            let block = root.path().join("sys/block/nvme0n1");
            assert_eq!(is_nvme_tcp(&block), expected, "{lines}");
        }
    }
}
