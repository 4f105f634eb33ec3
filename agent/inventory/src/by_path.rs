//! Builds the names of the links that udev creates for a disk in /dev/disk/by-path.
//!
//! The algorithm is that of udev's path_id (systemd 252 to 257): it walks from the leaf
//! of the device tree to the root, then joins the parts in the opposite order. It reads
//! only the kernel's device tree, so the names equal those that udev creates on the
//! installed system.

mod scsi;

use std::path::Path;

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

pub use scsi::hctl;

/// The top of the device tree; there are no devices above it.
const TOP: &str = "/sys/devices";
const LINKS: &str = "/dev/disk/by-path/";

/// The output of path_id for a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathId {
    /// `ID_PATH`. `None` if /sys lacks a part of the name, and for buses and transports
    /// without persistent names, because a wrong name could make the agent select the
    /// wrong disk.
    pub path: Option<String>,
    /// `ID_PATH_ATA_COMPAT`: the name that ends with the ATA port (`ata-1`), without the
    /// number of the disk on that port (`ata-1.0`).
    pub ata_compat: Option<String>,
}

impl PathId {
    /// Builds the names of the disk whose directory in /sys/devices is `block`.
    pub fn of(block: &SystemPath) -> Self {
        let mut walk = Walk {
            current: block.clone(),
            parts: Vec::new(),
            ata_port: None,
            has_transport: false,
            has_bus: false,
        };
        match walk.run(block) {
            Some(()) => walk.names(),
            None => Self::default(),
        }
    }

    /// The links of the disk with this kernel name, deprecated ones last.
    pub fn links(&self, name: &str) -> Vec<String> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        // The boot areas of an eMMC are separate block devices.
        if let Some((_, area)) = name.split_once("boot").filter(|_| is_card(name)) {
            return vec![format!("{LINKS}{path}-boot{area}")];
        }
        let mut links = vec![format!("{LINKS}{path}")];
        links.extend(self.ata_compat.iter().map(|path| format!("{LINKS}{path}")));
        if name.starts_with("vd") && path.starts_with("pci-") {
            links.push(format!("{LINKS}virtio-{path}"));
        }
        links
    }
}

fn is_card(name: &str) -> bool {
    name.starts_with("mmcblk")
}

/// The state of the walk from a disk up to the root.
struct Walk {
    /// The current device; below [`TOP`].
    current: SystemPath,
    /// The parts so far, leaf first.
    parts: Vec<String>,
    /// The part for an ATA disk in the form of older udev versions: `ata-1`.
    ata_port: Option<String>,
    /// Whether the walk has passed a transport with unique names.
    has_transport: bool,
    /// Whether the walk has passed a bus with persistent names.
    has_bus: bool,
}

impl Walk {
    /// Walks to the root. `None` if /sys lacks a value that the name needs, or if the
    /// walk did not pass both a transport with unique names and a bus with persistent
    /// names.
    fn run(&mut self, block: &SystemPath) -> Option<()> {
        if let Some(controller) = multipath_controller(block) {
            self.current = controller;
        }
        loop {
            let subsystem = self.subsystem();
            let climbed = match subsystem.as_deref() {
                Some("scsi") if self.is_scsi_device() => {
                    self.scsi()?;
                    self.has_transport = true;
                    true
                }
                Some("nvme") => {
                    let namespace = sysfs::text(&block.join("nsid"))?;
                    self.take("nvme", format!("nvme-{namespace}"));
                    (self.has_transport, self.has_bus) = (true, true);
                    true
                }
                Some("usb") => {
                    self.has_transport = true;
                    match self.usb_port() {
                        Some(port) => {
                            self.take("usb", format!("usb-0:{port}"));
                            true
                        }
                        None => false,
                    }
                }
                Some("virtio") => {
                    self.has_transport = true;
                    self.skip("virtio");
                    true
                }
                Some(bus @ ("pci" | "acpi" | "xen" | "platform")) => {
                    self.has_bus = true;
                    // A platform device has a fixed place on the board. So its path is
                    // unique without a transport.
                    self.has_transport |= bus == "platform";
                    self.take(bus, format!("{bus}-{}", self.name()?));
                    true
                }
                _ => false,
            };
            if !climbed && !self.up() || self.is_top() {
                break;
            }
        }
        (self.has_transport && self.has_bus && !self.parts.is_empty()).then_some(())
    }

    fn names(self) -> PathId {
        let join = |parts: &[String]| {
            let parts: Vec<&str> = parts.iter().rev().map(String::as_str).collect();
            parts.join("-")
        };
        let path = join(&self.parts);
        let ata_compat = self.ata_port.map(|port| {
            let mut parts = self.parts;
            if let Some(leaf) = parts.first_mut() {
                *leaf = port;
            }
            join(&parts)
        });
        PathId {
            path: Some(path),
            ata_compat,
        }
    }

    fn name(&self) -> Option<&str> {
        self.current.name()
    }

    fn subsystem(&self) -> Option<String> {
        sysfs::link_name(&self.current.join("subsystem"))
    }

    /// Goes one level up; returns false at the top.
    fn up(&mut self) -> bool {
        if let Some(parent) = self.current.parent() {
            self.current = parent;
        }
        !self.is_top()
    }

    fn is_top(&self) -> bool {
        let path = self.current.as_path();
        path == Path::new(TOP) || !path.starts_with(TOP)
    }

    /// Adds this part, then leaves all devices of the subsystem.
    fn take(&mut self, subsystem: &str, part: String) {
        self.parts.push(part);
        self.skip(subsystem);
    }

    /// Goes up to the first parent that has another subsystem. Directories that only
    /// group devices (`nvme`, `block`) have no subsystem and are passed.
    fn skip(&mut self, subsystem: &str) {
        while self.up() {
            if self.subsystem().is_some_and(|found| found != subsystem) {
                return;
            }
        }
    }

    /// The chain of ports and the interface: `4:1.0` of `2-4:1.0`. `None` for a root hub.
    fn usb_port(&self) -> Option<&str> {
        Some(self.name()?.split_once('-')?.1)
    }
}

/// With multipath NVMe, /sys/block leads to a virtual device. The walk then starts at the
/// controller whose number is in the disk's name: `nvme1` for `nvme1n1`.
fn multipath_controller(block: &SystemPath) -> Option<SystemPath> {
    let is_virtual = block
        .as_path()
        .starts_with("/sys/devices/virtual/nvme-subsystem");
    let name = block.name().filter(|_| is_virtual)?;
    let controller = &name[..name.rfind('n')?];
    block.join("/sys/class/nvme").join(controller).resolved()
}

#[cfg(test)]
mod tests;
