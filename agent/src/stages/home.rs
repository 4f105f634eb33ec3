//! What is done differently in the two homes of the agent: our own ramdisk, and
//! a live system with its services.

use landfall_boot_params::BootParams;
use landfall_network_plan::Choice;
use tokio::sync::{mpsc, watch};

use crate::host_name;
use crate::live_system::LiveSystem;
use crate::network::{self, Network};

/// Calls the host as OpenShift does unless it has a name; the network may
/// know a better one.
pub(super) async fn name_host(params: &BootParams, live: Option<&LiveSystem>) {
    let Some(name) = &params.default_hostname.value else {
        return;
    };
    match live {
        Some(services) if host_name::given().is_none() => set_host_name(services, name).await,
        Some(_) => {}
        None => {
            if let Err(error) = host_name::set_default(name) {
                tracing::warn!("IPA_DEFAULT_HOSTNAME: setting the host name {name}: {error}");
            }
        }
    }
}

/// Has NetworkManager do what a file says. Kernel arguments are its own affair:
/// its generator has made profiles of them in the initramfs, and where nobody
/// says anything it asks every network by itself.
pub(super) fn live_network(services: LiveSystem, choice: Choice) -> Network {
    let network = Network {
        state: network::follow(choice.clone()),
        // NetworkManager has rules of its own for which NIC goes first.
        reach: watch::Sender::default(),
        // Nobody listens: VLANs that a switch names are not made here, where
        // NetworkManager would not know them.
        heard_vlans: mpsc::channel(1).0,
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
