//! Writes /run/landfall/network.json: the plan's source, its warnings and the state
//! of each NIC, for operators and log collection.

use std::collections::BTreeMap;
use std::path::Path;

use landfall_network_plan::Choice;
use landfall_sys::state_file::{STATE_DIRECTORY, StateFile};
use serde_json::{Value, json};

use super::dhcp::Lease;
use super::dhcp6;
use super::nic::Nic;
use super::reach::{Reach, StepResult};
use super::state::{AddressState, NetworkState, NicState};

/// The path of the file and its current content.
#[derive(Debug, Clone)]
pub struct StoredState {
    file: StateFile,
    text: String,
    /// The last write failed.
    failed: bool,
}

impl StoredState {
    pub fn of_this_boot() -> StoredState {
        StoredState::new(StateFile::new(Path::new(STATE_DIRECTORY), "network.json"))
    }

    pub fn new(file: StateFile) -> StoredState {
        StoredState {
            file,
            text: String::new(),
            failed: false,
        }
    }

    /// Writes the file if the content differs from the last successful write. Logs only
    /// the first failure in a row.
    pub(super) fn store(&mut self, state: &Value) {
        let text = format!("{state:#}\n");
        if self.text == text {
            return;
        }
        let stored = self.file.store(text.as_bytes());
        let failed_before = std::mem::replace(&mut self.failed, stored.is_err());
        match stored {
            Ok(()) => self.text = text,
            Err(error) if !failed_before => {
                tracing::warn!("cannot store network.json: {error}");
            }
            Err(_) => {}
        }
    }
}

/// The content of the file. `nics` supply what `state` does not contain.
pub(super) fn state_json(
    choice: &Choice,
    state: &NetworkState,
    nics: &BTreeMap<u32, Nic>,
    reach: &Reach,
) -> Value {
    let shown: Vec<_> = state
        .nics
        .iter()
        .map(|nic| nic_json(choice, nic, nics.get(&nic.index), reach))
        .collect();
    let reached = state
        .preferred
        .and_then(|index| state.nics.iter().find(|nic| nic.index == index));
    json!({
        "source": choice.source.key(),
        "host": choice.host,
        "service_reached_over": reached.map(|nic| &nic.name),
        "faults": choice.faults,
        "warnings": choice.plan.warnings,
        "nics": shown,
        "dns": state.dns.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "search": state.search,
        "ntp": state.ntp,
    })
}

fn nic_json(choice: &Choice, state: &NicState, nic: Option<&Nic>, reach: &Reach) -> Value {
    let interface = nic.and_then(|nic| nic.interface_of(&choice.plan));
    let addresses: Vec<_> = state.addresses.iter().map(address_json).collect();
    let way: Vec<_> = reach
        .ways
        .get(&state.index)
        .into_iter()
        .flatten()
        .map(StepResult::json)
        .collect();
    json!({
        "name": state.name,
        "other_names": nic.map(|nic| &nic.link.alternative_names),
        "mac": state.mac.to_string(),
        "permanent_mac": state.permanent_mac.map(|mac| mac.to_string()),
        "carrier": state.carrier,
        "plan": interface.map(|interface| interface.matches.to_string()),
        "controller": interface.and_then(|interface| interface.controller.as_ref()),
        "addresses": addresses,
        "lease": nic.and_then(|nic| nic.lease.as_ref()).map(lease_json),
        "dhcpv6": nic.and_then(|nic| nic.ipv6.lease()).map(lease6_json),
        "trouble": state.trouble,
        "way_to_service": way,
    })
}

fn address_json(address: &AddressState) -> Value {
    json!({
        "address": address.prefix.to_string(),
        "origin": address.origin.to_string(),
        "usable": address.usable,
    })
}

fn lease6_json(lease: &dhcp6::Lease) -> Value {
    let address = lease.address;
    json!({
        "address": address.map(|address| address.address),
        "server": lease.from,
        "seconds": address.and_then(|address| address.valid).map(|valid| valid.as_secs()),
    })
}

fn lease_json(lease: &Lease) -> Value {
    json!({
        "server": lease.server,
        "seconds": lease.lifetime.map(|lifetime| lifetime.as_secs()),
        "gateway": lease.gateway(),
        "host_name": lease.host_name,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::lab::log_lines_during;

    #[test]
    fn a_failed_write_is_logged_once_and_repeated() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("landfall");
        let mut stored = StoredState::new(StateFile::new(&directory, "network.json"));
        let read = || fs::read_to_string(directory.join("network.json")).unwrap();
        stored.store(&json!(1));
        assert_eq!(read(), "1\n");
        fs::remove_dir_all(&directory).unwrap();
        fs::write(&directory, "not a directory").unwrap();
        let lines = log_lines_during(|| {
            stored.store(&json!(2));
            stored.store(&json!(3));
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("WARN cannot store network.json: "));
        fs::remove_file(&directory).unwrap();
        stored.store(&json!(3));
        assert_eq!(read(), "3\n");
    }
}
