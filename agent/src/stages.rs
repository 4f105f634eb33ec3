//! The boot as a list of stages, in order. Each line calls one module; no
//! stage starts another.

mod callback;
mod home;
mod http_options;
mod inspection;
mod mdns_settings;
mod meeting;
mod own_image;
mod serving;
mod unattended;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use landfall_boot_params::NetArgs;
use landfall_network_plan::Choice;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::cli::RunArguments;
use crate::clock::Clock;
use crate::commands;
use crate::critical_section;
use crate::devices_settled::{DevicesSettled, devices_settled};
use crate::early::{self, Ending};
use crate::failure::{Failure, Result};
use crate::handover::written_disk::release_left_mounts;
use crate::http_client::ServiceClient;
use crate::interface_names::{self, NamingPolicy};
use crate::ironic::{NoNode, Retry};
use crate::live_system::{self, LiveSystem};
use crate::network::reach::Reach;
use crate::network::{self, HeardVlans, NetworkState, Setup};
use crate::permission::Home;
use crate::report::{self, Output};
use crate::rescue;
use crate::settings::{Settings, embedded_hosts};
use crate::state_file::STATE_DIRECTORY;
use crate::system_path::SystemPath;
use home::{live_network, name_host};
pub use http_options::http_options;
pub use meeting::ironic_by_mdns;
use meeting::wait_for_hardware;
pub use own_image::own_image;
use unattended::Order;

/// After this time the first lines of a stage are on the screen.
const STAGE_BEGINS: Duration = Duration::from_secs(5);

/// The reason is repeated at this interval, so that the console still shows it
/// after hours.
const SAID_AGAIN: Duration = Duration::from_secs(600);

/// How long the last lines may take to reach a slow console.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs the agent until the boot is to end. In the ramdisk the exit code says how:
/// see [`Ending`]. Any other code means a failure. In a live system no init of ours
/// reads the code, so the agent ends the boot through logind.
pub fn run(arguments: &RunArguments, debug: bool) -> ExitCode {
    let home = match Home::find(arguments.live_system) {
        Ok(home) => home,
        Err(failure) => {
            // The agent stops here, because it would also take over the network of
            // this machine.
            report::start(Output::Stderr, debug);
            tracing::error!("{failure}");
            return ExitCode::FAILURE;
        }
    };
    let output = match home {
        Home::Ramdisk => Output::Consoles,
        Home::LiveSystem => Output::Journal,
    };
    let settings = match Settings::of_this_boot() {
        Ok(settings) => settings,
        Err(error) => {
            report::start(output, debug);
            tracing::error!("/proc/cmdline: {error}");
            return ExitCode::FAILURE;
        }
    };
    let flush = report::start(output, debug || settings.params.wants_debug());
    report::tell_panics(&flush);
    // One thread runs all network tasks. Disks are written on other threads.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("starting the agent: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match home {
            Home::Ramdisk => in_ramdisk(settings).await.map(Some),
            Home::LiveSystem => in_live_system(settings).await,
        }
    });
    if let Err(failure) = &outcome {
        tracing::error!("{failure}");
    }
    // A thread that waits for a disk or a server must not keep the process alive.
    runtime.shutdown_background();
    flush.wait(LAST_LINES);
    match (outcome, home) {
        (Ok(Some(ending)), Home::Ramdisk) => ExitCode::from(ending.exit_code()),
        // logind has not ended the boot, so the agent does.
        (Ok(Some(ending)), Home::LiveSystem) => early::carry_out(ending, || ()),
        (Ok(None), _) => ExitCode::SUCCESS,
        (Err(_), _) => ExitCode::FAILURE,
    }
}

/// Runs the boot. Init can end it early.
async fn in_ramdisk(settings: Settings) -> Result<Ending> {
    tokio::spawn(async { early::give_signs_of_life().await });
    tokio::select! {
        outcome = boot(settings, None) => outcome,
        // Init knows which ending was ordered, and overrides this one.
        asked = asked_to_end() => asked.map(|()| Ending::PowerOff),
    }
}

/// Waits until init (see `early::supervise`) or systemd requests the end and no
/// commit is in progress. The boot continues meanwhile, because a commit may need
/// it.
async fn asked_to_end() -> Result<()> {
    let fault = |error: std::io::Error| {
        let details = format!("listening for the request to end: {error}");
        Failure::other(details)
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(fault)?;
    terminate.recv().await;
    let closing = tokio::task::spawn_blocking(|| {
        critical_section::close(|| tracing::info!("ending after the commit"));
    });
    closing.await.map_err(|error| fault(error.into()))
}

/// Runs the boot under systemd. Tells systemd that the agent is alive, and ends the
/// boot through logind. `None` if systemd requested the end of the agent or of the
/// machine.
async fn in_live_system(settings: Settings) -> Result<Option<Ending>> {
    tracing::info!("landfall {} in a live system", env!("CARGO_PKG_VERSION"));
    live_system::keep_watchdog();
    let services = LiveSystem::connect().await?;
    live_system::tell_ready();
    let boot = async {
        let ending = boot(settings, Some(services.clone())).await?;
        services.end(ending).await;
        Ok(Some(ending))
    };
    tokio::select! {
        outcome = boot => outcome,
        asked = asked_to_end() => {
            asked?;
            Ok(None)
        }
    }
}

/// Runs the boot. `live` holds the services of a live system; `None` in the
/// ramdisk.
async fn boot(settings: Settings, live: Option<LiveSystem>) -> Result<Ending> {
    release_left_mounts();
    let devices_settled = devices_settled();
    let hosts = embedded_hosts(Path::new("/"));
    let embedded = network::this_host(&hosts, devices_settled.clone()).await;
    let settled = devices_settled.clone();
    let settings = settings
        .with_embedded(embedded)
        .with_virtual_media(move || settled.borrow().is_some())
        .await;
    settings.report();
    name_host(&settings.params, live.as_ref()).await;
    let mut boot = Boot::start(settings, devices_settled, live)?;
    if rescue::is_rescued() {
        commands::blocking(|| {
            rescue::resume();
            Ok(())
        })
        .await?;
        match rescue::leave_to_the_user().await {}
    }
    boot.set_clock().await?;
    wait_for_hardware(&boot.settings.params).await;
    if let Some(order) = Order::of(&boot.settings, boot.live.is_some()) {
        return boot.install_unattended(&order).await;
    }
    let found = boot.find_service().await;
    let retry = match &found {
        Some(_) => Retry::Limited,
        None => Retry::Forever,
    };
    let node_uuid = boot.inspect(retry).await;
    let Some(found) = found else {
        return boot.nothing_to_serve().await;
    };
    let service = boot.service(&found);
    let (node, token) = match boot.look_up(&service, node_uuid).await {
        Ok(known) => known,
        Err(told @ NoNode::TokenTold) => {
            tracing::error!("lookup: {told}");
            return Ok(Ending::LockDown);
        }
        // Init restarts the agent, which looks for Ironic again.
        Err(fault) => {
            let fault = format!("lookup: {fault}");
            return Err(Failure::other(fault));
        }
    };
    boot.serve(&service, &found, node, &token).await
}

/// What the stages share.
struct Boot {
    settings: Arc<Settings>,
    client: ServiceClient,
    clock: Clock,
    network: watch::Receiver<NetworkState>,
    reach: watch::Sender<Reach>,
    heard_vlans: mpsc::Sender<HeardVlans>,
    devices_settled: DevicesSettled,
    state: &'static Path,
    /// Faults of this machine that were found on the way. They are repeated while
    /// nothing else happens, so that the screen shows them last.
    remarks: Vec<String>,
    /// `None` in the ramdisk.
    live: Option<LiveSystem>,
}

impl Boot {
    /// Starts to configure the network.
    fn start(
        settings: Settings,
        devices_settled: DevicesSettled,
        live: Option<LiveSystem>,
    ) -> Result<Self> {
        let mut args = NetArgs::from_command_line(&settings.command_line);
        let (naming, warnings) = NamingPolicy::from_command_line(&settings.command_line);
        if live.is_none() && args.needs_firmware() {
            // The iBFT is a firmware table, not a device, so nothing else loads its
            // driver.
            early::modprobe(&"iscsi_ibft".into());
            let machine = SystemPath::live();
            let names = interface_names::names(&machine, &naming);
            network::read_firmware_nics(&mut args, &machine.join("sys"), &names);
        }
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let given = settings.network_data.as_ref();
        let given = given.map(|found| found.text.as_str());
        let mut choice = Choice::for_boot(&settings.embedded, given, &args);
        let vlans = &settings.params.enable_vlan_interfaces;
        let listens = *settings.params.collect_lldp;
        choice.plan.add_vlans(vlans, listens);
        let network = match &live {
            Some(services) => live_network(services.clone(), choice),
            None => {
                let setup = Setup::in_ramdisk(choice, naming);
                network::start(setup).map_err(|error| {
                    Failure::other(format!("the kernel's network interface: {error}"))
                })?
            }
        };
        Ok(Self {
            network: network.state,
            reach: network.reach,
            heard_vlans: network.heard_vlans,
            client: ServiceClient::new(&http_options(&settings)?)?,
            clock: Clock::of_this_machine(),
            settings: Arc::new(settings),
            devices_settled,
            state: Path::new(STATE_DIRECTORY),
            remarks: Vec::new(),
            live,
        })
    }

    /// There is no service to take commands from. Reports this, and leaves the
    /// machine on for the operator.
    async fn nothing_to_serve(&self) -> Result<Ending> {
        let params = &self.settings.params;
        if params.inspection_callback_url.is_some() {
            // Ironic sets no other URL for an inspection that it manages.
            tracing::info!(
                "nothing else to do without ipa-api-url: waiting for Ironic to switch this machine off"
            );
        } else if params.api_url.is_none() {
            // A URL that cannot be used has been reported already.
            tracing::error!(
                "no provisioning service is configured -- add the kernel argument ipa-api-url=http://IRONIC:6385, or coreos.inst.install_dev=DISK to install without one"
            );
        }
        repeat_remarks(&self.remarks).await
    }

    /// Logs a warning, and stores it to be repeated.
    fn remark(&mut self, text: String) {
        tracing::warn!("{text}");
        self.remarks.push(text);
    }
}

/// Repeats forever what is wrong with this machine. It starts after the first lines
/// of the current stage, so that the reason is the last line on the screen.
async fn repeat_remarks(remarks: &[String]) -> ! {
    let mut pause = STAGE_BEGINS;
    loop {
        tokio::time::sleep(pause).await;
        for remark in remarks {
            tracing::warn!("{remark}");
        }
        pause = SAID_AGAIN;
    }
}
