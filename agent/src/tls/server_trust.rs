//! Which servers the client believes.
//!
//! Verification is webpki's, with one rule of OpenSSL's beside it: a server may
//! show a certificate that is itself in the CA file. `openssl req -x509` marks
//! what it makes as an authority, Ironic is set up with such a certificate and
//! agents are given the same file as their CA file; the original agent connects, webpki says
//! "CA used as end entity" (measured with OpenSSL 3.0 and webpki 0.103).

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::pem_files::certificates;
use crate::failure::{Class, Failure, Result};

/// Which servers are believed.
#[derive(Debug, Clone, Default)]
pub struct ServerTrust {
    anybody: bool,
    anchors: Vec<CertificateDer<'static>>,
}

impl ServerTrust {
    /// Every server, whatever it shows (`ipa-insecure`).
    pub fn anybody() -> Self {
        Self {
            anybody: true,
            ..Self::default()
        }
    }

    /// Servers that one of the certificates in this file vouches for, or that
    /// show one of them.
    ///
    /// # Errors
    /// If the file cannot be read, or nothing in it can be an authority.
    pub fn from_file(path: &Path) -> Result<Self> {
        let anchors = certificates(path)?;
        // A bundle may hold some curiosity; one certificate that can be used
        // will do.
        let (_, unusable) = anchors_of(&anchors);
        if unusable == anchors.len() {
            return Err(Failure::new(
                Class::CommandExecutionError,
                format!(
                    "{}: expected certificates of authorities, found none that can be read",
                    path.display()
                ),
            ));
        }
        if unusable > 0 {
            tracing::warn!(
                "{}: {unusable} of {} certificates cannot be read; ignored",
                path.display(),
                anchors.len()
            );
        }
        Ok(Self {
            anybody: false,
            anchors,
        })
    }

    pub(super) fn verifier(self, provider: &Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
        if self.anybody {
            return Arc::new(Anybody);
        }
        let (roots, _) = anchors_of(&self.anchors);
        // Without anchors, and only then, there is nothing to build.
        let by_issuer =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .ok();
        Arc::new(Anchored {
            by_issuer,
            anchors: self.anchors,
            provider: Arc::clone(provider),
        })
    }
}

fn anchors_of(certificates: &[CertificateDer<'static>]) -> (RootCertStore, usize) {
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(certificates.iter().cloned());
    (roots, unusable)
}

#[derive(Debug)]
struct Anchored {
    by_issuer: Option<Arc<WebPkiServerVerifier>>,
    anchors: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
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
        let Some(by_issuer) = &self.by_issuer else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        let verdict = by_issuer.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            // Faults of the chain, which does not matter for a certificate that the
            // operator himself has named. Webpki looks at the dates first, so
            // they were right; the name it has not come to yet.
            Err(Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_),
            )) if self.anchors.iter().any(|anchor| anchor == end_entity) => {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
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

/// Believes everybody: what `ipa-insecure` asks for.
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

    /// More than ring can check: nothing is checked, and a server with a P-521
    /// key shall find a scheme, too.
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
