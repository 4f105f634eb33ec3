//! Runs a TLS proxy with a private authority in front of a plain HTTP server,
//! like httpd in front of metal3's Ironic.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use landfall_tests::lab::{HOST_V4, Lab};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub struct Authority {
    /// The PEM file of the authority's certificate.
    pub file: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority and writes its certificate into the lab's folder.
    pub fn new(lab: &Lab) -> Result<Self> {
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "the lab's authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let file = lab.path("authority.pem");
        std::fs::write(&file, certificate.pem())?;
        Ok(Self {
            file,
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The TLS configuration of a server on the lab's IPv4 address, with a
    /// certificate from this authority.
    fn server(&self) -> Result<ServerConfig> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(HOST_V4.into())];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = rustls::crypto::ring::default_provider().into();
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .context("the server's certificate")
    }
}

/// A TLS proxy that runs until it is dropped.
pub struct TlsFront(JoinHandle<()>);

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl TlsFront {
    /// Accepts TLS on this port of the lab's IPv4 address and forwards the
    /// decrypted bytes to `server`.
    pub async fn start(authority: &Authority, port: u16, server: SocketAddr) -> Result<Self> {
        let acceptor = TlsAcceptor::from(Arc::new(authority.server()?));
        let address = SocketAddr::new(HOST_V4.into(), port);
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening on {address}"))?;
        Ok(Self(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(acceptor.clone(), client, server));
            }
        })))
    }
}

/// Forwards the bytes of one connection in both directions. On any error the client
/// sees a broken connection.
async fn pass_on(acceptor: TlsAcceptor, client: TcpStream, server: SocketAddr) {
    let Ok(mut client) = acceptor.accept(client).await else {
        return;
    };
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = copy_bidirectional(&mut client, &mut server).await;
}
