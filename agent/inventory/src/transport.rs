//! Determines how a disk is connected, in the words of lsblk's TRAN column.

use super::sysfs;
use super::system_path::SystemPath;

/// The transport as lsblk reports it. The checks and their order are those of lsblk
/// (util-linux 2.38, `get_transport` of lsblk.c). `block` is the disk's directory in
/// /sys, `hctl` its SCSI address. Newer versions of lsblk also report `virtio` and `mmc`,
/// but hints written for the ramdisk of Ironic's agent do not expect these values.
pub fn transport(block: &SystemPath, name: &str, hctl: Option<&str>) -> Option<&'static str> {
    let Some(hctl) = hctl else {
        return name.starts_with("nvme").then_some("nvme");
    };
    let host = format!("host{}", hctl.split(':').next()?);
    let class = |class: &str| block.join("/sys/class").join(class).join(&host);
    if class("spi_host").is_dir() {
        return Some("spi");
    }
    if class("fc_host").is_dir() {
        let name = sysfs::text(&class("fc_host").join("symbolic_name"))?;
        return Some(if name.contains(" over ") {
            "fcoe"
        } else {
            "fc"
        });
    }
    if class("sas_host").is_dir() || block.join("device/sas_device").exists() {
        return Some("sas");
    }
    if block.join("device/ieee1394_id").exists() {
        return Some("sbp");
    }
    if class("iscsi_host").is_dir() {
        return Some("iscsi");
    }
    if block.as_path().to_str()?.contains("usb") {
        return Some("usb");
    }
    let driver = sysfs::text(&class("scsi_host").join("proc_name"))?;
    if driver.starts_with("ahci") || driver.starts_with("sata") {
        return Some("sata");
    }
    driver.contains("ata").then_some("ata")
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    const HOST: &str = "sys/class/scsi_host/host2/proc_name";

    #[test]
    fn the_transport_is_read_from_the_host() {
        for (line, expected) in [
            (format!("{HOST} = ahci\\n"), Some("sata")),
            (format!("{HOST} = sata_nv\\n"), Some("sata")),
            (format!("{HOST} = ata_piix\\n"), Some("ata")),
            (format!("{HOST} = virtio_scsi\\n"), None),
            ("sys/class/sas_host/host2/".into(), Some("sas")),
            ("sys/class/spi_host/host2/".into(), Some("spi")),
            ("sys/class/iscsi_host/host2/".into(), Some("iscsi")),
            (
                "sys/class/fc_host/host2/symbolic_name = QLE2562\\n".into(),
                Some("fc"),
            ),
            (
                "sys/class/fc_host/host2/symbolic_name = bnx2fc over eth3\\n".into(),
                Some("fcoe"),
            ),
            (
                "sys/devices/x/sda/device/ieee1394_id = 0001\\n".into(),
                Some("sbp"),
            ),
            ("sys/devices/x/sda/device/sas_device/x/".into(), Some("sas")),
        ] {
            let root = plant(&line);
            let block = root.path().join("sys/devices/x/sda");
            assert_eq!(
                transport(&block, "sda", Some("2:0:0:0")),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn other_transports_are_read_from_the_path_or_the_name() {
        let root = plant("");
        let at = |path: &str| root.path().join("sys/devices").join(path);
        let usb = at("pci0000:00/0000:00:14.0/usb2/2-4/2-4:1.0/host7/sda");
        assert_eq!(transport(&usb, "sda", Some("7:0:0:0")), Some("usb"));
        assert_eq!(transport(&at("nvme0n1"), "nvme0n1", None), Some("nvme"));
        assert_eq!(transport(&at("vda"), "vda", None), None);
    }
}
