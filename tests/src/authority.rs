//! Creates a certificate authority for one test, and certificates for the
//! servers in its lab.

use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use crate::lab::HOST_V4;

/// A self-signed certificate authority.
pub struct Authority {
    parameters: CertificateParams,
    key: KeyPair,
    /// The authority's certificate, in PEM.
    pub pem: String,
}

/// What is wrong with a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The certificate is for the lab's host, and valid from 2026 to 2099.
    None,
    /// The certificate is for another host.
    OtherHost,
    /// The certificate was valid in 2025 only.
    Expired,
}

impl Authority {
    /// Creates an authority with this common name.
    pub fn new(name: &str) -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let pem = parameters.self_signed(&key)?.pem();
        Ok(Self {
            parameters,
            key,
            pem,
        })
    }

    /// The TLS configuration of a server on the lab's host, with a certificate from
    /// this authority.
    pub fn server(&self, fault: Fault) -> Result<Arc<ServerConfig>> {
        let mut parameters = CertificateParams::default();
        parameters.subject_alt_names = match fault {
            Fault::OtherHost => vec![SanType::DnsName("elsewhere.example.org".try_into()?)],
            Fault::None | Fault::Expired => vec![SanType::IpAddress(HOST_V4.into())],
        };
        (parameters.not_before, parameters.not_after) = match fault {
            Fault::Expired => (date_time_ymd(2025, 1, 1), date_time_ymd(2025, 12, 31)),
            Fault::None | Fault::OtherHost => {
                (date_time_ymd(2026, 1, 1), date_time_ymd(2099, 1, 1))
            }
        };
        let key = KeyPair::generate()?;
        let issuer = Issuer::from_params(&self.parameters, &self.key);
        let certificate = parameters.signed_by(&key, &issuer)?;
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        Ok(Arc::new(config))
    }
}
