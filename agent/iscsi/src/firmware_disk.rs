//! Determines whether a disk is reached over a session to a target in the firmware's
//! table.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use crate::boot_table::BootTable;
use crate::kernel::MODULE;

/// Whether one of the disks is reached over a session of `iscsi_tcp` to a target in the
/// firmware's table. `disks` are directories in /sys.
pub fn is_firmware_target(system: &SystemPath, disks: &[SystemPath]) -> bool {
    let Some(table) = BootTable::read(&system.join("sys")) else {
        return false;
    };
    disks.iter().any(|disk| {
        target_of(system, disk)
            .is_some_and(|target| table.targets.iter().any(|known| known.name == target))
    })
}

/// The name of the target whose session of `iscsi_tcp` leads to this disk.
fn target_of(system: &SystemPath, block: &SystemPath) -> Option<String> {
    // .../host3/session1/target3:0:0/3:0:0:1/block/sda
    let device = block.resolved()?;
    let named = |prefix: &str| {
        device.ancestors().find_map(|place| {
            let name = place.name()?;
            let number: u32 = name.strip_prefix(prefix)?.parse().ok()?;
            Some(number)
        })
    };
    let (session, host) = (named("session")?, named("host")?);
    let driver = sysfs::text(&system.join(format!("sys/class/scsi_host/host{host}/proc_name")));
    let target = system.join(format!(
        "sys/class/iscsi_session/session{session}/targetname"
    ));
    (driver.as_deref() == Some(MODULE))
        .then(|| sysfs::text(&target))
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_disk_is_traced_to_its_target() {
        let root = tempfile::tempdir().unwrap();
        let sys = root.path().join("sys");
        for (path, content) in [
            (
                "class/iscsi_session/session1/targetname",
                "iqn.2003-01.org.example:x",
            ),
            (
                "class/iscsi_session/session2/targetname",
                "iqn.2003-01.org.example:other",
            ),
            ("class/scsi_host/host3/proc_name", "iscsi_tcp"),
            ("class/scsi_host/host4/proc_name", "iscsi_tcp"),
            ("class/scsi_host/host5/proc_name", "qla4xxx"),
            (
                "firmware/ibft/initiator/initiator-name",
                "iqn.2010-04.org.example:host",
            ),
            (
                "firmware/ibft/target0/target-name",
                "iqn.2003-01.org.example:x",
            ),
            ("firmware/ibft/target0/ip-addr", "192.0.2.1"),
        ] {
            let path = sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let class = sys.join("class/block");
        fs::create_dir_all(&class).unwrap();
        for (name, device) in [
            (
                "sda",
                "devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sda",
            ),
            (
                "sdb",
                "devices/platform/host4/session2/target4:0:0/4:0:0:1/block/sdb",
            ),
            (
                "sdc",
                "devices/pci/host5/session1/target5:0:0/5:0:0:1/block/sdc",
            ),
            ("vda", "devices/pci/virtio0/block/vda"),
        ] {
            fs::create_dir_all(sys.join(device)).unwrap();
            symlink(format!("../../{device}"), class.join(name)).unwrap();
        }
        let system = SystemPath::captured(root.path()).unwrap();
        let found = |names: &str| {
            let names = names.split_whitespace();
            let disks: Vec<_> = names
                .map(|name| system.join("sys/class/block").join(name))
                .collect();
            is_firmware_target(&system, &disks)
        };
        assert!(found("sda") && found("vda sda"));
        assert!(!found("sdb") && !found("sdc") && !found("vda"));
        fs::remove_dir_all(sys.join("firmware")).unwrap();
        assert!(!found("sda"));
    }
}
