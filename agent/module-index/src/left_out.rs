//! Lists what is missing in the ramdisk: the drivers of network cards and disk
//! controllers that the builder left out, and the firmware files that the builder did not
//! find.
//!
//! ```text
//! landfall-left-out 1
//! module e100
//! pci 80861209
//! usb 0B951790
//! alias pci:v*d*sv*sd*bc02sc80i*
//! firmware bnx2 bnx2/bnx2-mips-06-6.2.3.fw firmware-bnx2
//! end
//! ```
//!
//! `pci`, `usb` and `alias` belong to the last `module` line. In the kernel's own form,
//! nearly every alias is a vendor and a device number between wildcards, and the aliases
//! of the drivers outside the set `server` have 340 kB. They have about 170 kB in this
//! format, and about 17 kB in the compressed ramdisk.

mod text;

use crate::{module_name, pattern};

/// Name of the file below `/lib/modules/<kernel release>/` in the ramdisk.
pub const LEFT_OUT_NAME: &str = "landfall.left-out";

/// The size limit of the file in bytes. The file for the set `vm` with a whole Debian
/// kernel has 230 kB.
pub const MAX_LEFT_OUT_BYTES: usize = 4 << 20;

/// What a ramdisk does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Drivers of the kernel that are not in the ramdisk.
    pub modules: Vec<LeftOutModule>,
    /// Firmware that drivers in the ramdisk declare, but that is not in the ramdisk.
    pub firmware: Vec<LeftOutFirmware>,
}

/// A driver that is not in the ramdisk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOutModule {
    /// Normalised: `_` instead of `-`.
    pub name: String,
    pub devices: Vec<DevicePattern>,
}

/// A firmware file that is not in the ramdisk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOutFirmware {
    /// The module that declares the file.
    pub driver: String,
    /// The path below `/lib/firmware`, or a pattern of such paths.
    pub path: String,
    /// The Debian package that has the file, in words; empty if none is known.
    pub package: String,
}

/// The devices that one alias of a module stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevicePattern {
    /// Every PCI device with these numbers.
    Pci { vendor: u16, device: u16 },
    /// Every USB device with these numbers.
    Usb { vendor: u16, product: u16 },
    /// Any other alias, unchanged.
    Alias(String),
}

/// The end of an alias that restricts only the vendor and the device (or product) number.
const ANY_PCI: &str = "sv*sd*bc*sc*i*";
const ANY_USB: &str = "d*dc*dsc*dp*ic*isc*ip*in*";

impl DevicePattern {
    #[must_use]
    pub fn of_alias(alias: &str) -> Self {
        match (pci_numbers(alias), usb_numbers(alias)) {
            (Some((vendor, device, ANY_PCI)), _) => Self::Pci { vendor, device },
            (_, Some((vendor, product, ANY_USB))) => Self::Usb { vendor, product },
            _ => Self::Alias(alias.to_owned()),
        }
    }

    /// Whether a device with this modalias fits.
    #[must_use]
    pub fn matches(&self, modalias: &str) -> bool {
        match self {
            Self::Pci { vendor, device } => {
                pci_numbers(modalias).is_some_and(|(v, d, _)| (v, d) == (*vendor, *device))
            }
            Self::Usb { vendor, product } => {
                usb_numbers(modalias).is_some_and(|(v, p, _)| (v, p) == (*vendor, *product))
            }
            Self::Alias(alias) => {
                let alias = module_name::normalise_alias(alias);
                let modalias = module_name::normalise(modalias);
                pattern::matches(alias.as_bytes(), modalias.as_bytes())
            }
        }
    }
}

impl LeftOut {
    /// The modules that would drive a device with this modalias, in the order of the file.
    pub fn modules_for(&self, modalias: &str) -> Vec<&str> {
        let fits = |module: &&LeftOutModule| {
            let mut devices = module.devices.iter();
            devices.any(|device| device.matches(modalias))
        };
        let modules = self.modules.iter().filter(fits);
        modules.map(|module| module.name.as_str()).collect()
    }

    /// The entry for a firmware file that a driver has requested; `None` if the list does
    /// not contain the file.
    #[must_use]
    pub fn firmware(&self, path: &str) -> Option<&LeftOutFirmware> {
        let mut files = self.firmware.iter();
        files.find(|file| pattern::matches(file.path.as_bytes(), path.as_bytes()))
    }
}

/// The vendor and device number of a PCI modalias or alias
/// (`pci:v00008086d00001209sv...`), and the text after them.
fn pci_numbers(alias: &str) -> Option<(u16, u16, &str)> {
    let (vendor, rest) = number(alias.strip_prefix("pci:v0000")?)?;
    let (device, rest) = number(rest.strip_prefix("d0000")?)?;
    Some((vendor, device, rest))
}

/// Like [`pci_numbers`], for `usb:v0B95p1790d...`.
fn usb_numbers(alias: &str) -> Option<(u16, u16, &str)> {
    let (vendor, rest) = number(alias.strip_prefix("usb:v")?)?;
    let (product, rest) = number(rest.strip_prefix('p')?)?;
    Some((vendor, product, rest))
}

/// Four hexadecimal digits in upper case, as the kernel writes them, and the rest.
fn number(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    if !digits.bytes().all(is_digit) {
        return None;
    }
    Some((u16::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests;
