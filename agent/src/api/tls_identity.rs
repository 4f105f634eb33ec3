//! The agent's own certificate: made once, kept over a restart of the agent.
//!
//! Ironic pins it with the first heartbeat and refuses another one while it
//! remembers the node, so it must be the same after a crash.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P384_SHA384, SanType,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::failure::{Class, Failure, Result, one_line};
use crate::state_file::StateFile;

/// Key and certificate in PEM, in this order in one file.
pub struct TlsIdentity {
    certificate: String,
    key: String,
}

impl TlsIdentity {
    /// The identity kept in this file if it is for this address, else a new
    /// one: P-384, self-signed, the address as its only alternative name.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn restore_or_make(file: &StateFile, address: IpAddr, host_name: &str) -> Result<Self> {
        if let Ok(Some(bytes)) = file.load()
            && let Some(kept) = Self::from_file(&bytes, address)
        {
            return Ok(kept);
        }
        let made = Self::make(address, host_name).map_err(|error| {
            Failure::new(
                Class::CommandExecutionError,
                format!("certificate for {address}: {}", one_line(&error)),
            )
        })?;
        let bytes = format!("# {address}\n{}{}", made.key, made.certificate);
        file.store_or_warn(bytes.as_bytes());
        Ok(made)
    }

    fn from_file(bytes: &[u8], address: IpAddr) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix(&format!("# {address}\n"))?;
        let at = rest.find("-----BEGIN CERTIFICATE-----")?;
        Some(Self {
            key: rest[..at].to_owned(),
            certificate: rest[at..].to_owned(),
        })
    }

    fn make(address: IpAddr, host_name: &str) -> std::result::Result<Self, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters
            .distinguished_name
            .push(DnType::CommonName, host_name);
        parameters.subject_alt_names = vec![SanType::IpAddress(address)];
        // Ironic pins the certificate, its dates add nothing; but a machine whose
        // clock stands at 2010 or at 2040 must be able to serve.
        parameters.not_before = date_time_ymd(2000, 1, 1);
        parameters.not_after = date_time_ymd(2099, 12, 31);
        let certificate = parameters.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// The certificate as heartbeats carry it.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate
    }

    /// How to serve with it: TLS 1.3, and 1.2 for older conductors.
    ///
    /// # Errors
    /// If key and certificate are not what they should be.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>> {
        let broken = |what: String| Failure::new(Class::CommandExecutionError, what);
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|error| broken(format!("own certificate: {error}")))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| broken(format!("own key: {error}")))?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(|error| broken(format!("own certificate: {error}")))?;
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_kept_for_the_same_address_only() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path(), "identity.pem");
        let v4: IpAddr = "192.0.2.5".parse().unwrap();
        let first = TlsIdentity::restore_or_make(&file, v4, "host").unwrap();
        let again = TlsIdentity::restore_or_make(&file, v4, "host").unwrap();
        assert_eq!(first.certificate_pem(), again.certificate_pem());
        again.server_config().unwrap();
        let v6 = "2001:db8::5".parse().unwrap();
        let other = TlsIdentity::restore_or_make(&file, v6, "host").unwrap();
        assert_ne!(first.certificate_pem(), other.certificate_pem());
    }
}
