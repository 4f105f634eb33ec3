//! Determines whether the disk to install onto, or one of the disks that it consists
//! of, is reached through a network connection that the firmware makes. The installed
//! system then needs the network before its disk.

use std::path::Path;

use landfall_boot_params::NetArgs;
use landfall_devices::devices_below::{devices_below, in_sysfs};
use landfall_devices::nvme_transport::is_nvme_tcp;
use landfall_iscsi::firmware_disk;
use landfall_nvme_boot::{FirmwareTable, read_tables};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// The storage protocols by which this machine reaches a disk, or a disk below it,
/// through a connection that the firmware made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StorageNetwork {
    pub nvme: bool,
    pub iscsi: bool,
}

impl StorageNetwork {
    /// Determines the protocols for a disk of this machine. There are none if the disk is
    /// not in sysfs.
    pub(crate) fn of(disk: &Path) -> Self {
        let Some(block) = in_sysfs(disk) else {
            return Self::default();
        };
        let (system, below) = (SystemPath::live(), devices_below(&block));
        Self {
            nvme: is_of_nvme_boot(&below, &tables_in_use(&system)),
            iscsi: firmware_disk::is_firmware_target(&system, &below),
        }
    }
}

/// The valid tables of an NVMe boot (NBFT), unless the command line of this boot switches
/// them off.
fn tables_in_use(system: &SystemPath) -> Vec<FirmwareTable> {
    let line = sysfs::text(&system.join("proc/cmdline")).unwrap_or_default();
    match NetArgs::parse(&line).ignores_nbft {
        true => Vec::new(),
        false => read_tables(&system.join("sys")).0,
    }
}

/// Whether one of the disks is an NVMe/TCP disk of a subsystem that the tables name.
fn is_of_nvme_boot(disks: &[SystemPath], tables: &[FirmwareTable]) -> bool {
    let is_named = |subsystem: &str| {
        let mut namespaces = tables.iter().flat_map(|table| &table.content.namespaces);
        namespaces.any(|namespace| namespace.subsystem == subsystem)
    };
    let mut disks = disks.iter().filter(|disk| is_nvme_tcp(disk));
    disks.any(|disk| {
        // With multipath, `device` is the subsystem of the disk. Without multipath, it
        // is the controller. Both have this file.
        let subsystem = sysfs::text(&disk.join("device/subsysnqn"));
        subsystem.is_some_and(|subsystem| is_named(&subsystem))
    })
}

#[cfg(test)]
mod tests {
    use landfall_nvme_boot::nbft::fixtures::{Namespace, Nic, table};
    use landfall_sys::sys_tree::plant;

    use super::*;

    const TREE: &str = r"sys/class/block/nvme0n1 -> ../../devices/nvme0n1
sys/class/block/nvme1n1 -> ../../devices/nvme1n1
sys/class/block/nvme2n1 -> ../../devices/nvme2n1
sys/class/block/md0 -> ../../devices/md0
sys/class/block/dm-0 -> ../../devices/dm-0
sys/devices/nvme0n1/device/nvme0/transport = tcp\n
sys/devices/nvme0n1/device/subsysnqn = nqn.example:a\n
sys/devices/nvme0n1/nvme0n1p1/partition = 1\n
sys/devices/nvme1n1/device/transport = tcp\n
sys/devices/nvme1n1/device/subsysnqn = nqn.example:b\n
sys/devices/nvme2n1/device/transport = pcie\n
sys/devices/nvme2n1/device/subsysnqn = nqn.example:a\n
sys/devices/md0/slaves/nvme2n1 -> ../../nvme2n1
sys/devices/md0/slaves/nvme0n1p1 -> ../../nvme0n1/nvme0n1p1
sys/devices/dm-0/slaves/md0 -> ../../md0
";

    fn planted(more: &str) -> landfall_sys::sys_tree::PlantedTree {
        let root = plant(&format!("{TREE}{more}"));
        let tables = root.directory().join("sys/firmware/acpi/tables");
        std::fs::create_dir_all(&tables).unwrap();
        let namespace = Namespace::new(1, "nqn.example:a", [192, 0, 2, 9].into(), &[1]);
        let nic = Nic::new(1, [2; 6], "192.0.2.15", 24);
        std::fs::write(tables.join("NBFT"), table(&[nic], &[namespace], &[])).unwrap();
        root
    }

    #[test]
    fn a_disk_and_volumes_on_it_are_of_the_nvme_boot() {
        let root = planted("");
        let tables = tables_in_use(root.path());
        for (name, expected) in [
            ("nvme0n1", true),
            ("md0", true),
            ("dm-0", true),
            // nvme1n1 is of another subsystem, and nvme2n1 is a PCIe disk.
            ("nvme1n1", false),
            ("nvme2n1", false),
        ] {
            let below = devices_below(&root.path().join("sys/class/block").join(name));
            assert_eq!(is_of_nvme_boot(&below, &tables), expected, "{name}");
        }
    }

    #[test]
    fn a_table_that_is_ignored_or_damaged_does_not_count() {
        let ignored = planted("proc/cmdline = quiet rd.nvmf.nonbft\\n\n");
        assert_eq!(tables_in_use(ignored.path()), []);
        let damaged = planted("");
        let file = damaged.directory().join("sys/firmware/acpi/tables/NBFT");
        std::fs::write(file, b"NBFT").unwrap();
        assert_eq!(tables_in_use(damaged.path()), []);
    }
}
