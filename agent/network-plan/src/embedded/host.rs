//! A host that the image builder put into the ramdisk, with the description of its
//! network and the hints for its root disk.

use std::collections::BTreeMap;
use std::fmt;

use landfall_boot_params::MacAddr;

use super::DIRECTORY;
use super::metal3_hints::Metal3Hints;
use crate::from_network_data::NetworkDataError;
use crate::from_nmstate::NmStateError;
use crate::plan::NetworkPlan;

/// The suffix of the files in the ramdisk.
pub const SUFFIX: &str = ".json";

/// Why the description of a host's network cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error(transparent)]
    NmState(#[from] NmStateError),
    #[error(transparent)]
    NetworkData(#[from] NetworkDataError),
}

impl DocumentError {
    /// Every fault, one line each.
    pub fn lines(&self) -> Vec<String> {
        match self {
            DocumentError::NmState(error) => error.lines(),
            DocumentError::NetworkData(error) => error.lines(),
        }
    }
}

/// One host, its network and the hints for its root disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedHost {
    /// The machine's host name, if one was given.
    pub host_name: Option<String>,
    /// The machine is this host if it has any of these NICs. If the list is empty, a
    /// machine is this host if no other host matches it.
    pub macs: Vec<MacAddr>,
    /// Maps names of NICs in the document to the hardware addresses of these NICs. On
    /// this machine the NICs may have other names.
    pub nics: BTreeMap<String, MacAddr>,
    /// The hints that choose the root disk if no other source gives hints.
    pub root_device_hints: Option<Metal3Hints>,
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
    /// The kind of the document: its name in the file and on the console.
    pub fn kind(&self) -> &'static str {
        match self {
            Document::NmState(_) => "nmstate",
            Document::NetworkData(_) => "network_data",
            Document::None => "none",
        }
    }

    /// The text as the operator gave it.
    pub fn text(&self) -> &str {
        match self {
            Document::NmState(text) | Document::NetworkData(text) => text,
            Document::None => "",
        }
    }

    /// The plan that the text describes.
    ///
    /// # Errors
    /// If the text cannot be used.
    fn plan(&self) -> Result<NetworkPlan, DocumentError> {
        Ok(match self {
            Document::NetworkData(text) => NetworkPlan::from_network_data(text)?,
            Document::NmState(text) => NetworkPlan::from_nmstate(text)?,
            Document::None => NetworkPlan::default(),
        })
    }
}

impl EmbeddedHost {
    /// The plan for this host. If `nics` has an address for a name, the plan identifies
    /// that NIC by the address.
    ///
    /// # Errors
    /// If the text cannot be used.
    pub fn plan(&self) -> Result<NetworkPlan, DocumentError> {
        let mut plan = self.document.plan()?;
        plan.match_nics_by_mac(&self.nics);
        if self.host_name.is_some() {
            plan.host_name.clone_from(&self.host_name);
        }
        Ok(plan)
    }

    /// The host name, or else the first hardware address, or else `any`.
    pub fn name(&self) -> String {
        match (&self.host_name, self.macs.first()) {
            (Some(name), _) => name.clone(),
            (None, Some(mac)) => mac.to_string().replace(':', "-"),
            (None, None) => "any".to_owned(),
        }
    }

    /// The path of the host's file in the ramdisk, without the leading slash.
    pub fn path(&self) -> String {
        format!("{DIRECTORY}/{}{SUFFIX}", self.name())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (host_name, mac, expected) in [
            (Some("a.example"), None, "etc/landfall/hosts/a.example.json"),
            (
                None,
                Some("52:54:00:00:00:01"),
                "etc/landfall/hosts/52-54-00-00-00-01.json",
            ),
            (None, None, "etc/landfall/hosts/any.json"),
        ] {
            let host = EmbeddedHost {
                host_name: host_name.map(str::to_owned),
                macs: mac.iter().map(|mac| mac.parse().unwrap()).collect(),
                nics: BTreeMap::new(),
                root_device_hints: None,
                document: Document::None,
            };
            assert_eq!(host.path(), expected);
        }
    }
}
