//! The stages between the network and the serving of commands: the clock, the
//! search for Ironic, and the lookup. Inspection has its own file.

use std::sync::Arc;
use std::time::Duration;

use landfall_boot_params::argument_value::ServiceUrls;
use landfall_boot_params::{BootParams, Origin};

use super::{Boot, mdns_settings};
use crate::discovery::{self, Expected, Found, Place, Question, Wanted};
use crate::failure::{Failure, Result};
use crate::ironic::{self, AgentToken, LookupAnswer, NoNode, Query, Service, Transport};
use crate::network;
use crate::state_file::StateFile;

/// If a link-local address may be enough, the agent waits this long for a better
/// one. A router and a DHCP server take less.
pub(super) const FAR_ADDRESS_LIMIT: Duration = Duration::from_secs(10);

/// How long the agent asks an NTP server that does not answer at first. The
/// drivers, the spanning tree and DHCP of the last NIC take less than this
/// together.
const NTP_LIMIT: Duration = Duration::from_secs(600);

/// The mDNS instance that Ironic publishes.
pub(super) const IRONIC: &str = "baremetal";

impl Boot {
    /// Sets the clock from the operator's NTP server. If the server does not answer
    /// at first, the boot waits for it only with `fail_if_clock_not_set`, and fails
    /// if the clock still cannot be set. Otherwise the boot continues and the agent
    /// keeps asking in the background.
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
        let again = format!("retrying for {minutes} min, and whenever the network changes");
        if must {
            tracing::warn!(
                "clock: NTP: {fault}; fail_if_clock_not_set is given, so the boot waits: {again}"
            );
            let network = &mut self.network;
            let set = self.clock.set_by_ntp_within(NTP_LIMIT, &server, network);
            return set.await.map_err(|fault| {
                Failure::other(format!("clock: NTP: {fault}"))
                    .hint("check that this machine reaches the NTP server, or remove fail_if_clock_not_set")
            });
        }
        tracing::warn!("clock: NTP: {fault}; the boot continues: {again}");
        let (mut clock, mut network) = (self.clock.clone(), self.network.clone());
        tokio::spawn(async move {
            let set = clock.set_by_ntp_within(NTP_LIMIT, &server, &mut network);
            if let Err(fault) = set.await {
                tracing::warn!("clock: NTP: {fault}; the agent stops asking");
            }
        });
        Ok(())
    }

    /// Waits for a service that answers. `None` if nothing says where to look, or
    /// if the search fails.
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
        // The settings of the answer take effect only now, when a service has been
        // reached.
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

    /// Looks for a server through every NIC at once until one answers. If the clock
    /// is obviously wrong, the date of the answer sets it before any certificate is
    /// checked. Fails as [`discovery::find`] does.
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

    pub(super) async fn first_address_or(&mut self, limit: Duration) {
        // After the limit the boot continues with the addresses that are there.
        let _ = tokio::time::timeout(limit, network::first_address(&mut self.network)).await;
    }

    pub(super) fn take_mdns(&mut self, told: &[(String, String)]) {
        let params = &mut Arc::make_mut(&mut self.settings).params;
        for (key, value) in told {
            warn_all(&mdns_settings::take(params, key, value));
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

    pub(super) fn transport(&self) -> Transport {
        let params = &self.settings.params;
        Transport {
            client: self.client.clone(),
            request_id: params.global_request_id.as_ref().map(|id| id.0.clone()),
            timeout: *params.http_request_timeout,
        }
    }

    /// Asks until Ironic knows this machine. The answer holds the node, the token,
    /// and settings that override those of the boot.
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
            boot_mac: params.boot_interface.as_ref().map(|nic| nic.mac),
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
}

/// The mDNS question for Ironic in this boot.
pub fn ironic_by_mdns(params: &BootParams) -> Question {
    question(params, &[IRONIC])
}

pub(super) fn question(params: &BootParams, instances: &'static [&'static str]) -> Question {
    Question {
        instances,
        attempts: *params.mdns_lookup_attempts,
        interfaces: params.mdns_interfaces.value.clone(),
        https_only: mdns_settings::https_only(params),
    }
}

fn warn_all(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// Waits for slow controllers as long as the operator has set.
pub(super) async fn wait_for_hardware(params: &BootParams) {
    let delay = *params.hardware_initialization_delay;
    if !delay.is_zero() {
        let seconds = delay.as_secs();
        tracing::info!(
            "waiting {seconds} s for the hardware, as ipa-hardware-initialization-delay requires"
        );
        tokio::time::sleep(delay).await;
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
