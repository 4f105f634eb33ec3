//! The command `poll.get_hardware_info`: returns the current inventory.

use std::collections::BTreeMap;
use std::net::IpAddr;

use landfall_inventory::collect::{CollectOptions, collect as collect_inventory};
use landfall_report::failure::{Failure, Result};
use landfall_sys::interface_addresses::interface_addresses;
use landfall_sys::system_path::SystemPath;
use serde_json::Value;

/// # Errors
/// If JSON cannot represent the inventory, which would be a bug in the agent.
pub(super) fn collect(bootif: Option<&str>, hide_bmc_nics: bool) -> Result<Value> {
    // The addresses come from the kernel, because on the machines that use this
    // command the agent may not have configured the network.
    let addresses: BTreeMap<String, Vec<IpAddr>> = interface_addresses()
        .into_iter()
        .map(|(name, own)| (name, own.into_iter().map(|(address, _)| address).collect()))
        .collect();
    let options = CollectOptions {
        addresses: &addresses,
        bootif,
        hide_bmc_nics,
        service_nic: None,
        ask_drivers: true,
    };
    let (inventory, warnings) = collect_inventory(&SystemPath::live(), options);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    serde_json::to_value(&inventory)
        .map_err(|error| Failure::other(format!("cannot write the inventory as JSON: {error}")))
}
