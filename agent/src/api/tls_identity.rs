//! The certificate of the agent's API: either the operator's, or one that the agent
//! makes and keeps across its restarts.
//!
//! Ironic stores the certificate of the first heartbeat. As long as it has this
//! certificate, it rejects any other one. So the certificate must stay the same after a
//! crash of the agent.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use landfall_boot_params::argument_value::CertificateCurve;
use landfall_discovery::Advertised;
use landfall_http_client::tls::{Identity, TlsPolicy};
use landfall_report::failure::{Failure, Result, one_line};
use landfall_sys::state_file::StateFile;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, SanType, date_time_ymd,
};
use rustls::ServerConfig;

/// The identifier id-ce-subjectAltName (RFC 5280, section 4.2.1.6).
const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
/// The longest common name: ub-common-name (RFC 5280, appendix A.1).
const COMMON_NAME_LIMIT: usize = 64;

/// The certificate and key with which the API serves TLS.
pub struct TlsIdentity {
    identity: Identity,
    /// The PEM text of a certificate that the agent made, for the heartbeats.
    /// `None` for the operator's certificate.
    own: Option<String>,
}

impl TlsIdentity {
    /// Loads the operator's certificate and key (`tls_cert_file`, `tls_key_file`).
    /// Heartbeats do not contain this certificate, because Ironic verifies it with the
    /// certificate authorities in Ironic's own configuration.
    ///
    /// # Errors
    /// If the certificate or the key cannot be read or is invalid. The error names the
    /// file.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self> {
        Ok(Self {
            identity: Identity::from_files(certificate, key)?,
            own: None,
        })
    }

    /// Loads the identity from `file` if it was made for this address. Otherwise makes a
    /// new self-signed identity with the address as its only subject alternative name.
    ///
    /// # Errors
    /// If the key or the certificate cannot be made.
    pub fn restore_or_make(
        file: &StateFile,
        address: &Advertised,
        host_name: &str,
        curve: CertificateCurve,
    ) -> Result<Self> {
        if let Ok(Some(bytes)) = file.load()
            && let Some(kept) = Self::from_file(&bytes, address)
        {
            return Ok(kept);
        }
        let failed = |text: String| {
            let what = format!("certificate for {address}: {text}");
            Failure::other(what)
        };
        let (certificate, key) =
            make(address, host_name, curve).map_err(|error| failed(one_line(&error)))?;
        file.store_or_warn(format!("# {address}\n{key}{certificate}").as_bytes());
        Ok(Self {
            identity: Identity::from_pem("own certificate", &certificate, &key)?,
            own: Some(certificate),
        })
    }

    fn from_file(bytes: &[u8], address: &Advertised) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let rest = text.strip_prefix(&format!("# {address}\n"))?;
        let at = rest.find("-----BEGIN CERTIFICATE-----")?;
        let (key, certificate) = rest.split_at(at);
        Some(Self {
            identity: Identity::from_pem("own certificate", certificate, key).ok()?,
            own: Some(certificate.to_owned()),
        })
    }

    /// The certificate for heartbeats, if the agent made it itself.
    pub fn own_certificate(&self) -> Option<&str> {
        self.own.as_deref()
    }

    /// The configuration of a TLS server with this identity.
    ///
    /// # Errors
    /// If the key does not match the certificate.
    pub fn server_config(&self, policy: &TlsPolicy) -> Result<Arc<ServerConfig>> {
        policy.server(&self.identity)
    }
}

/// Makes a certificate and a key, both in PEM.
fn make(
    address: &Advertised,
    host_name: &str,
    curve: CertificateCurve,
) -> std::result::Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate_for(match curve {
        CertificateCurve::P256 => &PKCS_ECDSA_P256_SHA256,
        CertificateCurve::P384 => &PKCS_ECDSA_P384_SHA384,
        CertificateCurve::P521 => {
            tracing::warn!(
                "ipa-tls-certificate-curve=p521: the TLS library does not support this curve; p384 is used"
            );
            &PKCS_ECDSA_P384_SHA384
        }
    })?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, common_name(host_name));
    match address {
        Advertised::Address(address) => parameters.custom_extensions.push(only_name(*address)),
        Advertised::Name(name) => {
            parameters.subject_alt_names = vec![SanType::DnsName(name.as_str().try_into()?)];
        }
    }
    // Ironic pins the certificate, so its dates do not matter for security. With fixed
    // dates the certificate is valid even if the clock of this machine is years off.
    parameters.not_before = date_time_ymd(2000, 1, 1);
    parameters.not_after = date_time_ymd(2099, 12, 31);
    let certificate = parameters.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn common_name(host_name: &str) -> String {
    let printable = |c: &char| c.is_ascii_graphic();
    let name: String = host_name
        .chars()
        .filter(printable)
        .take(COMMON_NAME_LIMIT)
        .collect();
    if name.is_empty() {
        "landfall".to_owned()
    } else {
        name
    }
}

/// The extension with `address` as the only subject alternative name, marked as critical,
/// as in the certificates of Ironic's agent. rcgen marks this extension as critical only
/// if the subject is empty.
fn only_name(address: IpAddr) -> CustomExtension {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    // GeneralNames: a sequence of one iPAddress with context tag 7. All lengths are
    // below 128, so each takes one byte.
    let mut names = vec![0x30, octets.len() as u8 + 2, 0x87, octets.len() as u8];
    names.extend(octets);
    let mut extension = CustomExtension::from_oid_content(SUBJECT_ALT_NAME, names);
    extension.set_criticality(true);
    extension
}

#[cfg(test)]
mod tests;
