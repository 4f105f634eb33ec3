//! Makes each NIC answer ARP only for its own addresses.
//!
//! By default the kernel answers on every NIC for every address of the machine
//! (Documentation/networking/ip-sysctl, `arp_ignore`). With two NICs in one network,
//! other machines may then learn the MAC address of the wrong NIC. The answers to a probe
//! from one NIC can then arrive on the other NIC, which may be a NIC that must not send
//! anything.

use std::fs;
use std::io;
use std::path::Path;

/// Makes all NICs, including those that appear later, answer only for their own
/// addresses. `root` is /proc/sys/net.
///
/// # Errors
/// If the switch cannot be set; the message names its file.
pub fn answer_for_own_addresses(root: &Path) -> io::Result<()> {
    let path = root.join("ipv4/conf/all/arp_ignore");
    fs::write(&path, "1")
        .map_err(|error| io::Error::other(format!("cannot write to {}: {error}", path.display())))
}
