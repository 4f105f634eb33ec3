//! The networks of hosts that the image builder put into the ramdisk.
//!
//! Each host is a separate file in [`DIRECTORY`]. So a second archive after a
//! finished ramdisk, or in the embed area of an ISO, can add hosts or replace one.
//! The file is a JSON object:
//!
//! | key | |
//! |---|---|
//! | `format` | 1 |
//! | `host_name` | the machine's host name, or null |
//! | `macs` | hardware addresses that identify the machine; empty: any machine |
//! | `nics` | name in the text -> hardware address of the NIC that the name means |
//! | `kind` | `nmstate`, `network_data`, or `none`: the host has only a name |
//! | `text` | the description as it was given |
//!
//! The file keeps the original text instead of the plan made from it. So the
//! operator's own words can be shown, and the agent reads the text with the code
//! that the builder checked it with.

mod host_search;
mod nic_names;
mod stored;

use std::collections::BTreeMap;
use std::fmt;

use landfall_boot_params::{ClonedMac, MacAddr};

use crate::plan::{Interface, InterfaceKind, NetworkPlan};
pub use host_search::{Embedded, EmbeddedHosts};
pub use stored::EmbeddedError;

/// The directory of the files in the ramdisk, without the leading slash.
pub const DIRECTORY: &str = "etc/landfall/hosts";
/// The end of the file names.
pub const SUFFIX: &str = ".json";
/// Longest file that is read, in bytes: enough for the longest text with every byte
/// escaped.
pub const LARGEST: usize = 8 << 20;
/// Most hosts in one ramdisk.
pub const MOST_HOSTS: usize = 4096;

/// One host and its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedHost {
    /// The machine's host name, if one was given.
    pub host_name: Option<String>,
    /// A machine with any of these NICs is this host. If the list is empty, every
    /// machine is.
    pub macs: Vec<MacAddr>,
    /// Names of NICs in the document that may differ from the names on this
    /// machine.
    pub nics: BTreeMap<String, MacAddr>,
    /// The description of its network.
    pub document: Document,
}

/// A description of a network, in one of the known formats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    NmState(String),
    NetworkData(String),
    /// No description: the next source applies.
    None,
}

impl Document {
    /// Its name in the file and on the console.
    pub fn kind(&self) -> &'static str {
        match self {
            Document::NmState(_) => "nmstate",
            Document::NetworkData(_) => "network_data",
            Document::None => "none",
        }
    }

    /// The original text.
    pub fn text(&self) -> &str {
        match self {
            Document::NmState(text) | Document::NetworkData(text) => text,
            Document::None => "",
        }
    }

    /// The plan that the text describes.
    ///
    /// # Errors
    /// Every fault, one line each, if the text cannot be used.
    fn plan(&self) -> Result<NetworkPlan, Vec<String>> {
        match self {
            Document::NetworkData(text) => {
                NetworkPlan::from_network_data(text).map_err(|error| error.lines())
            }
            Document::NmState(text) => NetworkPlan::from_nmstate(text),
            Document::None => Ok(NetworkPlan::default()),
        }
    }
}

impl EmbeddedHost {
    /// The plan for this host. If `nics` explains a name, the plan identifies that
    /// NIC by its hardware address.
    ///
    /// # Errors
    /// Every fault, one line each, if the text cannot be used.
    pub fn plan(&self) -> Result<NetworkPlan, Vec<String>> {
        let mut plan = self.document.plan()?;
        plan.mean_by_mac(&self.nics);
        if self.host_name.is_some() {
            plan.host_name.clone_from(&self.host_name);
        }
        Ok(plan)
    }

    /// The name of its file, made from the host name or the first hardware address.
    pub fn file_name(&self) -> String {
        let stem = match (&self.host_name, self.macs.first()) {
            (Some(name), _) => name.clone(),
            (None, Some(mac)) => mac.to_string().replace(':', "-"),
            (None, None) => "any".to_owned(),
        };
        stem + SUFFIX
    }
}

/// Formats as `node7 (52:54:00:00:00:01)`.
impl fmt::Display for EmbeddedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let macs: Vec<String> = self.macs.iter().map(MacAddr::to_string).collect();
        match (&self.host_name, macs.is_empty()) {
            (Some(name), true) => f.write_str(name),
            (Some(name), false) => write!(f, "{name} ({})", macs.join(" ")),
            (None, false) => write!(f, "the host with {}", macs.join(" ")),
            (None, true) => f.write_str("any machine"),
        }
    }
}

/// The hardware addresses by which a plan identifies NICs.
pub fn known_macs(plan: &NetworkPlan) -> Vec<MacAddr> {
    macs(plan, |nic| nic.matches.mac)
}

/// The hardware addresses that a plan sets on NICs. Most people write the address
/// that the NIC already has.
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
