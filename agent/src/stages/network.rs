//! The stage that configures the network.

use landfall_boot_params::NetArgs;
use landfall_devices::interface_names::{self, NamingPolicy};
use landfall_live_system::LiveSystem;
use landfall_network::{Network, Setup};
use landfall_network_plan::NetworkPlan;
use landfall_report::failure::{Failure, Result};
use landfall_settings::Settings;
use landfall_sys::system_path::SystemPath;

use super::home::live_network;
use super::san_boot;

/// Chooses the network of this boot and starts to configure it. Also returns the plan of
/// its source, without the VLANs of `ipa-enable-vlan-interfaces`. `live` is `None` in the
/// ramdisk.
pub(super) async fn start_network(
    settings: &Settings,
    live: Option<&LiveSystem>,
) -> Result<(Network, NetworkPlan)> {
    let mut args = NetArgs::from_command_line(&settings.command_line);
    let (naming, warnings) = NamingPolicy::from_command_line(&settings.command_line);
    if live.is_none() {
        san_boot::add_nics(&mut args, &SystemPath::live());
    }
    if live.is_none() && args.needs_firmware() {
        // Load the driver for the iBFT here: the iBFT is a firmware table, not a device,
        // so no device requests the driver.
        landfall_init::modprobe(&"iscsi_ibft".into());
        let machine = SystemPath::live();
        let names = interface_names::names(&machine, &naming);
        landfall_network::read_firmware_nics(&mut args, &machine.join("sys"), &names);
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if settings.form.is_some()
        && let Err(error) = landfall_network::forget().await
    {
        tracing::warn!("cannot remove the network that was configured before the form: {error}");
    }
    let mut choice = settings.network_choice(&args);
    let plan = choice.plan.clone();
    let vlans = &settings.params.enable_vlan_interfaces;
    choice.plan.add_vlans(vlans, *settings.params.collect_lldp);
    let network = match live {
        Some(services) => live_network(services.clone(), choice),
        None => landfall_network::start(Setup::in_ramdisk(choice, naming)).map_err(|error| {
            Failure::other(format!("cannot configure the network by netlink: {error}"))
        })?,
    };
    Ok((network, plan))
}
