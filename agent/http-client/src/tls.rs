//! TLS settings for the HTTP clients and for the server of the agent's own API: versions
//! and cipher suites, trust, certificates and keys from files.

mod cipher_suites;
pub mod issuer_name;
pub mod pem_files;
mod server_trust;
mod system_authorities;

use std::sync::Arc;

use landfall_boot_params::argument_value::TlsVersion;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

pub use pem_files::Identity;
pub use server_trust::ServerTrust;
pub use server_trust::UnknownAuthority;

use landfall_report::failure::{Failure, Result};

const ONLY_1_3: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The allowed TLS versions and cipher suites, for client and server.
#[derive(Debug, Clone)]
pub struct TlsPolicy {
    oldest: TlsVersion,
    suites: Vec<SupportedCipherSuite>,
}

impl Default for TlsPolicy {
    fn default() -> Self {
        Self::new(TlsVersion::V1_2, None)
    }
}

impl TlsPolicy {
    /// `oldest` is the oldest accepted version (`ipa-tls-min-version`). `suites` are the
    /// TLS 1.2 suites by their OpenSSL names (`ipa-tls-cipher-suites`), or `None` for all
    /// modern suites. Unknown names cause a warning.
    pub fn new(oldest: TlsVersion, suites: Option<&str>) -> Self {
        let (suites, warnings) = cipher_suites::choose(suites);
        for warning in warnings {
            tracing::warn!("TLS: {warning}");
        }
        Self { oldest, suites }
    }

    pub fn provider(&self) -> Arc<CryptoProvider> {
        Arc::new(CryptoProvider {
            cipher_suites: self.suites.clone(),
            ..ring::default_provider()
        })
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.oldest {
            TlsVersion::V1_2 => rustls::ALL_VERSIONS,
            TlsVersion::V1_3 => ONLY_1_3,
        }
    }

    /// The configuration of a client that trusts the servers in `trust`. The client sends
    /// the certificate of `identity` if a server requests a certificate.
    ///
    /// # Errors
    /// If key and certificate of the identity do not match.
    pub fn client(&self, trust: ServerTrust, identity: Option<&Identity>) -> Result<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(self.provider())
            .with_protocol_versions(self.versions())
            .map_err(|error| refused("client", &error))?
            .dangerous()
            .with_custom_certificate_verifier(trust.verifier(&self.provider()));
        match identity {
            None => Ok(builder.with_no_client_auth()),
            Some(own) => builder
                .with_client_auth_cert(own.certificates.clone(), own.key.clone_key())
                .map_err(|error| refused(&own.name, &error)),
        }
    }

    /// The configuration of a server with this identity.
    ///
    /// # Errors
    /// If key and certificate do not match.
    pub fn server(&self, own: &Identity) -> Result<Arc<ServerConfig>> {
        ServerConfig::builder_with_provider(self.provider())
            .with_protocol_versions(self.versions())
            .map_err(|error| refused("server", &error))?
            .with_no_client_auth()
            .with_single_cert(own.certificates.clone(), own.key.clone_key())
            .map(Arc::new)
            .map_err(|error| refused(&own.name, &error))
    }
}

fn refused(what: &str, error: &rustls::Error) -> Failure {
    Failure::other(format!("{what}: {error}"))
}
