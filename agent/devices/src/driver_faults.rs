//! Finds out why there is no disk or no NIC, for example because a controller has
//! no driver or the driver lacks its firmware.

mod faults;
mod remedies;
mod vendors;

use std::fmt;

use faults::Device;
use landfall_report::kernel_log;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

pub use faults::{Bus, DriverFault, Effect, Lack, MissingFile, Modules, all};

/// The kind of device, by its PCI class (PCI Code and ID Assignment Specification, 1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Storage,
    Network,
}

impl Purpose {
    /// The purpose of a PCI device with this class, in hexadecimal digits: `020000`.
    /// `None` for classes that are neither storage nor network.
    fn of_pci_class(class: &str) -> Option<Self> {
        match class.get(..2)? {
            "01" => Some(Self::Storage),
            "02" => Some(Self::Network),
            // PCI counts Fibre Channel and InfiniBand among the serial buses.
            _ => match class.get(..4)? {
                "0c04" => Some(Self::Storage),
                "0c06" => Some(Self::Network),
                _ => None,
            },
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Storage => "storage controller",
            Self::Network => "network card",
        }
    }
}

/// Why a device is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// `no driver for storage controller 0000:03:00.0 (PCI ID 1000:00e5)`
    pub cause: String,
    /// `check that the firmware setup does not disable it`
    pub remedy: &'static str,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -- {}", self.cause, self.remedy)
    }
}

/// Explains why there is no disk or no NIC.
pub fn why_none(root: &SystemPath, purpose: Purpose) -> Reason {
    let log = log_of(root);
    reason(&devices(root, purpose), &log, purpose)
}

/// The texts of the kernel's log; none if the root is not that of this machine.
fn log_of(root: &SystemPath) -> Vec<String> {
    if !root.is_live() {
        return Vec::new();
    }
    kernel_log::texts()
}

/// The firmware file that the driver of this NIC requested and did not find, if the
/// kernel log still contains the message.
pub fn missing_firmware_of(nic: &str) -> Option<String> {
    let root = SystemPath::live();
    let device = root.join("sys/class/net").join(nic).join("device");
    let address = sysfs::link_name(&device)?;
    let log = kernel_log::texts();
    missing_firmware(&address, log.iter().map(String::as_str))
}

fn devices(root: &SystemPath, purpose: Purpose) -> Vec<Device> {
    let mut devices = faults::pci_devices(root);
    devices.retain(|device| device.purpose == purpose);
    devices
}

fn reason(devices: &[Device], log: &[String], purpose: Purpose) -> Reason {
    let noun = purpose.noun();
    for device in devices {
        if let Some(file) = missing_firmware(&device.address, log.iter().map(String::as_str)) {
            let address = &device.address;
            return Reason {
                cause: format!("the firmware {file} of {noun} {address} is missing"),
                remedy: remedies::ADD_FIRMWARE,
            };
        }
    }
    let without: Vec<String> = devices
        .iter()
        .filter(|device| device.driver.is_none())
        .map(|device| format!("{} (PCI ID {})", device.address, device.id))
        .collect();
    if !without.is_empty() {
        return Reason {
            cause: format!("no driver for {noun} {}", without.join(", ")),
            remedy: remedies::ADD_MODULE_OR_OTHER_KERNEL,
        };
    }
    let drivers: Vec<String> = devices
        .iter()
        .filter_map(|device| Some(format!("{} ({})", device.address, device.driver.as_ref()?)))
        .collect();
    if drivers.is_empty() {
        return Reason {
            cause: format!("there is no {noun} on the PCI bus"),
            remedy: remedies::CHECK_FIRMWARE_SETUP,
        };
    }
    match purpose {
        Purpose::Storage => Reason {
            cause: format!("{noun} {} reports no disk", drivers.join(", ")),
            remedy: remedies::CHECK_DISKS,
        },
        Purpose::Network => Reason {
            cause: format!("{noun} {} has no interface", drivers.join(", ")),
            remedy: remedies::READ_MESSAGES_OF_DRIVER,
        },
    }
}

/// The last missing firmware file of a device: a driver tries several files, and gives up
/// only after the last one.
fn missing_firmware<'a>(address: &str, log: impl Iterator<Item = &'a str>) -> Option<String> {
    let last = firmware_requests(address, log).pop()?;
    Some(last.file)
}

/// A firmware file that a driver requested, and that the kernel did not find.
struct FirmwareRequest {
    driver: String,
    file: String,
}

/// Finds the missing firmware files of a device, each once, in kernel messages such as
/// `bnx2x 0000:03:00.0: Direct firmware load for bnx2x/x.fw failed with error -2`
/// (`fw_get_filesystem_firmware` in drivers/base/firmware_loader/main.c). The kernel
/// sends no event for a missing file: its firmware uevents are intended for a helper
/// program that no current distribution contains.
fn firmware_requests<'a>(
    address: &str,
    log: impl Iterator<Item = &'a str>,
) -> Vec<FirmwareRequest> {
    let mut missing: Vec<FirmwareRequest> = Vec::new();
    for line in log {
        let Some((device, rest)) = line.split_once(": Direct firmware load for ") else {
            continue;
        };
        let mut words = device.split_whitespace().rev();
        if words.next() == Some(address)
            && let Some((file, _)) = rest.split_once(" failed with error")
        {
            missing.retain(|known| known.file != file);
            missing.push(FirmwareRequest {
                driver: words.next().unwrap_or_default().to_owned(),
                file: file.to_owned(),
            });
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;

    use super::*;

    const LOG: [&str; 4] = [
        "bnx2x 0000:03:00.0: msix capability found",
        "bnx2x 0000:03:00.0: Direct firmware load for bnx2x/bnx2x-e2-7.13.21.0.fw failed with error -2",
        "bnx2x 0000:03:00.0: Direct firmware load for bnx2x/bnx2x-e2-7.13.15.0.fw failed with error -2",
        "ice 0000:04:00.0: Direct firmware load for intel/ice/ddp/ice.pkg failed with error -2",
    ];

    #[test]
    fn the_kernel_log_names_missing_firmware() {
        for (address, expected) in [
            ("0000:03:00.0", Some("bnx2x/bnx2x-e2-7.13.15.0.fw")),
            ("0000:04:00.0", Some("intel/ice/ddp/ice.pkg")),
            ("0000:05:00.0", None),
        ] {
            let found = missing_firmware(address, LOG.into_iter());
            assert_eq!(found.as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn cause_and_remedy_depend_on_the_devices_of_the_bus() {
        let pci = |address: &str, class: &str, more: &str| {
            let device = format!("sys/bus/pci/devices/{address}");
            format!(
                "{device}/class = {class}\\n\n{device}/vendor = 0x1000\\n\n{device}/device = 0x00e5\\n\n{}",
                more.replace("DEVICE", &device)
            )
        };
        let driver = "DEVICE/driver -> ../../../bus/pci/drivers/ahci\n";
        for (tree, purpose, expected) in [
            (
                pci("0000:01:00.0", "0x020000", ""),
                Purpose::Storage,
                "there is no storage controller on the PCI bus -- check",
            ),
            (
                pci("0000:01:00.0", "0x010700", ""),
                Purpose::Storage,
                "no driver for storage controller 0000:01:00.0 (PCI ID 1000:00e5) -- build",
            ),
            (
                pci("0000:01:00.0", "0x010601", driver),
                Purpose::Storage,
                "storage controller 0000:01:00.0 (ahci) reports no disk -- check the cables",
            ),
            // Fibre Channel: no LUN is assigned to this host.
            (
                pci("0000:01:00.0", "0x0c0400", driver),
                Purpose::Storage,
                "storage controller 0000:01:00.0 (ahci) reports no disk -- check the cables",
            ),
            (
                pci("0000:01:00.0", "0x020000", ""),
                Purpose::Network,
                "no driver for network card 0000:01:00.0 (PCI ID 1000:00e5) -- build",
            ),
        ] {
            let root = plant(&tree);
            let found = reason(&devices(root.path(), purpose), &[], purpose).to_string();
            assert!(found.starts_with(expected), "{found}");
        }
        let root = plant(&pci("0000:03:00.0", "0x020000", driver));
        let log = LOG.map(str::to_owned);
        let cards = devices(root.path(), Purpose::Network);
        let found = reason(&cards, &log, Purpose::Network).to_string();
        assert!(
            found.starts_with("the firmware bnx2x/bnx2x-e2-7.13.15.0.fw of network card 0000:03:00.0 is missing -- "),
            "{found}"
        );
    }
}
