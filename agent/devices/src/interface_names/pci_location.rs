//! The location of a PCI device, from which its names are made.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// The base and sub-class of a PCI-to-PCI bridge.
const BRIDGE_CLASS: &str = "0x0604";
/// The offset of the header type in the configuration space, and the bit of the header
/// type that marks a device with several functions (PCI 3.0, 6.2.1).
const HEADER_TYPE: usize = 0x0e;
const MULTI_FUNCTION: u8 = 0x80;

/// A PCI device, identified by its directory in /sys/devices.
#[derive(Debug, Clone)]
pub struct PciLocation {
    pub directory: SystemPath,
    pub domain: u32,
    pub bus: u32,
    pub slot: u32,
    pub function: u32,
}

impl PciLocation {
    /// The device in a directory such as `.../0000:3b:00.1`. `None` if it is not a
    /// PCI device.
    pub fn of(directory: &SystemPath) -> Option<Self> {
        if sysfs::link_name(&directory.join("subsystem")).as_deref() != Some("pci") {
            return None;
        }
        let hex = |text: &str| u32::from_str_radix(text, 16).ok();
        let (place, function) = directory.name()?.split_once('.')?;
        let mut parts = place.split(':');
        let location = Self {
            domain: hex(parts.next()?)?,
            bus: hex(parts.next()?)?,
            slot: hex(parts.next()?)?,
            function: hex(function)?,
            directory: directory.clone(),
        };
        parts.next().is_none().then_some(location)
    }

    /// This device and the bridges above it, in the order from the device to the
    /// root.
    pub fn and_above(&self) -> impl Iterator<Item = Self> {
        self.directory
            .ancestors()
            .filter_map(|directory| Self::of(&directory))
    }

    /// The bridge that this device is behind.
    pub fn above(&self) -> Option<Self> {
        self.and_above().nth(1)
    }

    /// Whether the function reports that its device has several functions.
    pub fn is_multi_function(&self) -> bool {
        sysfs::bytes(&self.directory.join("config"))
            .and_then(|config| config.get(HEADER_TYPE).copied())
            .is_some_and(|header| header & MULTI_FUNCTION != 0)
    }

    /// Whether function numbers continue across slots (PCIe ARI).
    pub fn has_ari(&self) -> bool {
        sysfs::flag(&self.directory.join("ari_enabled"))
    }

    /// Whether the class is that of a PCI-to-PCI bridge.
    pub fn is_bridge(&self) -> bool {
        sysfs::text(&self.directory.join("class"))
            .is_some_and(|class| class.starts_with(BRIDGE_CLASS))
    }

    /// ACPI's slot user number (`_SUN`).
    pub fn acpi_slot(&self) -> Option<u32> {
        sysfs::number(&self.directory.join("firmware_node/sun")).filter(|&number| number > 0)
    }
}
