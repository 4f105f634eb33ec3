//! Makes the kernel ignore the routes of a NIC without a carrier.
//!
//! By default the kernel keeps using the routes of a NIC that has lost its carrier
//! (Documentation/networking/ip-sysctl, `ignore_routes_with_linkdown`). A host would then
//! be cut off after a cable is pulled, although another NIC still works.

use std::fs;
use std::io;
use std::path::Path;

/// Sets the switch for all NICs, including those that appear later. `root` is
/// /proc/sys/net.
///
/// # Errors
/// If a switch cannot be set; the message names its file. A missing address
/// family is not an error.
pub fn ignore_routes(root: &Path) -> io::Result<()> {
    for family in ["ipv4", "ipv6"] {
        if !root.join(family).exists() {
            continue;
        }
        for whose in ["all", "default"] {
            let path = root.join(family).join("conf").join(whose);
            let path = path.join("ignore_routes_with_linkdown");
            fs::write(&path, "1").map_err(|error| {
                io::Error::other(format!("cannot write to {}: {error}", path.display()))
            })?;
        }
    }
    Ok(())
}
