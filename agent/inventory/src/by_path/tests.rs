//! Tests paths that the captured device trees in the test data do not have.

use std::path::PathBuf;

use landfall_sys::sys_tree::plant;

use super::scsi::lun_text;
use super::*;

/// Returns the by-path links of the disk whose directory below sys/devices is `disk`.
/// `lines` are added to the tree. The subsystem of a bus device follows from its name
/// in `disk`.
fn names_of(disk: &str, lines: &[&str]) -> Vec<String> {
    let mut text = lines.join("\n");
    let mut directory = PathBuf::from("sys/devices");
    for part in Path::new(disk).components() {
        directory.push(part);
        let name = part.as_os_str().to_str().unwrap();
        let subsystem = match name.split_once(':') {
            Some(("0000", _)) => "pci",
            Some((_, rest)) if rest.matches(':').count() == 2 => "scsi",
            _ if name.starts_with("nvme") => "nvme",
            _ if name.ends_with(".mmc") => "platform",
            _ => {
                text += &format!("\n{}/", directory.display());
                continue;
            }
        };
        text += &format!("\n{0}/subsystem -> /bus/{subsystem}", directory.display());
        text += &format!("\n{}/uevent = DEVTYPE=scsi_device\\n", directory.display());
    }
    let root = plant(&text);
    let block = root.path().join("sys/devices").join(disk);
    PathId::of(&block).links(block.name().unwrap())
}

#[test]
fn sas_disks_by_phy_expander_or_address() {
    let direct =
        "pci0000:00/0000:00:03.0/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda";
    let behind = "pci0000:00/0000:00:03.0/host0/port-0:0/expander-0:0/port-0:0:1/end_device-0:0:1/target0:0:1/0:0:1:0/block/sda";
    for (disk, phys, expected) in [
        (direct, 1, "pci-0000:00:03.0-sas-phy1-lun-0"),
        (direct, 4, "pci-0000:00:03.0-sas-0x5000c500a1-lun-0"),
        (behind, 1, "pci-0000:00:03.0-sas-exp0x500e004-phy7-lun-0"),
    ] {
        let found = names_of(
            disk,
            &[
                &format!("sys/class/sas_port/port-0:0/num_phys = {phys}"),
                &format!("sys/class/sas_port/port-0:0:1/num_phys = {phys}"),
                "sys/class/sas_device/end_device-0:0/phy_identifier = 1",
                "sys/class/sas_device/end_device-0:0/sas_address = 0x5000c500a1",
                "sys/class/sas_device/end_device-0:0:1/phy_identifier = 7",
                "sys/class/sas_device/expander-0:0/sas_address = 0x500e004",
            ],
        );
        assert_eq!(found, [format!("/dev/disk/by-path/{expected}")]);
    }
}

#[test]
fn multipath_nvme_disk_is_named_by_its_controller() {
    let found = names_of(
        "virtual/nvme-subsystem/nvme-subsys3/nvme1n1",
        &[
            "sys/class/nvme/nvme1 -> ../../devices/pci0000:00/0000:00:02.0/nvme/nvme1",
            "sys/devices/pci0000:00/0000:00:02.0/subsystem -> /bus/pci",
            "sys/devices/pci0000:00/0000:00:02.0/nvme/nvme1/subsystem -> /class/nvme",
            "sys/devices/virtual/nvme-subsystem/nvme-subsys3/nvme1n1/nsid = 1",
        ],
    );
    assert_eq!(found, ["/dev/disk/by-path/pci-0000:00:02.0-nvme-1"]);
}

#[test]
fn hosts_and_channels_are_relative_to_the_controller() {
    let raid = "pci0000:00/0000:01:00.0/host4/target4:2:0/4:2:0:0/block/sda";
    assert_eq!(
        names_of(raid, &["sys/devices/pci0000:00/0000:01:00.0/host3/"]),
        ["/dev/disk/by-path/pci-0000:01:00.0-scsi-1:2:0:0"]
    );
    let multiplier = "pci0000:00/0000:00:1f.2/ata3/host2/target2:4:0/2:4:0:0/block/sda";
    assert_eq!(
        names_of(multiplier, &["sys/class/ata_port/ata3/port_no = 1"]),
        [
            "/dev/disk/by-path/pci-0000:00:1f.2-ata-1.4.0",
            "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"
        ]
    );
}

#[test]
fn a_card_in_a_platform_controller_has_a_name() {
    assert_eq!(
        names_of(
            "platform/fe340000.mmc/mmc_host/mmc0/mmc0:1/block/mmcblk0",
            &[]
        ),
        ["/dev/disk/by-path/platform-fe340000.mmc"]
    );
}

#[test]
fn fibre_channel_by_the_far_port() {
    assert_eq!(
        names_of(
            "pci0000:00/0000:01:00.0/host1/rport-1:0-0/target1:0:0/1:0:0:300/block/sda",
            &["sys/class/fc_transport/target1:0:0/port_name = 0x5006016"]
        ),
        ["/dev/disk/by-path/pci-0000:01:00.0-fc-0x5006016-lun-0x012c000000000000"]
    );
}

#[test]
fn iscsi_by_portal_and_target() {
    assert_eq!(
        names_of(
            "platform/host2/session1/target2:0:0/2:0:0:1/block/sda",
            &[
                "sys/class/iscsi_session/session1/targetname = iqn.2003-01.org:x",
                "sys/class/iscsi_connection/connection1:0/persistent_address = 192.0.2.1",
                "sys/class/iscsi_connection/connection1:0/persistent_port = 3260",
            ]
        ),
        ["/dev/disk/by-path/ip-192.0.2.1:3260-iscsi-iqn.2003-01.org:x-lun-1"]
    );
}

#[test]
fn hyper_v_by_the_controller() {
    assert_eq!(
        names_of(
            "LNXSYSTM:00/VMBUS:00/f8b3/host0/target0:0:0/0:0:0:0/block/sda",
            &[
                "sys/devices/LNXSYSTM:00/VMBUS:00/f8b3/device_id = {f8b3781b-1e82-4818-a1c3-63d806ec15bb}",
                "sys/devices/LNXSYSTM:00/VMBUS:00/subsystem -> /bus/acpi",
            ]
        ),
        ["/dev/disk/by-path/acpi-VMBUS:00-vmbus-f8b3781b1e824818a1c363d806ec15bb-lun-0"]
    );
}

#[test]
fn boot_areas_of_a_card_have_links_of_their_own() {
    let path = PathId {
        path: Some("platform-fe340000.mmc".into()),
        ata_compat: None,
    };
    for (name, link) in [
        ("mmcblk0", "platform-fe340000.mmc"),
        ("mmcblk0boot1", "platform-fe340000.mmc-boot1"),
    ] {
        assert_eq!(path.links(name), [format!("{LINKS}{link}")]);
    }
}

#[test]
fn without_a_lasting_name_there_is_none() {
    for disk in [
        "pci0000:00/0000:01:00.0/host1/rport-1:0-0/target1:0:0/1:0:0:0/block/sda",
        "platform/host2/session1/target2:0:0/2:0:0:1/block/sda",
        "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
        "virtual/block/loop0",
        "virtual/block/md127",
        "pci0000:00/0000:00:01.0/block/xyz",
        "pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1",
    ] {
        assert_eq!(names_of(disk, &[]), [""; 0], "{disk}");
    }
}

#[test]
fn large_luns_are_hexadecimal() {
    for (lun, expected) in [
        (0, "lun-0"),
        (255, "lun-255"),
        (16684, "lun-0x412c000000000000"),
        (0x0002_4001, "lun-0x4001000200000000"),
    ] {
        assert_eq!(lun_text(lun), expected);
    }
}

#[test]
fn hctl_is_four_numbers() {
    assert_eq!(hctl("0:0:3:16684"), Some([0, 0, 3, 16684]));
    for name in ["", "0:0:3", "0:0:3:x", "0:0:3:1:2", "target0:0:0"] {
        assert_eq!(hctl(name), None, "{name}");
    }
}
