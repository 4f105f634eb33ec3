//! Determines how Ironic reaches the agent's API: address, certificate and
//! scheme.

use std::path::Path;

use landfall_boot_params::argument_value::Scheme;
use landfall_discovery::{AdvertiseRules, Advertised, FoundService};
use landfall_inventory::host_name;
use landfall_ironic::Service;
use landfall_report::failure::{Failure, Result};
use landfall_sys::state_file::StateFile;

use super::Boot;
use crate::api::TlsIdentity;

impl Boot {
    /// The address that Ironic must call.
    pub(super) async fn advertised(&mut self, found: &FoundService) -> Result<Advertised> {
        let params = &self.settings.params;
        let rules = AdvertiseRules {
            host: params.advertise_host.value.clone(),
            interface: params.network_interface.value.clone(),
            attempts: *params.ip_lookup_attempts,
            pause: *params.ip_lookup_timeout,
        };
        let kept = StateFile::new(self.state, "advertised");
        landfall_discovery::advertise(&rules, &found.urls, &mut self.network, &kept).await
    }

    /// The certificate with which the API serves HTTPS: the operator's, or one that the
    /// agent makes if Ironic accepts such certificates. `None` means plain HTTP, for
    /// example with an older Ironic.
    pub(super) fn tls_identity(
        &self,
        service: &Service,
        address: &Advertised,
    ) -> Result<Option<TlsIdentity>> {
        let params = &self.settings.params;
        if *params.listen_tls {
            let file = |name: &str, value: &Option<String>| {
                let missing =
                    || Failure::other(format!("listen_tls: expected {name} as well, found none"));
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

    /// The scheme of the callback URL: https if the agent made the certificate. Otherwise
    /// the scheme that the API serves, unless the operator sets another one for a proxy
    /// in front of the agent.
    pub(super) fn advertised_scheme(&self, identity: Option<&TlsIdentity>) -> &'static str {
        let configured = &self.settings.params.advertise_protocol;
        match identity {
            Some(identity) if identity.own_certificate().is_some() || configured.is_default() => {
                "https"
            }
            _ => match configured.value {
                Scheme::Http => "http",
                Scheme::Https => "https",
            },
        }
    }
}
