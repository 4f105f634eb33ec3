//! The boot as a list of stages, in order. Each line calls one module; no
//! stage starts another.

mod callback;
mod clock;
mod failure_logs;
mod form;
mod hardware;
mod home;
mod inspection;
mod iscsi_boot;
mod lookup;
mod mdns_settings;
mod network;
mod own_image;
mod process;
mod remarks;
mod rescued;
mod san_boot;
mod search;
mod serving;
mod status;
mod syslog;
mod unattended;

use std::path::Path;
use std::sync::Arc;

use form::TryThem;
use hardware::{report_driver_faults, wait_for_hardware};
use home::name_host;
use landfall_devices::devices_settled::{DevicesSettled, devices_settled};
use landfall_discovery::clock::Clock;
use landfall_handover::written_disk::release_left_mounts;
use landfall_http_client::ServiceClient;
use landfall_init::Ending;
use landfall_ironic::Retry;
use landfall_live_system::LiveSystem;
use landfall_network::reach::Reach;
use landfall_network::{Network, NetworkState, SwitchVlans, this_host};
use landfall_report::failure::Result;
use landfall_report::status::begin_step;
use landfall_settings::{FormArguments, Settings, embedded_hosts};
use landfall_sys::state_file::STATE_DIRECTORY;
use lookup::Lookup;
use network::start_network;
use tokio::sync::{mpsc, watch};

use crate::api::Listening;
use crate::http_options::{http_options, report_authorities};
use crate::rescue;
pub use own_image::own_image;
pub use process::{RunArguments, run};
use rescued::stay_rescued;

/// Runs the boot. `live` holds the services of a live system; `None` in the
/// ramdisk. `form` receives what an operator gives in the form on a console.
async fn boot(
    settings: Settings,
    live: Option<LiveSystem>,
    form: Option<TryThem>,
) -> Result<Ending> {
    release_left_mounts();
    if live.is_none() {
        warn_all(&settings.ignition.write_companions(Path::new("/")));
    }
    if let Some(container) = &settings.container {
        warn_all(&container.write_copies(Path::new(STATE_DIRECTORY)));
    }
    let devices_settled = devices_settled();
    let hosts = embedded_hosts(Path::new("/"));
    let embedded = this_host(&hosts, devices_settled.clone()).await;
    let settled = devices_settled.clone();
    let settings = settings
        .with_embedded(embedded)
        .with_virtual_media(move || settled.borrow().is_some())
        .await
        .with_form(FormArguments::load(Path::new(STATE_DIRECTORY)));
    settings.report();
    report_authorities(&settings);
    name_host(&settings.params, live.as_ref()).await;
    begin_step("configuring the network");
    let (network, plan) = start_network(&settings, live.as_ref()).await?;
    if live.is_none() {
        report_driver_faults(devices_settled.clone());
    }
    let mut boot = Boot::new(settings, devices_settled, network, live)?;
    status::follow(boot.network.clone(), boot.reach.subscribe());
    boot.forward_log()?;
    if rescue::is_rescued() {
        match stay_rescued().await? {}
    }
    if let Some(form) = form.filter(|_| *boot.settings.params.console_form) {
        form::offer(Arc::clone(&boot.settings), plan, boot.network.clone(), form);
    }
    boot.set_clock().await?;
    wait_for_hardware(&boot.settings.params).await;
    boot.connect_storage_networks().await;
    if let Some(order) = boot.unattended_order() {
        return boot.install_unattended(&order).await;
    }
    let found = boot.find_service().await;
    let retry = match &found {
        Some(_) => Retry::Limited,
        None => Retry::Forever,
    };
    begin_step("inspecting the hardware");
    let node_uuid = boot.inspect(retry).await;
    let Some(found) = found else {
        begin_step("waiting: no Ironic is configured to give commands");
        return boot.nothing_to_serve().await;
    };
    let service = boot.service(&found);
    begin_step("asking Ironic for this machine's node");
    let looked_up = boot.look_up(&service, node_uuid).await;
    match looked_up.map_err(|failure| boot.with_address_of_logs(failure))? {
        Lookup::Known { node, token } => boot.serve(&service, &found, node, &token).await,
        Lookup::LockDown => Ok(Ending::LockDown),
    }
}

/// The values that the stages share.
struct Boot {
    settings: Arc<Settings>,
    client: ServiceClient,
    clock: Clock,
    network: watch::Receiver<NetworkState>,
    reach: watch::Sender<Reach>,
    switch_vlans: mpsc::Sender<SwitchVlans>,
    devices_settled: DevicesSettled,
    state: &'static Path,
    /// The faults that the agent repeats while it serves or waits, see [`remarks`].
    remarks: Vec<String>,
    /// The services of a live system; `None` in the ramdisk.
    live: Option<LiveSystem>,
    /// Serves the status pages until the agent serves commands.
    pages: Option<Listening>,
}

impl Boot {
    fn new(
        settings: Settings,
        devices_settled: DevicesSettled,
        network: Network,
        live: Option<LiveSystem>,
    ) -> Result<Self> {
        Ok(Self {
            network: network.state,
            reach: network.reach,
            switch_vlans: network.switch_vlans,
            pages: status::serve_pages(&settings),
            client: ServiceClient::new(&http_options(&settings)?)?,
            clock: Clock::of_this_machine(),
            settings: Arc::new(settings),
            devices_settled,
            state: Path::new(STATE_DIRECTORY),
            remarks: Vec::new(),
            live,
        })
    }
}

fn warn_all(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}
