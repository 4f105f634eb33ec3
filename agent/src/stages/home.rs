//! Handles the differences between the two systems in which the agent runs: our ramdisk,
//! and a live system with its services.

use landfall_boot_params::BootParams;
use landfall_inventory::host_name;
use landfall_live_system::LiveSystem;
use landfall_network::Network;
use landfall_network_plan::Choice;
use tokio::sync::{mpsc, watch};

/// Sets the default host name, as OpenShift does, unless the host has a name. The
/// network may provide a better name later.
pub(super) async fn name_host(params: &BootParams, live: Option<&LiveSystem>) {
    let Some(name) = &params.default_hostname.value else {
        return;
    };
    match live {
        Some(services) if host_name::given().is_none() => set_host_name(services, name).await,
        Some(_) => {}
        None => {
            if let Err(error) = host_name::set_default(name) {
                tracing::warn!("IPA_DEFAULT_HOSTNAME: cannot set the host name {name}: {error}");
            }
        }
    }
}

/// Makes NetworkManager apply the plan if its source is a document. NetworkManager
/// applies kernel arguments by itself, because its generator has made profiles from them
/// in the initramfs. Without any configuration it sets up every NIC by itself.
pub(super) fn live_network(services: LiveSystem, choice: Choice) -> Network {
    let network = Network {
        state: landfall_network::follow(choice.clone()),
        // Nobody receives this value, because NetworkManager has its own rules for the
        // NIC that it prefers.
        reach: watch::Sender::default(),
        // Nobody receives these VLANs: the agent does not create VLANs that a switch
        // announces, because NetworkManager would not know them.
        switch_vlans: mpsc::channel(1).0,
    };
    if choice.source.is_document() {
        tokio::spawn(async move {
            if let Some(name) = &choice.plan.host_name {
                set_host_name(&services, name).await;
            }
            services.configure_network(&choice.plan).await;
        });
    }
    network
}

async fn set_host_name(services: &LiveSystem, name: &str) {
    match services.set_host_name(name).await {
        Ok(()) => tracing::info!("host name is {name}"),
        Err(failure) => tracing::warn!("{failure}"),
    }
}
