//! The certificate and key of the service.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: expected a certificate chain in PEM", path.display())]
    Certificate {
        path: PathBuf,
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    #[error("{}: expected a certificate chain in PEM, found none", path.display())]
    NoCertificate { path: PathBuf },
    #[error("{}: expected a private key in PEM", path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    #[error("{} and {} do not belong together", certificate.display(), key.display())]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        #[source]
        source: rustls::Error,
    },
}

/// A certificate chain and its key, which can be read again. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerTls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that is invalid.
    pub fn from_files(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let config = RwLock::new(read(&certificate, &key)?);
        Ok(Self(Arc::new(Inner {
            certificate,
            key,
            config,
        })))
    }

    /// Reads the files and checks them, without using them.
    ///
    /// # Errors
    /// As for [`ServerTls::from_files`].
    pub fn check(&self) -> Result<(), TlsError> {
        read(&self.0.certificate, &self.0.key).map(drop)
    }

    /// Reads the files again, for new connections.
    ///
    /// # Errors
    /// As for [`ServerTls::from_files`]. Then the old certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = read(&self.0.certificate, &self.0.key)?;
        *self
            .0
            .config
            .write()
            .unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let config = self.0.config.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&config)
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| TlsError::Certificate {
            path: certificate.to_owned(),
            source,
        })?;
    if chain.is_empty() {
        let path = certificate.to_owned();
        return Err(TlsError::NoCertificate { path });
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Key {
        path: key.to_owned(),
        source,
    })?;
    let pair = |source| TlsError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
