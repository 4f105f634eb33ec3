//! OpenStack's network_data.json → [`NetworkPlan`].
//!
//! The format is Nova's, in the dialect that Ironic's schema accepts
//! (`network-data-schema.json`, 2026-08), with the extensions of cloud-init and
//! glean. The plan identifies a NIC by its hardware address. A bond has the id of
//! its link as its name, as in glean, and a VLAN is named `PARENT.ID`. A link
//! without a network is brought up without an address.
//!
//! A part of the document that cannot be used becomes a warning. A document without
//! any usable part is an error, so that the next source applies.

mod fields;
mod links;
mod networks;
mod prefix;

use serde_json::Value;

use crate::plan::{IpPlan, Method, NetworkPlan};
use fields::Warnings;
use links::Link;

/// The maximum length of the document in bytes: a hundred times the size of a document
/// with a NIC on every port of a rack switch.
pub const LARGEST: usize = 1 << 20;

/// Why a whole document cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkDataError {
    /// Holds its length in bytes.
    #[error("expected at most {LARGEST} bytes, found {0}")]
    TooLong(usize),
    /// The document is not JSON. Holds the parser's message.
    #[error("expected JSON: {0}")]
    Syntax(String),
    #[error("expected an object with links and networks")]
    Shape,
    #[error("it describes no link")]
    Empty,
    /// The document has links, but none can be used. Holds the faults of the links.
    #[error("no link can be used")]
    NoLink(Vec<String>),
    /// The document has usable links, but no usable network. Holds all faults of the document.
    #[error("no network can be used")]
    NoNetwork(Vec<String>),
}

impl NetworkDataError {
    /// The individual faults that led to the error.
    pub fn warnings(&self) -> &[String] {
        match self {
            NetworkDataError::NoLink(faults) | NetworkDataError::NoNetwork(faults) => faults,
            _ => &[],
        }
    }

    /// The error as a whole and then the individual faults, one line each.
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
    /// If the document is too long, is not a JSON object, has no usable link, or has
    /// faults and no usable network.
    pub fn from_network_data(text: &str) -> Result<NetworkPlan, NetworkDataError> {
        if text.len() > LARGEST {
            return Err(NetworkDataError::TooLong(text.len()));
        }
        // Some editors put a byte order mark in front, which JSON does not allow.
        let text = text.trim_start_matches('\u{feff}');
        let document: Value = serde_json::from_str(text)
            .map_err(|error| NetworkDataError::Syntax(error.to_string()))?;
        let Value::Object(document) = document else {
            return Err(NetworkDataError::Shape);
        };
        let warnings = Warnings::default();
        let mut links = links::read(document.get("links"), &warnings);
        if links.is_empty() {
            return Err(match warnings.into_lines() {
                faults if faults.is_empty() => NetworkDataError::Empty,
                faults => NetworkDataError::NoLink(faults),
            });
        }
        networks::read(document.get("networks"), &mut links, &warnings);
        let is_up = |ip: &IpPlan| ip.method != Method::Disabled;
        let is_up = |link: &Link| link.interface.families().any(is_up);
        if !links.iter().any(is_up) && !warnings.is_empty() {
            return Err(NetworkDataError::NoNetwork(warnings.into_lines()));
        }
        networks::read_services(document.get("services"), &mut links, &warnings);
        let mut plan = NetworkPlan {
            interfaces: links.into_iter().map(|link| link.interface).collect(),
            warnings: warnings.into_lines(),
            ..NetworkPlan::default()
        };
        plan.sort();
        plan.warn_of_far_gateways();
        Ok(plan)
    }
}

#[cfg(test)]
mod tests;
