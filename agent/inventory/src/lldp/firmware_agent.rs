//! Disables the LLDP agent in the firmware of some NICs. If that agent is enabled, the
//! host does not receive the LLDP frames.

use std::io;

use landfall_sys::ethtool_private_flags::set_private_flag;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// The driver, its private flag, and the value of the flag with which LLDP
/// frames reach the host (Linux, networking/device_drivers/ethernet/intel:
/// i40e.rst, ice.rst).
const FLAGS: [(&str, &str, bool); 2] = [
    ("i40e", "disable-fw-lldp", true),
    ("ice", "fw-lldp-agent", false),
];

/// Disables the LLDP agent in the firmware of this interface, if it has one.
/// Does nothing for other drivers.
pub fn silence(root: &SystemPath, interface: &str) {
    let link = root.join("sys/class/net").join(interface);
    let driver = sysfs::link_name(&link.join("device/driver"));
    let Some((_, flag, value)) = FLAGS
        .iter()
        .find(|(name, _, _)| driver.as_deref() == Some(name))
    else {
        return;
    };
    let word = if *value { "on" } else { "off" };
    match set_private_flag(interface, flag, *value) {
        Ok(true) => tracing::info!(
            "{interface}: disabled the LLDP agent in the NIC's firmware ({flag} {word}), so LLDP frames reach the host"
        ),
        Ok(false) => {}
        // Older firmware and virtual functions have no LLDP agent.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.kind() == io::ErrorKind::Unsupported => {}
        Err(error) => tracing::warn!(
            "{interface}: cannot set {flag} to {word}: {error}; the NIC may not pass LLDP to the host"
        ),
    }
}
