//! Collects the hardware inventory of this machine. Nothing here writes to a disk. The
//! collectors that read /sys and /proc take the root directory as an argument, so that a
//! test can pass a captured tree.

mod arm_core;
pub mod ata_identify;
pub mod block_devices;
mod bmc;
pub mod boot_mode;
mod by_path;
pub mod collect;
pub mod collectors;
mod cpu;
pub mod disk_arrival;
mod disk_identity;
mod disk_kind;
pub mod disk_query;
pub mod disks;
mod driver_faults;
pub mod firmware;
pub mod given_hints;
pub mod hint_candidate;
pub mod hint_expression;
pub mod host_name;
pub mod inspection;
mod link_modes;
pub mod lldp;
pub mod memory;
pub mod named_disk;
mod nics;
mod python_text;
pub mod report_types;
pub mod root_device;
pub mod root_device_hints;
pub mod smbios;
mod transport;
pub mod udev_properties;
mod udev_text;
pub mod vpd;

#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests")]
pub mod sys_tree;
#[cfg(test)]
mod tests;

use landfall_sys::sysfs;
use landfall_sys::system_path;

/// A problem that the operator should know about, although the agent continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(String);

impl Warning {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
