//! OpenStack's network_data.json → [`NetworkPlan`].
//!
//! The format is Nova's, in the dialect that Ironic's schema lets pass
//! (`network-data-schema.json`, 2026-08) and with what cloud-init and glean
//! take besides. A NIC is known by its hardware address, a bond by the id of
//! its link as glean calls it, a VLAN by `PARENT.ID`. A link that no network
//! names is switched on and gets no address. What cannot be used of a document
//! is a warning; a document with nothing to use is an error, since the next
//! source takes its place then.

mod fields;
mod links;
mod networks;
mod prefix;

use std::fmt;

use serde_json::Value;

use crate::plan::{Automatic, IpPlan, Method, NetworkPlan, USUAL_DHCP_TIMEOUT};
use fields::Warnings;

/// Longest text that is read: a hundred times what a full rack switch needs.
pub const LARGEST: usize = 1 << 20;

/// Why a document as a whole is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkDataError {
    /// Longer than [`LARGEST`].
    TooLong {
        /// Its bytes.
        found: usize,
    },
    /// No JSON; the parser's words.
    Syntax(String),
    /// JSON, but not an object.
    Shape,
    /// It has no link that can be used.
    NoLink {
        /// What is wrong with each, where any is there.
        warnings: Vec<String>,
    },
    /// It has links, and each network on them has a fault.
    NoNetwork {
        /// The faults.
        warnings: Vec<String>,
    },
}

impl fmt::Display for NetworkDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkDataError::TooLong { found } => {
                write!(f, "expected at most {LARGEST} bytes, found {found}")
            }
            NetworkDataError::Syntax(words) => write!(f, "expected JSON: {words}"),
            NetworkDataError::Shape => f.write_str("expected an object with links and networks"),
            NetworkDataError::NoLink { warnings } if warnings.is_empty() => {
                f.write_str("it describes no link")
            }
            NetworkDataError::NoLink { .. } => f.write_str("no link of it can be used"),
            NetworkDataError::NoNetwork { .. } => f.write_str("no network of it can be used"),
        }
    }
}

impl std::error::Error for NetworkDataError {}

impl NetworkDataError {
    /// The single faults that led to it.
    pub fn warnings(&self) -> &[String] {
        match self {
            NetworkDataError::NoLink { warnings } | NetworkDataError::NoNetwork { warnings } => {
                warnings
            }
            _ => &[],
        }
    }

    /// All of it, one line each: what is wrong with the whole, then the single
    /// faults.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.to_string()];
        lines.extend_from_slice(self.warnings());
        lines
    }
}

impl NetworkPlan {
    /// The plan that a document describes, and nothing else.
    ///
    /// # Errors
    /// If nothing of it can be used.
    pub fn from_network_data(text: &str) -> Result<NetworkPlan, NetworkDataError> {
        if text.len() > LARGEST {
            let found = text.len();
            return Err(NetworkDataError::TooLong { found });
        }
        // Some editors put a mark in front that JSON does not know.
        let text = text.trim_start_matches('\u{feff}');
        let document: Value = serde_json::from_str(text)
            .map_err(|error| NetworkDataError::Syntax(error.to_string()))?;
        let Value::Object(document) = document else {
            return Err(NetworkDataError::Shape);
        };
        let mut warnings = Warnings::default();
        let mut links = links::read(document.get("links"), &mut warnings);
        if links.is_empty() {
            let warnings = warnings.0;
            return Err(NetworkDataError::NoLink { warnings });
        }
        networks::read(document.get("networks"), &mut links, &mut warnings);
        let is_up =
            |ip: &Option<IpPlan>| ip.as_ref().is_some_and(|ip| ip.method != Method::Disabled);
        let nothing = !links
            .iter()
            .any(|link| is_up(&link.interface.ipv4) || is_up(&link.interface.ipv6));
        if nothing && !warnings.0.is_empty() {
            let warnings = warnings.0;
            return Err(NetworkDataError::NoNetwork { warnings });
        }
        networks::read_services(document.get("services"), &mut links, &mut warnings);
        let mut plan = NetworkPlan {
            interfaces: links.into_iter().map(|link| link.interface).collect(),
            warnings: warnings.0,
            ..NetworkPlan::default()
        };
        plan.sort();
        plan.warn_of_far_gateways();
        Ok(plan)
    }
}

/// A family that no network has asked for yet.
fn off() -> IpPlan {
    IpPlan {
        automatic: Automatic {
            timeout: Some(USUAL_DHCP_TIMEOUT),
            ..Automatic::default()
        },
        ..IpPlan::of(Method::Disabled)
    }
}

#[cfg(test)]
mod tests;
