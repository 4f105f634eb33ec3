//! Decides which servers the client trusts.
//!
//! Webpki verifies certificates, and this module adds one rule of OpenSSL: the
//! certificate of a server may itself be in the CA file. `openssl req -x509` marks its
//! certificates as authorities. Ironic is often set up with such a certificate, and
//! agents get the same file as their CA file. Ironic's agent accepts such a server, but
//! webpki rejects it with "CA used as end entity" (measured with OpenSSL 3.0 and webpki
//! 0.103).

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use landfall_report::failure::{Failure, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::issuer_name::issuer_name;
use super::pem_files::{certificates, certificates_of};
use super::system_authorities::of_this_system;

/// Which servers are trusted.
#[derive(Debug, Clone, Default)]
pub struct ServerTrust(Whom);

#[derive(Debug, Clone)]
enum Whom {
    Anybody,
    SystemAuthorities {
        /// The certificates to trust in addition.
        more: Vec<CertificateDer<'static>>,
    },
    CaFile {
        name: String,
        certificates: Vec<CertificateDer<'static>>,
        roots: Arc<RootCertStore>,
    },
}

impl Default for Whom {
    fn default() -> Self {
        Self::SystemAuthorities { more: Vec::new() }
    }
}

impl ServerTrust {
    /// Trusts every server without verifying its certificate (`ipa-insecure`).
    pub fn anybody() -> Self {
        Self(Whom::Anybody)
    }

    /// Trusts servers whose certificate was signed by an authority of this system. The
    /// authorities are read when the first server sends its certificate. `more` contains
    /// PEM texts of further authorities; a text that cannot be read is ignored.
    pub fn system_authorities(more: &[Vec<u8>]) -> Self {
        let read = |pem: &Vec<u8>| certificates_of("authorities", pem).unwrap_or_default();
        Self(Whom::SystemAuthorities {
            more: more.iter().flat_map(read).collect(),
        })
    }

    /// Trusts servers whose certificate was signed by a certificate in this file, and
    /// servers whose own certificate is in this file.
    ///
    /// # Errors
    /// If the file cannot be read or has an invalid item, or if no certificate in it can
    /// be an authority.
    pub fn from_file(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let certificates = certificates(path)?;
        let mut roots = RootCertStore::empty();
        // A bundle may contain some unusable certificates. One usable certificate is
        // enough.
        let (_, unusable) = roots.add_parsable_certificates(certificates.iter().cloned());
        if roots.is_empty() {
            return Err(Failure::other(format!(
                "{name}: expected certificates of authorities, found none that can be read"
            )));
        }
        if unusable > 0 {
            tracing::warn!(
                "{name}: {unusable} of {} certificates cannot be read; ignored",
                certificates.len()
            );
        }
        Ok(Self(Whom::CaFile {
            name,
            certificates,
            roots: Arc::new(roots),
        }))
    }

    pub(super) fn verifier(self, provider: &Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
        match self.0 {
            Whom::Anybody => Arc::new(Anybody),
            whom => Arc::new(Anchored {
                whom,
                by_issuer: OnceLock::new(),
                provider: Arc::clone(provider),
            }),
        }
    }
}

/// The error for a server that the agent does not trust, because no trusted authority
/// has signed its certificate.
#[derive(Debug)]
pub struct UnknownAuthority(String);

impl fmt::Display for UnknownAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownAuthority {}

#[derive(Debug)]
struct Anchored {
    whom: Whom,
    /// `None` in the cell means that the system has no authority at all.
    by_issuer: OnceLock<Option<Arc<WebPkiServerVerifier>>>,
    provider: Arc<CryptoProvider>,
}

impl Anchored {
    fn by_issuer(&self) -> Option<&Arc<WebPkiServerVerifier>> {
        let verifier = self.by_issuer.get_or_init(|| {
            let roots = match &self.whom {
                Whom::CaFile { roots, .. } => Arc::clone(roots),
                Whom::SystemAuthorities { more } if !more.is_empty() => {
                    let mut roots = RootCertStore::clone(&of_this_system().roots);
                    roots.add_parsable_certificates(more.iter().cloned());
                    Arc::new(roots)
                }
                _ => Arc::clone(&of_this_system().roots),
            };
            let provider = Arc::clone(&self.provider);
            WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .ok()
        });
        verifier.as_ref()
    }

    /// Whether the certificate itself is in the operator's CA file, or is one of the
    /// certificates that are trusted in addition.
    fn is_in_ca_file(&self, certificate: &CertificateDer<'_>) -> bool {
        match &self.whom {
            Whom::CaFile {
                certificates: given,
                ..
            }
            | Whom::SystemAuthorities { more: given } => {
                given.iter().any(|known| known == certificate)
            }
            Whom::Anybody => false,
        }
    }

    fn unknown_authority(&self, certificate: &CertificateDer<'_>) -> Error {
        let signer = match issuer_name(certificate) {
            Some(name) => format!("\"{name}\""),
            None => "an authority without a name".to_owned(),
        };
        let text = match &self.whom {
            Whom::CaFile { name, .. } => format!(
                "its certificate is signed by {signer}, which is not in {name} -- add that CA to the CA file"
            ),
            Whom::SystemAuthorities { more } if !more.is_empty() => format!(
                "its certificate is signed by {signer}, which is none of the {} authorities given in addition to the system's, and {} -- give that CA as well",
                more.len(),
                of_this_system().described
            ),
            _ => format!(
                "its certificate is signed by {signer}, {} -- give that CA as CA file: --ca-file of the builder, or cafile in a configuration file",
                of_this_system().described
            ),
        };
        CertificateError::Other(OtherError(Arc::new(UnknownAuthority(text)))).into()
    }
}

impl ServerCertVerifier for Anchored {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        let Some(by_issuer) = self.by_issuer() else {
            return Err(self.unknown_authority(end_entity));
        };
        let verdict = by_issuer.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            // Accept these errors: they concern the certificate chain, which does not
            // matter if the operator trusts the certificate itself. Webpki has already
            // checked the dates, but not the name.
            Err(Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_),
            )) if self.is_in_ca_file(end_entity) => {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                Err(self.unknown_authority(end_entity))
            }
            // Webpki's error for a certificate that `openssl req -x509` made. If webpki
            // renames the error, only our error text changes.
            Err(Error::InvalidCertificate(CertificateError::Other(cause)))
                if format!("{cause:?}").contains("CaUsedAsEndEntity") =>
            {
                Err(self.unknown_authority(end_entity))
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Trusts every server, for `ipa-insecure`.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// Includes schemes that ring cannot verify, because this verifier checks no
    /// signature. A server with a P-521 key must also find a scheme that it supports.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        use SignatureScheme as Scheme;
        vec![
            Scheme::ECDSA_NISTP256_SHA256,
            Scheme::ECDSA_NISTP384_SHA384,
            Scheme::ECDSA_NISTP521_SHA512,
            Scheme::ED25519,
            Scheme::ED448,
            Scheme::RSA_PSS_SHA256,
            Scheme::RSA_PSS_SHA384,
            Scheme::RSA_PSS_SHA512,
            Scheme::RSA_PKCS1_SHA256,
            Scheme::RSA_PKCS1_SHA384,
            Scheme::RSA_PKCS1_SHA512,
        ]
    }
}
