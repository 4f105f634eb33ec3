//! Routes of a NIC without a carrier are passed over.
//!
//! The kernel keeps them and goes on sending there, unless told otherwise
//! (Documentation/networking/ip-sysctl, `ignore_routes_with_linkdown`): a host
//! with another NIC that works would be cut off by a cable that is pulled.

use std::fs;
use std::io;
use std::path::Path;

/// Tells the kernel so, for the NICs to come as well.
///
/// # Errors
/// The switch that could not be set. A kernel without IPv6 has none for it.
pub fn ignore_routes(root: &Path) -> io::Result<()> {
    for family in ["ipv4", "ipv6"] {
        if !root.join(family).exists() {
            continue;
        }
        for whose in ["all", "default"] {
            let path = root.join(family).join("conf").join(whose);
            let path = path.join("ignore_routes_with_linkdown");
            fs::write(&path, "1")
                .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}
