//! /run/landfall/network.json: source, warnings, and the state of each NIC, for
//! whoever reads logs.

use serde_json::{Value, json};

use super::configurator::Configurator;
use crate::network::dhcp::Lease;
use crate::network::dhcp6;
use crate::network::nic::Nic;
use crate::network::reach::StepResult;
use crate::network::state::{AddressState, NetworkState, NicState};

impl Configurator {
    /// Writes the file where it would be different. Failing costs an operator
    /// a look and nobody else anything, so it is told once.
    pub(super) fn store_state(&mut self, state: &NetworkState) {
        let text = format!("{:#}\n", self.state_json(state));
        if self.stored_state == text {
            return;
        }
        if let Err(error) = self.setup.state_file.store(text.as_bytes())
            && self.stored_state.is_empty()
        {
            tracing::warn!("network.json: {error}");
        }
        self.stored_state = text;
    }

    fn state_json(&self, state: &NetworkState) -> Value {
        let choice = &self.setup.choice;
        let nics: Vec<_> = state
            .nics
            .iter()
            .map(|nic| self.nic_json(nic, self.nics.get(&nic.index)))
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
            "nics": nics,
            "dns": state.dns.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "search": state.search,
            "ntp": state.ntp,
        })
    }

    fn nic_json(&self, state: &NicState, nic: Option<&Nic>) -> Value {
        let interface = nic.and_then(|nic| nic.interface_of(&self.setup.choice.plan));
        let addresses: Vec<_> = state.addresses.iter().map(address_json).collect();
        let reach = self.reach.borrow();
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
