//! Reads attributes of /sys and /proc: small files with one value each.
//!
//! A missing attribute and an unreadable attribute give the same result. The difference
//! says nothing to a caller: some drivers omit an attribute, others fail its read with
//! EIO.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;

use nix::sys::stat::makedev;

use crate::system_path::SystemPath;

/// The maximum size of a file in bytes. A sysfs attribute is at most one page,
/// but /proc/cpuinfo of a thousand CPUs and the SMBIOS table of a large server
/// are larger.
const SIZE_LIMIT: u64 = 4 << 20;

/// The content of a file, cut at [`SIZE_LIMIT`].
pub fn bytes(path: &SystemPath) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path.on_disk()?)
        .ok()?
        .take(SIZE_LIMIT)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

/// The content without trailing line feeds and NULs. Padding with spaces stays, because
/// some callers need it.
pub fn padded_text(path: &SystemPath) -> Option<String> {
    let content = bytes(path)?;
    let content = String::from_utf8_lossy(&content);
    Some(content.trim_end_matches(['\n', '\0']).to_owned())
}

/// The content without surrounding white space, or `None` if it is empty.
pub fn text(path: &SystemPath) -> Option<String> {
    let text = padded_text(path)?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

pub fn number<T: FromStr>(path: &SystemPath) -> Option<T> {
    text(path)?.parse().ok()
}

/// Whether the content is the number 1.
pub fn flag(path: &SystemPath) -> bool {
    number::<u64>(path) == Some(1)
}

/// The number of a block device, as in `st_rdev`. `device` is its directory in /sys/block.
pub fn device_number(device: &SystemPath) -> Option<u64> {
    let text = text(&device.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The size of a block device in bytes. `device` is its directory in /sys/block.
pub fn block_size(device: &SystemPath) -> Option<u64> {
    /// The unit of `size` in bytes. It does not depend on the disk's sector size.
    const UNIT: u64 = 512;
    number::<u64>(&device.join("size"))?.checked_mul(UNIT)
}

/// Whether a device is attached by USB. `device` is its path in /sys/devices. The path
/// then contains a root hub, which the kernel names `usb` and a number (`usb_alloc_dev`
/// of drivers/usb/core/usb.c). USB ports have other names (`usb1-port1`), and are not on
/// the path to a device.
pub fn is_on_usb(device: &Path) -> bool {
    device.iter().any(|part| {
        let bus = part.to_str().and_then(|part| part.strip_prefix("usb"));
        bus.is_some_and(|bus| bus.parse::<u32>().is_ok())
    })
}

/// The last component of a link's target: `device/driver` -> `virtio_net`.
pub fn link_name(path: &SystemPath) -> Option<String> {
    Some(path.link_target()?.file_name()?.to_str()?.to_owned())
}

/// The names in a directory, sorted. Empty if there is no directory.
pub fn names(directory: &SystemPath) -> Vec<String> {
    let mut names: Vec<String> = directory
        .on_disk()
        .and_then(|path| fs::read_dir(path).ok())
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_hub_makes_a_path_lead_over_usb() {
        for (path, expected) in [
            (
                "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-4/block/sda",
                true,
            ),
            ("/sys/devices/platform/soc/usb10/10-1/block/sda", true),
            (
                "/sys/devices/pci0000:00/0000:00:14.0/host0/block/sda",
                false,
            ),
            ("/sys/devices/pci0000:00/usb2-port1/block/sda", false),
            ("/sys/devices/platform/usb/block/sda", false),
        ] {
            assert_eq!(is_on_usb(Path::new(path)), expected, "{path}");
        }
    }
}
