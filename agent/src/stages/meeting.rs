//! The stages between the network and the service of commands: the clock, the
//! search for Ironic, lookup; inspection has its own file.

use std::sync::Arc;
use std::time::Duration;

use landfall_boot_params::argument_value::ServiceUrls;
use landfall_boot_params::{BootParams, Origin};

use super::{Boot, mdns_settings};
use crate::discovery::{self, Expected, Found, Place, Question, Wanted};
use crate::failure::{Class, Failure, Result};
use crate::ironic::{self, AgentToken, LookupAnswer, NoNode, Query, Service, Transport};
use crate::network;
use crate::state_file::StateFile;

/// How long an address that reaches further than its link is waited for where a
/// link-local one may do: more than router and DHCP server take.
pub(super) const FAR_ADDRESS_LIMIT: Duration = Duration::from_secs(10);

/// How long an NTP server is asked that does not answer at first: longer than
/// drivers, spanning tree and DHCP of the last NIC take together.
const NTP_LIMIT: Duration = Duration::from_secs(600);

/// The instance that Ironic publishes.
pub(super) const IRONIC: &str = "baremetal";

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

    pub(super) async fn first_address_or(&mut self, limit: Duration) {
        // After it what is there has to do.
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

/// How to ask for Ironic by mDNS in this boot.
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

pub(super) fn failure(details: String) -> Failure {
    Failure::new(Class::CommandExecutionError, details)
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
