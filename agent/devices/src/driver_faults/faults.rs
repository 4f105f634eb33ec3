//! Lists the network cards and disk controllers that have no driver, and those whose
//! driver did not find its firmware.

use std::fmt;

use landfall_module_index::{INDEX_NAME, Index, LEFT_OUT_NAME, LeftOut};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use super::{Purpose, firmware_requests, log_of, remedies, vendors};

/// The bus that a device is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bus {
    Pci,
    Usb,
}

/// A device that does not work, or not as well as it could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverFault {
    pub bus: Bus,
    pub purpose: Purpose,
    /// The name on its bus: `0000:03:00.0`, `2-1:1.0`.
    pub address: String,
    /// Vendor and device: `8086:1209`.
    pub id: String,
    /// Class, subclass and interface, each two hexadecimal digits: `020000`.
    pub class: String,
    /// The maker, if known.
    pub vendor: Option<String>,
    pub lack: Lack,
}

/// What a device does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    Driver(Modules),
    Firmware {
        /// The driver that requested the files.
        driver: String,
        files: Vec<MissingFile>,
        effect: Effect,
    },
}

/// The effect of a missing firmware file on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The device works: its driver uses an older file, or the firmware in the card's
    /// flash.
    Works,
    /// The network card is off. Its driver may still switch it on with other firmware.
    Off,
    /// The driver released the device.
    GivenUp,
}

/// The kernel modules for a device that has no driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modules {
    /// The kernel has these, and the ramdisk does not.
    LeftOut(Vec<String>),
    /// The ramdisk has these, and they did not accept the device.
    Refused(Vec<String>),
    /// The kernel has none.
    None,
    /// There is no valid list of modules, for example because this is not Landfall's
    /// ramdisk.
    Unknown,
}

/// A firmware file that the kernel did not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFile {
    /// The path below `/lib/firmware`.
    pub path: String,
    /// The Debian package that has the file, in words, if known.
    pub package: Option<String>,
}

impl fmt::Display for DriverFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (noun, address) = (self.purpose.noun(), &self.address);
        let bus = match self.bus {
            Bus::Pci => "PCI",
            Bus::Usb => "USB",
        };
        let vendor = self.vendor.iter().map(|name| format!(", {name}"));
        let vendor: String = vendor.collect();
        let device = format!(
            "{noun} {address} ({bus} ID {}, class {}{vendor})",
            self.id, self.class
        );
        match &self.lack {
            Lack::Driver(Modules::LeftOut(modules)) => write!(
                f,
                "no driver for {device}: the kernel's module {} would drive it, and is not in this ramdisk",
                modules.join(" or ")
            ),
            Lack::Driver(Modules::Refused(modules)) => write!(
                f,
                "no driver for {device}: the module {} is in this ramdisk, but did not accept the device",
                modules.join(" or ")
            ),
            Lack::Driver(Modules::None) => {
                write!(
                    f,
                    "no driver for {device}: this kernel has no module for it"
                )
            }
            Lack::Driver(Modules::Unknown) => write!(f, "no driver for {device}"),
            Lack::Firmware {
                driver,
                files,
                effect,
            } => {
                match effect {
                    Effect::Works => write!(
                        f,
                        "{device} works with other firmware: its driver {driver} did not find "
                    ),
                    Effect::Off | Effect::GivenUp => write!(
                        f,
                        "the driver {driver} of {device} did not find its firmware "
                    ),
                }?;
                let files = files.iter().map(|file| match &file.package {
                    Some(package) => format!("{} (package {package})", file.path),
                    None => format!("{} (in no known package)", file.path),
                });
                f.write_str(&files.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl DriverFault {
    /// The remedy for the operator.
    pub fn remedy(&self) -> &'static str {
        match &self.lack {
            Lack::Driver(Modules::LeftOut(_)) => remedies::ADD_MODULE,
            Lack::Driver(Modules::Refused(_)) => remedies::READ_MESSAGES_OF_MODULE,
            Lack::Driver(Modules::None | Modules::Unknown) => remedies::OTHER_KERNEL,
            Lack::Firmware { .. } => remedies::ADD_FIRMWARE,
        }
    }

    /// Whether an operator should look at the fault. A disk controller without a known
    /// module may be harmless: a virtual machine may have a second, unused controller,
    /// and cloud kernels lack the drivers of some controllers.
    pub fn is_serious(&self) -> bool {
        match &self.lack {
            Lack::Firmware { effect, .. } => *effect != Effect::Works,
            Lack::Driver(Modules::None | Modules::Unknown) => self.purpose == Purpose::Network,
            Lack::Driver(_) => true,
        }
    }

    /// Whether the fault may disappear in a moment, because the driver may still try
    /// other files.
    pub fn may_pass(&self) -> bool {
        matches!(&self.lack, Lack::Firmware { effect, .. } if *effect == Effect::Off)
    }
}

/// All faults of this machine so far. More may follow, because a driver may request its
/// firmware only when the NIC is switched on.
pub fn all(root: &SystemPath) -> Vec<DriverFault> {
    with_log(root, &log_of(root))
}

pub(super) fn with_log(root: &SystemPath, log: &[String]) -> Vec<DriverFault> {
    let lists = Lists::of_running_kernel(root);
    let mut devices = pci_devices(root);
    devices.extend(usb_interfaces(root, &lists));
    let faults = devices.into_iter().filter_map(|device| {
        let requests = firmware_requests(&device.address, log.iter().map(String::as_str));
        let lack = match (requests.first(), device.driver) {
            // Some drivers release a device if its firmware is missing, so the device
            // may have no driver.
            (Some(request), driver) => Lack::Firmware {
                effect: match &driver {
                    Some(_) if device.is_in_use => Effect::Works,
                    Some(_) => Effect::Off,
                    None => Effect::GivenUp,
                },
                driver: driver.unwrap_or_else(|| request.driver.clone()),
                files: { requests.iter() }
                    .map(|request| lists.missing(&request.file))
                    .collect(),
            },
            (None, None) => Lack::Driver(lists.modules_for(&device.modalias)),
            (None, Some(_)) => return None,
        };
        Some(DriverFault {
            bus: device.bus,
            purpose: device.purpose,
            address: device.address,
            id: device.id,
            class: device.class,
            vendor: device.vendor,
            lack,
        })
    });
    faults.collect()
}

/// A network card, a disk controller, or an interface of a USB device with one of these
/// purposes.
pub(super) struct Device {
    bus: Bus,
    pub(super) purpose: Purpose,
    pub(super) address: String,
    /// Vendor and device ID: `1000:00e5`.
    pub(super) id: String,
    class: String,
    vendor: Option<String>,
    pub(super) driver: Option<String>,
    /// True if the device is not a network card, or if its interface is switched on.
    /// The existence of an interface does not prove that a card works: bnx2 and e100
    /// load their firmware when the interface is switched on, and without the firmware
    /// the kernel leaves the interface off (bnx2_open, e100_up).
    is_in_use: bool,
    modalias: String,
}

impl Device {
    /// `device` is its directory in /sys.
    fn is_in_use(purpose: Purpose, device: &SystemPath) -> bool {
        let net = device.join("net");
        let is_up = |name: String| {
            let flags = sysfs::text(&net.join(name).join("flags"));
            let flags =
                flags.and_then(|text| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok());
            // IFF_UP (netdevice(7)).
            flags.is_some_and(|flags| flags & 1 != 0)
        };
        purpose != Purpose::Network || sysfs::names(&net).into_iter().any(is_up)
    }
}

pub(super) fn pci_devices(root: &SystemPath) -> Vec<Device> {
    let bus = root.join("sys/bus/pci/devices");
    let devices = sysfs::names(&bus).into_iter().filter_map(|address| {
        let device = bus.join(&address);
        let hexadecimal = |name: &str| {
            let text = sysfs::text(&device.join(name))?;
            text.strip_prefix("0x").map(str::to_owned)
        };
        let class = hexadecimal("class")?;
        let purpose = Purpose::of_pci_class(&class)?;
        let vendor = hexadecimal("vendor")?;
        let number = u16::from_str_radix(&vendor, 16).ok();
        Some(Device {
            bus: Bus::Pci,
            purpose,
            id: format!("{vendor}:{}", hexadecimal("device")?),
            class,
            vendor: number.and_then(vendors::name).map(str::to_owned),
            driver: sysfs::link_name(&device.join("driver")),
            is_in_use: Device::is_in_use(purpose, &device),
            modalias: sysfs::text(&device.join("modalias")).unwrap_or_default(),
            address,
        })
    });
    devices.collect()
}

/// The interfaces of USB devices that are network cards or disks. The agent recognises
/// them by their class. An interface of a vendor-specific class counts as a network
/// card if a module that is not in the ramdisk claims it.
fn usb_interfaces(root: &SystemPath, lists: &Lists) -> Vec<Device> {
    let bus = root.join("sys/bus/usb/devices");
    let interfaces = sysfs::names(&bus).into_iter().filter_map(|address| {
        // Only interfaces have a colon in their names: `1-2:1.0` belongs to `1-2`.
        let (parent, _) = address.split_once(':')?;
        let (interface, parent) = (bus.join(&address), bus.join(parent));
        let class = [
            "bInterfaceClass",
            "bInterfaceSubClass",
            "bInterfaceProtocol",
        ]
        .map(|name| sysfs::text(&interface.join(name)).unwrap_or_default());
        let modalias = sysfs::text(&interface.join("modalias")).unwrap_or_default();
        let purpose = match class.each_ref().map(String::as_str) {
            ["08", _, _] => Purpose::Storage,
            // CDC Ethernet, NCM and RNDIS (usb.org, "defined class codes").
            ["02", "06" | "0d", _] | ["e0", "01", "03"] => Purpose::Network,
            ["ff", _, _] if lists.left_out(&modalias).is_some() => Purpose::Network,
            _ => return None,
        };
        let text = |name: &str| sysfs::text(&parent.join(name));
        Some(Device {
            bus: Bus::Usb,
            purpose,
            id: format!("{}:{}", text("idVendor")?, text("idProduct")?),
            class: class.concat(),
            vendor: text("manufacturer"),
            driver: sysfs::link_name(&interface.join("driver")),
            is_in_use: Device::is_in_use(purpose, &interface),
            modalias,
            address,
        })
    });
    interfaces.collect()
}

/// The builder's lists of the modules in the ramdisk, and of the modules and firmware
/// files that it left out.
struct Lists {
    left_out: Option<LeftOut>,
    index: SystemPath,
}

impl Lists {
    fn of_running_kernel(root: &SystemPath) -> Self {
        let release = sysfs::text(&root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        let directory = root.join("lib/modules").join(release);
        let text = sysfs::text(&directory.join(LEFT_OUT_NAME));
        let left_out = text.and_then(|text| match LeftOut::parse(&text) {
            Ok(left_out) => Some(left_out),
            Err(error) => {
                tracing::warn!("{error}; the agent cannot name missing drivers");
                None
            }
        });
        Self {
            left_out,
            index: directory.join(INDEX_NAME),
        }
    }

    /// The modules for this device that are not in the ramdisk; `None` if there are no
    /// such modules.
    fn left_out(&self, modalias: &str) -> Option<Vec<String>> {
        let modules = self.left_out.as_ref()?.modules_for(modalias);
        (!modules.is_empty()).then(|| modules.into_iter().map(str::to_owned).collect())
    }

    fn modules_for(&self, modalias: &str) -> Modules {
        if self.left_out.is_none() {
            return Modules::Unknown;
        }
        let index = sysfs::text(&self.index).and_then(|text| Index::parse(&text).ok());
        let refused: Vec<String> = index
            .iter()
            .flat_map(|index| {
                let modules = index.modules_for(modalias).into_iter();
                modules
                    .map(|id| index.module(id).name.clone())
                    .collect::<Vec<_>>()
            })
            .collect();
        match self.left_out(modalias) {
            _ if !refused.is_empty() => Modules::Refused(refused),
            Some(modules) => Modules::LeftOut(modules),
            None => Modules::None,
        }
    }

    fn missing(&self, path: &str) -> MissingFile {
        let known = self.left_out.as_ref().and_then(|list| list.firmware(path));
        let package = known.map(|file| file.package.clone());
        MissingFile {
            path: path.to_owned(),
            package: package.filter(|package| !package.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests;
