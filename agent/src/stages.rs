//! The boot as a list of stages, in order. Each line calls one module; no
//! stage starts another.

use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use landfall_boot_params::argument_value::ServiceUrls;
use landfall_boot_params::{BootParams, NetArgs};
use landfall_network_plan::Choice;
use tokio::sync::{Notify, watch};

use crate::api::{self, Api, TlsIdentity};
use crate::commands::{self, Dispatcher, Ledger, Machine};
use crate::devices_settled::{self, DevicesSettled, devices_settled};
use crate::discovery::{self, Found, Wanted};
use crate::early::Ending;
use crate::failure::{Class, Failure, Result};
use crate::handover::written_disk::release_left_mounts;
use crate::http_client::{self, HttpOptions, ServiceClient};
use crate::interface_names::NamingPolicy;
use crate::inventory::inspection::{self, Circumstances};
use crate::inventory::wait_for_disk::Patience;
use crate::ironic::{self, AgentToken, Callback, LookupAnswer, Query, Service};
use crate::network::{self, NetworkState, Setup, WaitFor};
use crate::permission::WritePermission;
use crate::report::{self, Output};
use crate::settings::Settings;
use crate::state_file::{STATE_DIRECTORY, StateFile};

/// How long the last lines may take to reach a slow console.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs the agent in the ramdisk until the boot is to end. The exit code says
/// how: see [`Ending`]; any other means that something went wrong.
pub fn run(debug: bool) -> ExitCode {
    if let Err(failure) = WritePermission::in_ramdisk() {
        // The network of this machine would be taken over, too.
        report::start(Output::Stderr, debug);
        tracing::error!("{failure}");
        return ExitCode::FAILURE;
    }
    let settings = match Settings::of_this_boot() {
        Ok(settings) => settings,
        Err(error) => {
            report::start(Output::Consoles, debug);
            tracing::error!("/proc/cmdline: {error}");
            return ExitCode::FAILURE;
        }
    };
    let flush = report::start(Output::Consoles, debug || settings.params.wants_debug());
    report::tell_panics(&flush);
    // One thread drives all conversations; disks are written on threads of
    // their own.
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
    let outcome = runtime.block_on(boot(settings));
    if let Err(failure) = &outcome {
        tracing::error!("{failure}");
    }
    flush.wait(LAST_LINES);
    match outcome {
        Ok(ending) => ExitCode::from(ending.exit_code()),
        Err(_) => ExitCode::FAILURE,
    }
}

async fn boot(settings: Settings) -> Result<Ending> {
    settings.report();
    release_left_mounts();
    let mut boot = Boot::start(settings)?;
    let found = boot.find_service().await;
    let node_uuid = boot.inspect().await;
    let Some(found) = found else {
        return boot.nothing_to_serve().await;
    };
    let service = boot.service(&found);
    let (node, token) = boot.look_up(&service, node_uuid).await;
    boot.serve(&service, &found, node, &token).await
}

/// What the stages share: told once, or going on in the background.
struct Boot {
    settings: Arc<Settings>,
    client: ServiceClient,
    network: watch::Receiver<NetworkState>,
    devices_settled: DevicesSettled,
    state: &'static Path,
}

impl Boot {
    /// Sets the network going.
    fn start(settings: Settings) -> Result<Self> {
        let args = NetArgs::from_command_line(&settings.command_line);
        let (naming, warnings) = NamingPolicy::from_command_line(&settings.command_line);
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let mut choice = Choice::for_boot(None, &args);
        let vlans = &settings.params.enable_vlan_interfaces;
        choice.plan.add_vlans(vlans);
        Ok(Self {
            network: network::start(Setup::in_ramdisk(choice, naming)).map_err(|error| {
                Failure::new(
                    Class::CommandExecutionError,
                    format!("the kernel's network interface: {error}"),
                )
            })?,
            client: ServiceClient::new(&http_options(&settings))?,
            settings: Arc::new(settings),
            devices_settled: devices_settled(),
            state: Path::new(STATE_DIRECTORY),
        })
    }

    /// Waits for an address, then for a service that answers. `None` if no URL
    /// was given: there is nothing to look for.
    async fn find_service(&mut self) -> Option<Found> {
        let urls = match &self.settings.params.api_url.value {
            Some(ServiceUrls::Urls(urls)) => urls.clone(),
            Some(ServiceUrls::Mdns) => {
                tracing::error!("ipa-api-url=mdns is not supported yet -- give the URL of Ironic");
                return None;
            }
            None => return None,
        };
        let wanted = Wanted {
            urls,
            timeout: *self.settings.params.http_request_timeout,
        };
        network::first_address(&mut self.network).await;
        Some(discovery::find(&self.client, &wanted, &mut self.network).await)
    }

    /// Reports the hardware if inspection was asked for. Returns the node's
    /// UUID if Ironic told it. A failure is reported and the boot goes on.
    async fn inspect(&mut self) -> Option<String> {
        let params = &self.settings.params;
        let urls = match &params.inspection_callback_url.value {
            Some(ServiceUrls::Urls(urls)) => urls.clone(),
            _ => return None,
        };
        network::first_address(&mut self.network).await;
        let patience = Patience::of_attempts(*params.disk_wait_attempts, *params.disk_wait_delay);
        devices_settled::wait(self.devices_settled.clone(), patience.timeout).await;
        wait_for_addresses(params, &mut self.network).await;
        let circumstances = Circumstances {
            collectors: params.inspection_collectors.value.clone(),
            lldp_timeout: *params.lldp_timeout,
            lldp_in_interfaces: *params.collect_lldp,
            logs: String::new,
            patience,
            addresses: self.network.borrow().addresses(),
            bootif: params.boot_interface.as_ref().map(|nic| nic.text.clone()),
            managers: &commands::HARDWARE_MANAGERS,
        };
        let posted = match inspection::inspect(circumstances).await {
            Ok(body) => {
                ironic::post_inventory(
                    &self.client,
                    &urls,
                    &body,
                    params.global_request_id.as_ref().map(|id| id.0.as_str()),
                    *params.http_request_timeout,
                )
                .await
            }
            Err(fault) => Err(fault),
        };
        match posted {
            Ok(uuid) => {
                tracing::info!("inspection: Ironic has taken the inventory");
                uuid
            }
            Err(fault) => {
                tracing::error!("inspection: {fault} -- going on without");
                None
            }
        }
    }

    /// Nobody to obey: says so, and leaves the machine for the operator to see.
    async fn nothing_to_serve(&self) -> Result<Ending> {
        // A URL that cannot be used has been told already.
        if self.settings.params.api_url.is_none() {
            tracing::error!(
                "no provisioning service is configured -- add the kernel argument ipa-api-url=http://IRONIC:6385"
            );
        }
        std::future::pending().await
    }

    fn service(&self, found: &Found) -> Service {
        let params = &self.settings.params;
        Service::new(
            self.client.clone(),
            &found.base,
            &found.document,
            params.ironic_api_version.value,
            params.global_request_id.as_ref().map(|id| id.0.clone()),
            *params.http_request_timeout,
        )
    }

    /// Asks until Ironic knows this machine; with the node comes the token.
    async fn look_up(
        &self,
        service: &Service,
        node_uuid: Option<String>,
    ) -> (LookupAnswer, String) {
        let params = &self.settings.params;
        let given = params.agent_token.as_ref().map(|secret| secret.0.as_str());
        let mut token = AgentToken::restore(StateFile::new(self.state, "token"), given);
        let query = Query {
            macs: self.network.borrow().macs(),
            node_uuid,
        };
        ironic::look_up_until_known(
            service,
            &query,
            &mut token,
            *params.lookup_interval,
            *params.lookup_timeout,
        )
        .await
    }

    /// Serves commands and sends heartbeats until a command ends the boot.
    async fn serve(
        self,
        service: &Service,
        found: &Found,
        node: LookupAnswer,
        token: &str,
    ) -> Result<Ending> {
        let params = &self.settings.params;
        let uuid = node.node["uuid"].as_str().unwrap_or_default().to_owned();
        tracing::info!("this machine is node {uuid}");
        let identity = self.tls_identity(service, found.source)?;

        let (ledger, interrupted) = Ledger::restore(self.state);
        let command_ended = Arc::new(Notify::new());
        let (ending_wanted, mut ending) = watch::channel(None);
        let machine = Machine {
            settings: Arc::clone(&self.settings),
            client: http_client::image_client(&http_options(&self.settings))?,
            devices_settled: self.devices_settled.clone(),
            ending: ending_wanted,
            written_disk: StateFile::new(self.state, "written-disk"),
        };
        let dispatcher = Dispatcher::new(ledger, machine.executor(), Arc::clone(&command_ended));

        let scheme = if identity.is_some() { "https" } else { "http" };
        let server = api::listen(
            params.listen_host.value,
            *params.listen_port,
            identity
                .as_ref()
                .map(TlsIdentity::server_config)
                .transpose()?,
            api::router(Api {
                dispatcher: dispatcher.clone(),
                token: token.into(),
                scheme,
                started: SystemTime::now(),
                refused: Arc::default(),
            }),
        )
        .map_err(|error| {
            Failure::new(
                Class::CommandExecutionError,
                format!("listening on port {}: {error}", *params.listen_port),
            )
        })?;
        let callback = Callback {
            url: format!(
                "{scheme}://{}:{}",
                discovery::advertised_host(params.advertise_host.as_deref(), found.source),
                *params.advertise_port
            ),
            certificate: identity.map(|identity| identity.certificate_pem().to_owned()),
            token: token.to_owned(),
        };
        tracing::info!("serving commands at {}", callback.url);
        if let Some(interrupted) = interrupted {
            dispatcher.resume(interrupted);
        }

        let heartbeats = ironic::beat_forever(
            service,
            &uuid,
            &callback,
            node.config.heartbeat_timeout(),
            &command_ended,
        );
        let wanted = tokio::select! {
            // Fails only without a sender, and the dispatcher keeps one.
            wanted = ending.wait_for(Option::is_some) => wanted.ok().and_then(|ending| *ending),
            never = heartbeats => match never {},
        };
        server.stop().await;
        wanted.ok_or_else(|| {
            Failure::new(
                Class::CommandExecutionError,
                "nobody is left who could end this boot",
            )
        })
    }

    /// A certificate of our own if Ironic can be told of it; an older one calls
    /// the agent by plain HTTP.
    fn tls_identity(&self, service: &Service, source: IpAddr) -> Result<Option<TlsIdentity>> {
        if !service.takes_certificate() {
            return Ok(None);
        }
        let given = self.settings.params.advertise_host.as_deref();
        let address = given.and_then(|host| host.parse().ok()).unwrap_or(source);
        let host_name = nix::unistd::gethostname().unwrap_or_default();
        let file = StateFile::new(self.state, "identity.pem");
        TlsIdentity::restore_or_make(&file, address, &host_name.to_string_lossy()).map(Some)
    }
}

/// The addresses that inspection is to tell, as long as the settings allow.
async fn wait_for_addresses(params: &BootParams, network: &mut watch::Receiver<NetworkState>) {
    let wanted = match params.boot_interface.as_ref() {
        _ if *params.inspection_dhcp_all_interfaces => WaitFor::AllNics,
        Some(boot_interface) => WaitFor::BootNic(boot_interface.mac),
        None => WaitFor::Nothing,
    };
    let limit = *params.inspection_dhcp_wait_timeout;
    if !limit.is_zero() && !network::inspection_addresses(network, wanted, limit).await {
        let nics = match wanted {
            WaitFor::AllNics => "every NIC with a carrier",
            _ => "the boot NIC",
        };
        let seconds = limit.as_secs();
        tracing::warn!("inspection: no address on {nics} after {seconds} s -- going on without");
    }
}

fn http_options(settings: &Settings) -> HttpOptions {
    HttpOptions {
        insecure: *settings.params.insecure,
        timeout: Some(*settings.params.http_request_timeout),
        ..HttpOptions::default()
    }
}
