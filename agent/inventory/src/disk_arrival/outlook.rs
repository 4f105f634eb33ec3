//! Estimates from /sys whether more disks will appear without further action.
//!
//! When init reports that the devices have their drivers, most buses have found their
//! disks: the loading of a module ends only after all work that drivers have started
//! with async_schedule (`do_init_module` of kernel/module/main.c). That includes the
//! scans of SCSI hosts (`scsi_scan_host`, so RAID and SAS controllers), the ports of
//! SATA controllers, and the probing of disks. The other searches run in work queues.
//! This module detects these searches in /sys.

use std::time::Duration;

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// How long disks may appear on a bus that does not show whether it is still searching.
/// The time counts from the moment when the devices had their drivers.
pub(super) const HIDDEN_SCAN: Duration = Duration::from_secs(3);

/// A USB hub shows the state of a port only after the power is on and the signal is
/// stable: usually after 0.3 s, see `hub_power_on_good_delay` and `HUB_DEBOUNCE_STABLE`
/// of drivers/usb/core.
const USB_SIGNAL: Duration = Duration::from_secs(1);

/// How long an NVMe controller with one namespace may take to show further namespaces.
const NVME_SCAN: Duration = Duration::from_millis(500);

/// What the buses of a machine show about disks that have not appeared yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outlook {
    /// A bus that, according to the kernel, is still searching for disks.
    pub at_work: Option<&'static str>,
    /// How long disks may appear on buses that do not show whether they are still
    /// searching. The time counts from the moment when the devices had their drivers.
    pub hidden_scan: Duration,
}

/// Reads from /sys whether a bus is still searching for disks.
type AtWork = fn(&SystemPath) -> bool;

impl Outlook {
    /// What the kernel shows below `root` now.
    pub(super) fn look(root: &SystemPath) -> Self {
        let buses: [(&'static str, AtWork); 6] = [
            ("NVMe", nvme_at_work),
            ("SCSI", scsi_at_work),
            ("SAS", sas_at_work),
            ("Fibre Channel", fc_at_work),
            ("USB", usb_ports_at_work),
            ("USB", usb_disks_at_work),
        ];
        let at_work = buses.iter().find(|(_, is_at_work)| is_at_work(root));
        let hidden_scan = [
            nvme_hidden_scan(root),
            usb_hidden_scan(root),
            fc_hidden_scan(root),
            mmc_hidden_scan(root),
        ];
        Self {
            at_work: at_work.map(|(name, _)| *name),
            hidden_scan: hidden_scan.into_iter().max().unwrap_or_default(),
        }
    }
}

/// The directories of the devices of a class: name and directory.
fn class(root: &SystemPath, name: &str) -> impl Iterator<Item = (String, SystemPath)> {
    let class = root.join("sys/class").join(name);
    sysfs::names(&class).into_iter().map(move |name| {
        let device = class.join(&name);
        (name, device)
    })
}

fn has_child(device: &SystemPath, beginning: &str) -> bool {
    let children = sysfs::names(device);
    children.iter().any(|child| child.starts_with(beginning))
}

/// Whether an NVMe controller is still starting, or has no namespaces yet. The kernel
/// scans for namespaces after the driver has finished loading.
fn nvme_at_work(root: &SystemPath) -> bool {
    class(root, "nvme").any(|(name, controller)| {
        match sysfs::text(&controller.join("state")).as_deref() {
            Some("new" | "resetting" | "connecting") => true,
            // The namespace nvme0n1, or nvme0c0n1 for one of several paths.
            Some("live") => !has_child(&controller, &name),
            _ => false,
        }
    })
}

/// How long further namespaces may appear on an NVMe controller. /sys does not show how
/// many the controller has.
fn nvme_hidden_scan(root: &SystemPath) -> Duration {
    time(class(root, "nvme").next().is_some(), NVME_SCAN)
}

/// Whether a SCSI disk has no block device yet. The kernel probes disks
/// asynchronously.
fn scsi_at_work(root: &SystemPath) -> bool {
    class(root, "scsi_device").any(|(_, device)| {
        let device = device.join("device");
        // TYPE_DISK of <scsi/scsi_proto.h>.
        sysfs::text(&device.join("type")).as_deref() == Some("0")
            && sysfs::names(&device.join("block")).is_empty()
    })
}

/// Whether a link of a SAS controller leads to a device that has not been discovered, or
/// a discovered disk or enclosure has not been scanned.
fn sas_at_work(root: &SystemPath) -> bool {
    let undiscovered = class(root, "sas_phy").any(|(name, phy)| {
        // The phys of the controller are named `phy-HOST:NUMBER`. The phys of an expander
        // (`phy-HOST:EXPANDER:NUMBER`) are skipped: with some drivers, those that lead to
        // the controller have no port.
        let of_controller = name.matches(':').count() == 1;
        let rate = sysfs::text(&phy.join("negotiated_linkrate")).unwrap_or_default();
        of_controller && rate.ends_with("Gbit") && !phy.join("device/port").exists()
    });
    undiscovered
        || class(root, "sas_device").any(|(_, device)| {
            let text = |name: &str| sysfs::text(&device.join(name)).unwrap_or_default();
            let protocols = text("target_port_protocols");
            let is_target = ["ssp", "stp", "sata"]
                .iter()
                .any(|protocol| protocols.contains(protocol));
            // -1 if the kernel scans no SCSI target there (`sas_rphy_add`).
            let is_scanned = sysfs::number::<u32>(&device.join("scsi_target_id")).is_some();
            is_target && is_scanned && !has_child(&device.join("device"), "target")
        })
}

/// Whether a disk array has logged in on a Fibre Channel port and has not been scanned.
fn fc_at_work(root: &SystemPath) -> bool {
    class(root, "fc_remote_ports").any(|(_, port)| {
        let text = |name: &str| sysfs::text(&port.join(name)).unwrap_or_default();
        text("port_state") == "Online"
            && text("roles").contains("FCP Target")
            && !has_child(&port.join("device"), "target")
    })
}

/// How long an array may appear on a Fibre Channel host that has found none yet. While
/// the host waits for its link, or asks the fabric for other ports, the kernel does not
/// show when the search for arrays ends.
fn fc_hidden_scan(root: &SystemPath) -> Duration {
    let mut hosts = class(root, "fc_host");
    let is_hidden = hosts.any(|(name, host)| {
        let state = sysfs::text(&host.join("port_state"));
        let number = name.trim_start_matches("host");
        let found = format!("rport-{number}:");
        matches!(state.as_deref(), Some("Online" | "Linkdown" | "Unknown"))
            && !class(root, "fc_remote_ports").any(|(port, _)| port.starts_with(&found))
    });
    time(is_hidden, HIDDEN_SCAN)
}

/// Whether a USB disk has its driver, but the kernel has not scanned it yet.
fn usb_disks_at_work(root: &SystemPath) -> bool {
    class(root, "scsi_host").any(|(_, host)| {
        let driver = sysfs::text(&host.join("proc_name"));
        matches!(driver.as_deref(), Some("usb-storage" | "uas"))
            && !has_child(&host.join("device"), "target")
    })
}

/// The states of all ports of USB hubs, as texts of the kernel's `usb_state_string`;
/// `None` for a port if the kernel is older than Linux 6.5.
fn usb_ports(root: &SystemPath) -> Vec<Option<String>> {
    let devices = root.join("sys/bus/usb/devices");
    let interfaces = sysfs::names(&devices).into_iter();
    interfaces
        // The ports of a hub are in its interface: `usb1-port1` in `1-0:1.0`, and
        // `1-2-port1` in `1-2:1.0`.
        .filter(|name| name.contains(':'))
        .flat_map(|interface| {
            let interface = devices.join(interface);
            let children = sysfs::names(&interface).into_iter();
            let ports = children.filter(|child| child.contains("-port"));
            let states = ports.map(|port| sysfs::text(&interface.join(port).join("state")));
            states.collect::<Vec<_>>()
        })
        .collect()
}

/// Whether the kernel is still identifying a device on a USB port.
fn usb_ports_at_work(root: &SystemPath) -> bool {
    usb_ports(root).iter().flatten().any(|state| {
        matches!(
            state.as_str(),
            "attached" | "powered" | "reconnecting" | "unauthenticated" | "default" | "addressed"
        )
    })
}

fn usb_hidden_scan(root: &SystemPath) -> Duration {
    let ports = usb_ports(root);
    match ports.iter().any(Option::is_none) {
        true => HIDDEN_SCAN,
        false => time(!ports.is_empty(), USB_SIGNAL),
    }
}

/// How long a card may appear in an empty slot for SD cards. The slot searches for a card
/// with several clock rates, and the kernel does not show when the search ends without a
/// card.
fn mmc_hidden_scan(root: &SystemPath) -> Duration {
    let is_hidden = class(root, "mmc_host").any(|(name, host)| !has_child(&host, &name));
    time(is_hidden, HIDDEN_SCAN)
}

fn time(applies: bool, time: Duration) -> Duration {
    if applies { time } else { Duration::ZERO }
}

#[cfg(test)]
mod tests;
