//! Reads hosts from the files that OpenShift's and metal3's users have:
//! agent-config.yaml, install-config.yaml, and BareMetalHosts with their Secrets.
//!
//! This crate is pure: it reads no files. It reports every fault of every host with
//! its path, and shows no value that may be a secret: it never reads the address and
//! the password of a BMC.

mod agent_config;
mod bare_metal_host;
mod bare_metal_hosts;
mod install_config;
mod manifest;
mod network_config;
mod network_secret;
mod reader;

use std::collections::BTreeMap;

use landfall_network_plan::{Document, EmbeddedHost};

pub use agent_config::read_agent_config;
pub use bare_metal_hosts::{ManifestFile, read_bare_metal_hosts};
pub use install_config::read_install_config;
pub use network_secret::{NETWORK_KEYS, NetworkSecretError, network_of_keys};

/// A host as the user described it.
#[derive(Debug)]
pub struct Given {
    /// Name of the source in messages: `hosts/node7.yaml`.
    pub title: String,
    pub host: EmbeddedHost,
    pub identity: Identity,
}

/// Where the hardware addresses of a host come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The source lists the addresses. If its list is empty, a fault has been reported.
    Listed,
    /// The description of the network has the addresses. If there is only one host, the
    /// description may have none, and then applies to every machine.
    InNetwork,
    /// The description of the network must have the addresses, because the source
    /// describes one particular machine.
    OnlyInNetwork,
}

/// The hosts that have been read, and one line for each fault and warning.
#[derive(Debug, Default)]
pub struct Reading {
    pub given: Vec<Given>,
    pub faults: Vec<String>,
    pub warnings: Vec<String>,
}

/// A host with this name and network, without hardware addresses and hints.
pub fn host(host_name: Option<String>, document: Document) -> EmbeddedHost {
    EmbeddedHost {
        host_name,
        macs: Vec::new(),
        nics: BTreeMap::new(),
        root_device_hints: None,
        document,
    }
}
