//! Makes sockets that are not bound to a device work in every VRF.

use std::fs;
use std::io;
use std::path::Path;

/// Lets connections in all VRFs reach the agent's sockets. By default, only connections
/// outside of every VRF reach them (Documentation/networking/vrf.rst). `ipv4` is
/// /proc/sys/net/ipv4.
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
