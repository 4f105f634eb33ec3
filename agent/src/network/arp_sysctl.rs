//! ARP is answered by the NIC that has the address.
//!
//! By itself the kernel answers for every address of the machine on every NIC
//! (Documentation/networking/ip-sysctl, `arp_ignore`). With two NICs in one
//! network the other machines then learn either, and the answers to a probe of
//! one NIC come in by another, which may be one that shall send nothing.

use std::fs;
use std::io;
use std::path::Path;

/// Tells the kernel so, for the NICs to come as well.
///
/// # Errors
/// The switch that could not be set.
pub fn answer_for_own_addresses(root: &Path) -> io::Result<()> {
    let path = root.join("ipv4/conf/all/arp_ignore");
    fs::write(&path, "1").map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}
