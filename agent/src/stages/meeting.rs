//! The stages between the network and the service of commands: the clock, the
//! search for Ironic, inspection, lookup.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use landfall_boot_params::argument_value::{Scheme, ServiceUrls};
use landfall_boot_params::{BootParams, Origin};
use landfall_network_plan::asks_switches;

use tokio::sync::{oneshot, watch};

use super::{Boot, mdns_settings};
use crate::api::TlsIdentity;
use crate::commands;
use crate::devices_settled;
use crate::discovery::{
    self, AdvertiseRules, Advertised, Expected, Found, Place, Question, Wanted,
};
use crate::driver_faults::{self, Purpose};
use crate::failure::{Class, Failure, Result};
use crate::host_name;
use crate::http_client::{HttpOptions, IdentityFiles, Proxies};
use crate::inventory::inspection::{self, Circumstances};
use crate::inventory::report_types::Disk;
use crate::inventory::{disks, lldp, wait_for_disk};
use crate::ironic::{
    self, AgentToken, LookupAnswer, NoNode, NotTaken, Query, Retry, Service, Transport,
};
use crate::network::{self, HeardVlans, NetworkState, WaitFor};
use crate::settings::Settings;
use crate::state_file::StateFile;
use crate::system_path::SystemPath;
use crate::tls::TlsPolicy;

/// How long an address that reaches further than its link is waited for where a
/// link-local one may do: more than router and DHCP server take.
const FAR_ADDRESS_LIMIT: Duration = Duration::from_secs(10);

/// How long an NTP server is asked that does not answer at first: longer than
/// drivers, spanning tree and DHCP of the last NIC take together.
const NTP_LIMIT: Duration = Duration::from_secs(600);

/// The instance that Ironic publishes.
const IRONIC: &str = "baremetal";
/// The instance of the inspector that Ironic had beside it; a present Ironic
/// does its work itself.
const INSPECTOR: &str = "baremetal-introspection";

impl Boot {
    /// Sets the clock by the server that the operator names. If the server does
    /// not answer at first, the boot waits for it only where the operator wants
    /// nothing without.
    ///
    /// # Errors
    /// If it cannot be set, and the operator wants nothing without.
    pub(super) async fn set_clock(&mut self) -> Result<()> {
        let params = &self.settings.params;
        let Some(server) = params.ntp_server.as_ref().map(|server| server.0.clone()) else {
            return Ok(());
        };
        let must = *params.fail_if_clock_not_set;
        network::first_address(&mut self.network).await;
        let Err(fault) = self.clock.set_by_ntp(&server).await else {
            return Ok(());
        };
        let minutes = NTP_LIMIT.as_secs() / 60;
        let again = format!("asking again whenever the network changes, for {minutes} min");
        if must {
            tracing::warn!("clock: NTP: {fault}; fail_if_clock_not_set: {again}");
            let network = &mut self.network;
            let set = self.clock.set_by_ntp_within(NTP_LIMIT, &server, network);
            return set.await.map_err(|fault| {
                failure(format!("clock: NTP: {fault}"))
                    .hint("fail_if_clock_not_set asks for a clock that is set")
            });
        }
        tracing::warn!("clock: NTP: {fault}; going on, and {again}");
        let (mut clock, mut network) = (self.clock.clone(), self.network.clone());
        tokio::spawn(async move {
            let set = clock.set_by_ntp_within(NTP_LIMIT, &server, &mut network);
            if let Err(fault) = set.await {
                tracing::warn!("clock: NTP: {fault}; not asking any more");
            }
        });
        Ok(())
    }

    /// Waits for a service that answers. `None` if nobody said where to look.
    pub(super) async fn find_service(&mut self) -> Option<Found> {
        let params = &self.settings.params;
        let timeout = *params.http_request_timeout;
        let place = match &params.api_url.value {
            Some(ServiceUrls::Urls(urls)) => Place::Urls(urls.clone()),
            Some(ServiceUrls::Mdns) => Place::Mdns(ironic_by_mdns(params)),
            None if *params.use_mdns && params.inspection_callback_url.is_none() => {
                self.first_address_or(FAR_ADDRESS_LIMIT).await;
                let question = ironic_by_mdns(&self.settings.params);
                match discovery::ask_network(&question).await {
                    Ok((_, endpoint)) => {
                        self.take_mdns(&endpoint.settings);
                        Place::Urls(vec![endpoint.url])
                    }
                    Err(fault) => {
                        tracing::warn!("mDNS: {fault}");
                        return None;
                    }
                }
            }
            None => return None,
        };
        let by_link_local = match &place {
            Place::Urls(urls) => urls.iter().any(|url| url.contains("://[fe80:")),
            Place::Mdns(_) => true,
        };
        if by_link_local {
            self.first_address_or(FAR_ADDRESS_LIMIT).await;
        }
        let wanted = Wanted {
            what: discovery::PROVISIONING_SERVICE,
            place,
            expected: Expected::Ironic,
            timeout,
            must_be_trusted: false,
        };
        let found = match self.reach(&wanted).await {
            Ok(found) => found,
            Err(failure) => {
                tracing::error!("{failure}");
                return None;
            }
        };
        // Only now there is somebody to ask, who may know a better clock.
        self.take_mdns(&found.settings);
        let settings = Arc::make_mut(&mut self.settings);
        if settings.params.api_url.value != Some(ServiceUrls::Urls(found.urls.clone()))
            && !matches!(settings.params.api_url.value, Some(ServiceUrls::Urls(_)))
        {
            let urls = found.urls.join(",");
            let ignored = settings
                .params
                .apply_override("api_url", &urls, Origin::Mdns);
            warn_all(&ignored);
        }
        Some(found)
    }

    /// Looks for a server from every NIC at once until one answers; its date sets
    /// a clock that is obviously wrong, before any certificate is looked at.
    ///
    /// # Errors
    /// As [`discovery::find`].
    pub(super) async fn reach(&mut self, wanted: &Wanted) -> Result<Found> {
        discovery::find(
            &self.client,
            wanted,
            &mut self.network,
            &self.reach,
            &mut self.clock,
        )
        .await
    }

    async fn first_address_or(&mut self, limit: Duration) {
        // After it what is there has to do.
        let _ = tokio::time::timeout(limit, network::first_address(&mut self.network)).await;
    }

    fn take_mdns(&mut self, told: &[(String, String)]) {
        let params = &mut Arc::make_mut(&mut self.settings).params;
        for (key, value) in told {
            warn_all(&mdns_settings::take(params, key, value));
        }
    }

    /// Posts the inventory if this boot has an inspection. Returns the node's
    /// UUID if Ironic's answer has it. After a failure the boot continues, or
    /// the agent posts forever: see [`Retry`].
    pub(super) async fn inspect(&mut self, retry: Retry) -> Option<String> {
        let urls = match self.settings.params.inspection_urls()? {
            ServiceUrls::Urls(urls) => urls,
            ServiceUrls::Mdns => self.find_inspection().await,
        };
        network::first_address(&mut self.network).await;
        let params = &self.settings.params;
        let patience = wait_for_disk::Patience::of_attempts(
            *params.disk_wait_attempts,
            *params.disk_wait_delay,
        );
        let settled = devices_settled::wait(self.devices_settled.clone(), patience.timeout).await;
        let neighbours = self.make_vlans_by_lldp().await;
        let params = &self.settings.params;
        wait_for_addresses(params, &mut self.network).await;
        let circumstances = Circumstances {
            collectors: params.inspection_collectors.value.clone(),
            lldp_timeout: *params.lldp_timeout,
            lldp_in_interfaces: *params.collect_lldp,
            neighbours,
            logs: commands::logs_for_inspection,
            patience: patience.for_all_disks(settled),
            network: self.network.clone(),
            bootif: params.boot_interface.as_ref().map(|nic| nic.text.clone()),
            hide_bmc_nics: !*params.bmc_nics,
            managers: &commands::HARDWARE_MANAGERS,
        };
        let inspected = inspection::inspect(SystemPath::live(), circumstances).await;
        if let Ok(Some(remark)) = commands::blocking(|| Ok(missing_disks())).await {
            self.remark(remark);
        }
        let params = &self.settings.params;
        let posted = match inspected {
            Ok(body) => ironic::post_inventory(&self.transport(), &urls, &body, retry).await,
            Err(fault) => Err(NotTaken::Failed(fault)),
        };
        match posted {
            // Media that are booted for every operation have this URL always.
            Err(NotTaken::NotAsked(_)) if params.api_url.is_some() => {
                tracing::info!("inspection: Ironic does not inspect this machine now");
                None
            }
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

    /// Listens to the switches first where they are to name VLANs, which the
    /// inventory is to have, too. Returns what they said.
    async fn make_vlans_by_lldp(&self) -> Option<lldp::Neighbours> {
        let params = &self.settings.params;
        let wanted = &params.enable_vlan_interfaces.value;
        if !*params.collect_lldp || !asks_switches(wanted) {
            return None;
        }
        let limit = *params.lldp_timeout;
        let seconds = limit.as_secs();
        tracing::info!("listening for VLANs that a switch names by LLDP, at most {seconds} s");
        let heard = lldp::listen(&SystemPath::live(), limit).await;
        let tags = heard
            .iter()
            .map(|(nic, elements)| (nic.clone(), lldp::tlv::vlan_tags(elements)))
            .collect();
        let (made, all_made) = oneshot::channel();
        let order = HeardVlans {
            wanted: wanted.clone(),
            tags,
            made,
        };
        if self.heard_vlans.send(order).await.is_ok() {
            // Fails only if the network's task has ended; nothing waits for it.
            let _ = all_made.await;
        } else {
            tracing::warn!(
                "ipa-enable-vlan-interfaces: in a live system the links are NetworkManager's; no VLAN is made"
            );
        }
        Some(heard)
    }

    /// Asks the network until somebody says where the inventory goes.
    async fn find_inspection(&mut self) -> Vec<String> {
        self.first_address_or(FAR_ADDRESS_LIMIT).await;
        let question = question(&self.settings.params, &[INSPECTOR, IRONIC]);
        loop {
            match discovery::ask_network(&question).await {
                Ok((instance, endpoint)) => {
                    self.take_mdns(&endpoint.settings);
                    let path = match instance {
                        INSPECTOR => "/v1/continue",
                        _ => "/v1/continue_inspection",
                    };
                    return vec![format!("{}{path}", endpoint.url)];
                }
                Err(fault) => {
                    let pause = Duration::from_secs_f64(crate::backoff::between(5.0, 10.0));
                    let seconds = pause.as_secs();
                    tracing::warn!("inspection: mDNS: {fault}; asking again in {seconds} s");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    pub(super) fn service(&self, found: &Found) -> Service {
        Service::new(
            self.transport(),
            &found.urls,
            &found.document,
            self.settings.params.ironic_api_version.value,
        )
    }

    fn transport(&self) -> Transport {
        let params = &self.settings.params;
        Transport {
            client: self.client.clone(),
            request_id: params.global_request_id.as_ref().map(|id| id.0.clone()),
            timeout: *params.http_request_timeout,
        }
    }

    /// Asks until Ironic knows this machine; with the node come the token and
    /// settings that win over those of the boot.
    ///
    /// # Errors
    /// See [`NoNode`].
    pub(super) async fn look_up(
        &mut self,
        service: &Service,
        node_uuid: Option<String>,
    ) -> std::result::Result<(LookupAnswer, String), NoNode> {
        let params = &self.settings.params;
        let given = params.agent_token.as_ref().map(|secret| secret.0.as_str());
        let mut token = AgentToken::restore(StateFile::new(self.state, "token"), given);
        let mut query = Query {
            network: self.network.clone(),
            with_bmc_nics: *params.bmc_nics,
            node_uuid,
        };
        let patience = ironic::Patience {
            interval: *params.lookup_interval,
            total: *params.lookup_timeout,
        };
        let found = ironic::look_up_until_known(service, &mut query, &mut token, patience).await?;
        let settings = Arc::make_mut(&mut self.settings);
        warn_all(&settings.apply_lookup_config(&found.0.config));
        Ok(found)
    }

    /// The address that Ironic shall call.
    pub(super) async fn advertised(&mut self, found: &Found) -> Result<Advertised> {
        let params = &self.settings.params;
        let rules = AdvertiseRules {
            host: params.advertise_host.value.clone(),
            interface: params.network_interface.value.clone(),
            attempts: *params.ip_lookup_attempts,
            pause: *params.ip_lookup_timeout,
        };
        let kept = StateFile::new(self.state, "advertised");
        discovery::advertise(&rules, &found.urls, &mut self.network, &kept)
            .await
            .map_err(failure)
    }

    /// With what the API speaks TLS: the operator's certificate, else one of our
    /// own if Ironic can be told of it; an older one calls by plain HTTP.
    pub(super) fn tls_identity(
        &self,
        service: &Service,
        address: &Advertised,
    ) -> Result<Option<TlsIdentity>> {
        let params = &self.settings.params;
        if *params.listen_tls {
            let file = |name: &str, value: &Option<String>| {
                let missing =
                    || failure(format!("listen_tls: expected {name} beside it, found none"));
                value.clone().ok_or_else(missing)
            };
            let certificate = file("tls_cert_file", &params.tls_cert_file)?;
            let key = file("tls_key_file", &params.tls_key_file)?;
            return TlsIdentity::from_files(Path::new(&certificate), Path::new(&key)).map(Some);
        }
        if !*params.enable_auto_tls || !service.takes_certificate() {
            return Ok(None);
        }
        TlsIdentity::restore_or_make(
            &StateFile::new(self.state, "identity.pem"),
            address,
            &host_name::of_this_host(),
            *params.tls_certificate_curve,
        )
        .map(Some)
    }

    /// The scheme of the callback URL: what we serve, unless a proxy in front of
    /// us serves another and the operator says so. A certificate of our own
    /// leaves nothing to say.
    pub(super) fn advertised_scheme(&self, identity: Option<&TlsIdentity>) -> &'static str {
        let said = &self.settings.params.advertise_protocol;
        match identity {
            Some(identity) if identity.own_certificate().is_some() || said.is_default() => "https",
            _ => match said.value {
                Scheme::Http => "http",
                Scheme::Https => "https",
            },
        }
    }
}

/// How to ask for Ironic by mDNS in this boot.
pub fn ironic_by_mdns(params: &BootParams) -> Question {
    question(params, &[IRONIC])
}

fn question(params: &BootParams, instances: &'static [&'static str]) -> Question {
    Question {
        instances,
        attempts: *params.mdns_lookup_attempts,
        interfaces: params.mdns_interfaces.value.clone(),
        https_only: mdns_settings::https_only(params),
    }
}

/// How requests are made in this boot.
///
/// # Errors
/// If only half of the client's identity is given.
pub fn http_options(settings: &Settings) -> Result<HttpOptions> {
    let params = &settings.params;
    let path = |value: &Option<String>| value.as_ref().map(Into::into);
    Ok(HttpOptions {
        insecure: *params.insecure,
        ca_file: path(&params.cafile),
        identity: IdentityFiles::pair(path(&params.certfile), path(&params.keyfile))?,
        tls: tls_policy(settings),
        proxies: Proxies {
            http: params.http_proxy.as_ref().map(|url| url.0.clone()),
            https: params.https_proxy.as_ref().map(|url| url.0.clone()),
            none_for: params.no_proxy.value.clone(),
        },
        timeout: Some(*params.http_request_timeout),
    })
}

/// The same for images, with the patience that was set for them.
///
/// # Errors
/// As [`http_options`].
pub(super) fn image_options(settings: &Settings) -> Result<HttpOptions> {
    Ok(HttpOptions {
        timeout: Some(*settings.params.image_download_connection_timeout),
        ..http_options(settings)?
    })
}

/// What TLS may look like in this boot.
pub(super) fn tls_policy(settings: &Settings) -> TlsPolicy {
    let params = &settings.params;
    TlsPolicy::new(*params.tls_min_version, params.tls_cipher_suites.as_deref())
}

fn warn_all(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

fn failure(details: String) -> Failure {
    Failure::new(Class::CommandExecutionError, details)
}

/// What an operator must know who finds an empty list of disks in Ironic.
fn missing_disks() -> Option<String> {
    let root = SystemPath::live();
    let is_reported = |disk: &Disk| disk.traits.why_untouchable().is_none();
    let none = !disks::collect(&root).iter().any(is_reported);
    none.then(|| {
        let why = driver_faults::why_none(&root, Purpose::Storage);
        format!("no disk found: {why}")
    })
}

/// Gives slow controllers the time that an operator wants for them.
pub(super) async fn wait_for_hardware(params: &BootParams) {
    let delay = *params.hardware_initialization_delay;
    if !delay.is_zero() {
        let seconds = delay.as_secs();
        tracing::info!(
            "waiting {seconds} s for the hardware, as ipa-hardware-initialization-delay wants"
        );
        tokio::time::sleep(delay).await;
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

#[cfg(test)]
mod tests {
    use landfall_boot_params::CommandLine;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hardware_gets_the_time_that_was_set_for_it() {
        for (line, seconds) in [("", 0), ("ipa-hardware-initialization-delay=45", 45)] {
            let params = BootParams::from_command_line(&CommandLine::parse(line));
            let began = tokio::time::Instant::now();
            wait_for_hardware(&params).await;
            assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{line}");
        }
    }
}
