//! NMState (YAML) → [`NetworkPlan`].
//!
//! This module accepts what nmstate's own generator for offline use accepts
//! (`nmstatectl gc`, crate `nmstate` 2.2.62), with the same meaning: an interface
//! without `ipv4` and `ipv6` has no addresses, and an interface without `type` or a
//! port that is not described is a NIC. `tests/nmstate-oracle` compares the two.
//!
//! A setting that only the installed system can have (Open vSwitch, virtual functions)
//! becomes a warning with the path of its key. A setting is a fault if neither the
//! ramdisk nor the installed system supports it ([`refused`]), or if NetworkManager
//! would reject the generated files.

mod bond;
mod both_systems;
mod bridge;
mod described;
mod dns;
mod ethernet;
mod ethtool;
mod family;
mod fields;
mod infiniband;
mod interface;
mod ip;
mod ipvlan;
mod loopback;
mod mac_vlan;
mod ovs;
mod ovs_profiles;
mod ports;
mod refused;
mod route_rules;
mod routes;
pub(crate) mod set_mac;
mod sriov;
mod veth;
mod vlan;
mod vrf;
mod yaml;

use crate::plan::NetworkPlan;
use fields::{Fields, Findings};
pub use yaml::InvalidYaml;
use yaml::Yaml;

/// The maximum length of the document in bytes. A document with a few hundred
/// interfaces needs a tenth of this.
pub const LARGEST: usize = 1 << 20;

const TOP: &[&str] = &[
    "description",
    "hostname",
    "dns-resolver",
    "routes",
    "route-rules",
    "interfaces",
    "ovs-db",
];

/// Why a document cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NmStateError {
    /// Holds its length in bytes.
    #[error("expected at most {LARGEST} bytes, found {0}")]
    TooLong(usize),
    #[error(transparent)]
    Yaml(#[from] InvalidYaml),
    /// Holds all faults, one line each, with the path of the key.
    #[error("{}", .0.join("\n"))]
    Faults(Vec<String>),
}

impl NmStateError {
    /// Every fault, one line each.
    pub fn lines(&self) -> Vec<String> {
        match self {
            NmStateError::Faults(faults) => faults.clone(),
            whole => vec![whole.to_string()],
        }
    }
}

impl NetworkPlan {
    /// The plan that a document describes, and nothing else.
    ///
    /// # Errors
    /// If the document is too long, is not YAML, or has a fault.
    pub fn from_nmstate(text: &str) -> Result<NetworkPlan, NmStateError> {
        if text.len() > LARGEST {
            return Err(NmStateError::TooLong(text.len()));
        }
        let document = Yaml::parse(text)?;
        let findings = Findings::default();
        let plan = read(&document, &findings);
        let warnings = findings.into_result().map_err(NmStateError::Faults)?;
        let mut plan = plan.unwrap_or_default();
        plan.warnings = warnings;
        plan.sort();
        plan.warn_of_far_gateways();
        Ok(plan)
    }
}

/// Parses YAML that contains NMState among other things, and returns it as JSON.
/// The limits of depth and count are the same as for NMState.
///
/// # Errors
/// If the text is not YAML or exceeds the limits.
pub fn yaml_to_json(text: &str) -> Result<serde_json::Value, InvalidYaml> {
    Yaml::parse(text).map(Yaml::into_json)
}

/// Parses a file with the documents of many hosts, and returns each document as
/// JSON. Skips documents without any content.
///
/// # Errors
/// If the text is not YAML or exceeds the limits, which are larger than those for
/// the network of one host.
pub fn yaml_documents(text: &str) -> Result<Vec<serde_json::Value>, InvalidYaml> {
    let documents = Yaml::parse_all(text)?;
    Ok(documents.into_iter().map(Yaml::into_json).collect())
}

fn read(document: &Yaml, findings: &Findings) -> Option<NetworkPlan> {
    let top = match document {
        Yaml::Map(_) => {
            let top = Fields::unchecked(document, String::new(), findings)?;
            top.expect_keys(&[TOP]);
            if top.get("ovs-db").is_some() {
                top.warn("ovs-db", "no NetworkManager profile can store it; ignored");
            }
            top
        }
        Yaml::Null => Fields::unchecked(document, String::new(), findings)?,
        other => {
            findings.fault(
                "document",
                format!("expected a mapping, found {}", other.kind()),
            );
            return None;
        }
    };
    let _ = top.text("description");
    let (mut described, bridges) = interface::read_all(&top);
    ports::connect(&mut described, &bridges, findings);
    let nowhere = routes::read(&top, &mut described);
    dns::read(&top, &mut described);
    routes::give_to_loopback(nowhere, &mut described);
    let rules = route_rules::read(&top, &mut described);
    let (interfaces, installed) = described.into_interfaces(bridges, findings);
    Some(NetworkPlan {
        host_name: host_name(&top),
        interfaces,
        installed,
        rules,
        ..NetworkPlan::default()
    })
}

fn host_name(top: &Fields) -> Option<String> {
    let fields = top.child("hostname", &["running", "config"])?;
    let _ = fields.text("running");
    // An empty text sets no host name, so that the name can come from another
    // source.
    let name = fields.text("config").filter(|name| !name.is_empty())?;
    if !landfall_boot_params::dracut_net::is_host_name(name) {
        fields.expected("config", "a host name", name);
    }
    Some(name.to_owned())
}

#[cfg(test)]
mod tests;
