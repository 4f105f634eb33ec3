//! The names under which udev would link a disk in /dev/disk/by-path.
//!
//! Built as udev's path_id does (systemd 252 to 257), from the leaf of the
//! device tree to its root; parts are then joined root first. The kernel's tree
//! is the only source, so names are the same before and after udev runs on the
//! installed system.

mod scsi;

use std::path::Path;

use crate::sysfs;
use crate::system_path::SystemPath;

pub use scsi::hctl;

/// Above it there is no device.
const TOP: &str = "/sys/devices";
/// The directory of the links.
const LINKS: &str = "/dev/disk/by-path/";

/// What path_id says of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathId {
    /// `ID_PATH`. `None` for buses and transports that have no lasting names: a
    /// wrong one could select a wrong disk, none cannot.
    pub path: Option<String>,
    /// `ID_PATH_ATA_COMPAT`: without the device behind the port.
    pub ata_compat: Option<String>,
}

impl PathId {
    /// Finds the names of the disk whose directory in /sys/devices is `block`.
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
        // The boot areas of an eMMC are devices beside it.
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

/// The way up from a disk.
struct Walk {
    /// The device that is looked at; below [`TOP`].
    current: SystemPath,
    /// Found so far, leaf first.
    parts: Vec<String>,
    /// The leaf's part as older versions of udev made it.
    ata_port: Option<String>,
    /// Whether a transport was met whose names are unique.
    has_transport: bool,
    /// Whether a bus was met whose names are lasting.
    has_bus: bool,
}

impl Walk {
    /// Climbs to the root. `None` unless the name came out complete.
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
                    // What is on the board itself has one place.
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

    /// One step up; false at the top.
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

    /// This part, and on above all devices of the subsystem.
    fn take(&mut self, subsystem: &str, part: String) {
        self.parts.push(part);
        self.skip(subsystem);
    }

    /// Up to the first parent that is not of this subsystem. Directories that
    /// only group devices (`nvme`, `block`) are of none.
    fn skip(&mut self, subsystem: &str) {
        while self.up() {
            if self.subsystem().is_some_and(|found| found != subsystem) {
                return;
            }
        }
    }

    /// `2-4:1.0` -> `4:1.0`: the ports on the way, and the interface. Hubs at
    /// the root have none.
    fn usb_port(&self) -> Option<&str> {
        Some(self.name()?.split_once('-')?.1)
    }
}

/// With multipath, /sys/block leads to a virtual device; the way up begins at
/// the controller that has the number of the disk's name.
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
