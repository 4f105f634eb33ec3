//! The hosts that the image builder put into the ramdisk: their networks and the
//! hints for their root disks.
//!
//! Each host is a separate file in [`DIRECTORY`]. So a second archive that is appended
//! to a finished ramdisk, or written into the embed area of an ISO, can add hosts or
//! replace one. The file is a JSON object:
//!
//! | key | |
//! |---|---|
//! | `format` | 1 |
//! | `host_name` | the machine's host name, or null |
//! | `macs` | hardware addresses that identify the machine; empty: any machine |
//! | `nics` | name in the text -> hardware address of the NIC that the name means |
//! | `root_device_hints` | hints for the root disk in metal3's spelling; may be missing |
//! | `kind` | `nmstate`, `network_data`, or `none`: no network is described |
//! | `text` | the description as it was given |
//!
//! The file keeps the original text instead of a plan made from it. So the agent can show
//! the operator's text, and it parses the text with the same code with which the builder
//! checked it.

mod host;
mod host_search;
mod metal3_hints;
mod nic_names;
mod stored;

use landfall_boot_params::{ClonedMac, MacAddr};

use crate::plan::{Interface, InterfaceKind, NetworkPlan};
pub use host::{Document, DocumentError, EmbeddedHost, SUFFIX};
pub use host_search::{Embedded, EmbeddedHosts, UnclearHints};
pub use metal3_hints::{Metal3HintError, Metal3Hints};
pub use stored::{EmbeddedError, HINTS_KEY, LARGEST};

/// The directory of the files in the ramdisk, without the leading slash.
pub const DIRECTORY: &str = "etc/landfall/hosts";
/// At most this many hosts are read from one ramdisk.
pub const MOST_HOSTS: usize = 4096;

/// The hardware addresses by which a plan identifies NICs.
pub fn known_macs(plan: &NetworkPlan) -> Vec<MacAddr> {
    macs(plan, |nic| nic.matches.mac)
}

/// The hardware addresses that a plan sets on NICs. Most documents give the address that
/// the NIC already has.
pub fn given_macs(plan: &NetworkPlan) -> Vec<MacAddr> {
    macs(plan, |nic| nic.set_mac.and_then(ClonedMac::address))
}

fn macs(plan: &NetworkPlan, of: impl Fn(&Interface) -> Option<MacAddr>) -> Vec<MacAddr> {
    let mut macs = Vec::new();
    for interface in &plan.interfaces {
        if interface.kind == InterfaceKind::Ethernet
            && let Some(mac) = of(interface)
            && !macs.contains(&mac)
        {
            macs.push(mac);
        }
    }
    macs
}
