//! The stage that searches for Ironic: at its URLs, or by mDNS.

use std::sync::Arc;
use std::time::Duration;

use landfall_boot_params::Origin;
use landfall_boot_params::argument_value::ServiceUrls;
use landfall_discovery::{Expected, FoundService, Place, Wanted};
use landfall_report::failure::Result;
use landfall_report::status::{self, begin_step};

use super::{Boot, mdns_settings, warn_all};
use crate::mdns_question::ironic_by_mdns;

/// How long the agent waits for a routable address. After this time it continues, because
/// a link-local address may be enough. A router and a DHCP server answer sooner.
pub(super) const FAR_ADDRESS_LIMIT: Duration = Duration::from_secs(10);

impl Boot {
    /// Waits for a service that answers. `None` if no setting says where to look, or if
    /// the search fails.
    pub(super) async fn find_service(&mut self) -> Option<FoundService> {
        let params = &self.settings.params;
        let timeout = *params.http_request_timeout;
        let place = match &params.api_url.value {
            Some(ServiceUrls::Urls(urls)) => Place::Urls(urls.clone()),
            Some(ServiceUrls::Mdns) => Place::Mdns(ironic_by_mdns(params)),
            None if *params.use_mdns && params.inspection_callback_url.is_none() => {
                self.first_address_or(FAR_ADDRESS_LIMIT).await;
                let question = ironic_by_mdns(&self.settings.params);
                match landfall_discovery::ask_network(&question).await {
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
            what: landfall_discovery::PROVISIONING_SERVICE,
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
        // Apply the settings of the mDNS answer only now that the agent has reached the
        // service of this answer.
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
    /// differs too much from the date in the answer, sets the clock to that date, unless
    /// an NTP server has set it. Fails as [`landfall_discovery::find`] does.
    pub(super) async fn reach(&mut self, wanted: &Wanted) -> Result<FoundService> {
        begin_step(format!("looking for the {}", wanted.what));
        let urls = match &wanted.place {
            Place::Urls(urls) => urls.join(" "),
            Place::Mdns(_) => "mDNS".to_owned(),
        };
        status::update(|status| {
            status.service = Some(urls);
            status.service_answers = false;
        });
        let found = landfall_discovery::find(
            &self.client,
            wanted,
            &mut self.network,
            &self.reach,
            &mut self.clock,
        )
        .await?;
        let urls = found.urls.join(" ");
        status::update(|status| {
            status.service = Some(urls);
            status.service_answers = true;
        });
        Ok(found)
    }

    pub(super) async fn first_address_or(&mut self, limit: Duration) {
        // After the limit the boot continues with the addresses that it has.
        let _ =
            tokio::time::timeout(limit, landfall_network::first_address(&mut self.network)).await;
    }

    pub(super) fn take_mdns(&mut self, settings: &[(String, String)]) {
        let params = &mut Arc::make_mut(&mut self.settings).params;
        for (key, value) in settings {
            warn_all(&mdns_settings::take(params, key, value));
        }
    }
}
