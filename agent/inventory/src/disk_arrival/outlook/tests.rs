use landfall_sys::sys_tree::plant;

use super::*;
use crate::sys_tree::captured;

fn look(tree: &str) -> (Option<&'static str>, u64) {
    let Outlook {
        at_work,
        hidden_scan,
    } = Outlook::look(plant(tree).path());
    (at_work, hidden_scan.as_secs())
}

/// Each case: the content of /sys, the bus that is still searching, and `hidden_scan` in
/// seconds.
#[test]
fn each_bus_shows_whether_disks_may_still_appear() {
    let cases: &[(&str, Option<&str>, u64)] = &[
        ("sys/class/", None, 0),
        // NVMe.
        (
            r"sys/class/nvme/nvme0/state = connecting\n",
            Some("NVMe"),
            0,
        ),
        (r"sys/class/nvme/nvme0/state = live\n", Some("NVMe"), 0),
        (
            "sys/class/nvme/nvme0/state = live\\n\nsys/class/nvme/nvme0/nvme0n1/",
            None,
            0,
        ),
        (r"sys/class/nvme/nvme0/state = dead\n", None, 0),
        // SCSI: a CD drive, a disk without and with its block device.
        (r"sys/class/scsi_device/1:0:0:0/device/type = 5\n", None, 0),
        (
            r"sys/class/scsi_device/1:0:0:0/device/type = 0\n",
            Some("SCSI"),
            0,
        ),
        (
            "sys/class/scsi_device/1:0:0:0/device/type = 0\\n\n\
             sys/class/scsi_device/1:0:0:0/device/block/sda/",
            None,
            0,
        ),
        // SAS: links of the controller and of an expander; devices.
        (
            r"sys/class/sas_phy/phy-0:1/negotiated_linkrate = Unknown\n",
            None,
            0,
        ),
        (
            r"sys/class/sas_phy/phy-0:1/negotiated_linkrate = 12.0 Gbit\n",
            Some("SAS"),
            0,
        ),
        (
            r"sys/class/sas_phy/phy-0:0:1/negotiated_linkrate = 12.0 Gbit\n",
            None,
            0,
        ),
        (
            "sys/class/sas_phy/phy-0:1/negotiated_linkrate = 12.0 Gbit\\n\n\
             sys/class/sas_phy/phy-0:1/device/port/",
            None,
            0,
        ),
        (
            "sys/class/sas_device/end_device-0:0/target_port_protocols = ssp\\n\n\
             sys/class/sas_device/end_device-0:0/scsi_target_id = 0\\n",
            Some("SAS"),
            0,
        ),
        (
            "sys/class/sas_device/end_device-0:0/target_port_protocols = ssp\\n\n\
             sys/class/sas_device/end_device-0:0/scsi_target_id = 0\\n\n\
             sys/class/sas_device/end_device-0:0/device/target0:0:0/",
            None,
            0,
        ),
        (
            "sys/class/sas_device/expander-0:0/target_port_protocols = smp\\n\n\
             sys/class/sas_device/expander-0:0/scsi_target_id = -1\\n",
            None,
            0,
        ),
        // Fibre Channel: no cable, no array, an array before and after its scan.
        (r"sys/class/fc_host/host3/port_state = Linkdown\n", None, 3),
        (r"sys/class/fc_host/host3/port_state = Offline\n", None, 0),
        (
            "sys/class/fc_host/host3/port_state = Online\\n\n\
             sys/class/fc_remote_ports/rport-3:0-0/port_state = Online\\n\n\
             sys/class/fc_remote_ports/rport-3:0-0/roles = FCP Target, FCP Initiator\\n",
            Some("Fibre Channel"),
            0,
        ),
        (
            "sys/class/fc_host/host3/port_state = Online\\n\n\
             sys/class/fc_remote_ports/rport-3:0-0/port_state = Online\\n\n\
             sys/class/fc_remote_ports/rport-3:0-0/roles = FCP Target\\n\n\
             sys/class/fc_remote_ports/rport-3:0-0/device/target3:0:0/",
            None,
            0,
        ),
        (
            "sys/class/fc_host/host3/port_state = Online\\n\n\
             sys/class/fc_remote_ports/rport-3:0-0/port_state = Blocked\\n\n\
             sys/class/fc_remote_ports/rport-3:0-0/roles = FCP Target\\n",
            None,
            0,
        ),
        // Another host's array says nothing about this host.
        (
            "sys/class/fc_host/host3/port_state = Online\\n\n\
             sys/class/fc_remote_ports/rport-31:0-0/port_state = Blocked\\n",
            None,
            3,
        ),
        // SD cards.
        ("sys/class/mmc_host/mmc0/", None, 3),
        ("sys/class/mmc_host/mmc0/mmc0:0001/", None, 0),
    ];
    for (tree, at_work, hidden_scan) in cases {
        assert_eq!(look(tree), (*at_work, *hidden_scan), "{tree}");
    }
}

#[test]
fn an_nvme_controller_may_have_a_second_namespace() {
    let tree = "sys/class/nvme/nvme0/state = live\\n\nsys/class/nvme/nvme0/nvme0n1/";
    let outlook = Outlook::look(plant(tree).path());
    assert_eq!((outlook.at_work, outlook.hidden_scan), (None, NVME_SCAN));
}

#[test]
fn usb_ports_show_their_state_since_linux_6_5() {
    let port = |state: &str| {
        look(&format!(
            "sys/bus/usb/devices/usb1/\n\
             sys/bus/usb/devices/1-0:1.0/usb1-port1/state = not attached\\n\n\
             sys/bus/usb/devices/1-0:1.0/usb1-port2/state = {state}\\n"
        ))
    };
    for (state, at_work) in [
        ("not attached", None),
        ("powered", Some("USB")),
        ("addressed", Some("USB")),
        ("configured", None),
        ("suspended", None),
    ] {
        assert_eq!(port(state), (at_work, 1), "{state}");
    }
    let old = look("sys/bus/usb/devices/1-0:1.0/usb1-port1/connect_type = hotplug\\n");
    assert_eq!(old, (None, 3));
    for (driver, at_work) in [
        ("ahci", None),
        ("usb-storage", Some("USB")),
        ("uas", Some("USB")),
    ] {
        let host = format!("sys/class/scsi_host/host6/proc_name = {driver}\\n\n");
        assert_eq!(look(&host).0, at_work, "{driver}");
        let scanned = format!("{host}sys/class/scsi_host/host6/device/target6:0:0/");
        assert_eq!(look(&scanned).0, None, "{driver}");
    }
}

/// These device trees were captured on machines that had found all their disks.
#[test]
fn finished_machines_are_not_waited_for() {
    for machine in ["10-q35-sata", "11-q35-virtioscsi", "20-q35-nvme-ids"] {
        let outlook = Outlook::look(captured(machine).path());
        assert_eq!(outlook.at_work, None, "{machine}");
    }
}
