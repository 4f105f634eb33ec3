//! Sockets that are bound to no device work in every VRF.

use std::fs;
use std::io;
use std::path::Path;

/// Lets connections of all VRFs reach the agent's sockets, below this folder of
/// /proc/sys. The kernel's default is the main table alone
/// (Documentation/networking/vrf.rst).
pub(super) fn accept_in_every_vrf(ipv4: &Path) -> io::Result<()> {
    for name in [
        "tcp_l3mdev_accept",
        "udp_l3mdev_accept",
        "raw_l3mdev_accept",
    ] {
        fs::write(ipv4.join(name), "1")?;
    }
    Ok(())
}
