//! The certificate and key of the service.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::file_stamp::FileStamp;

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: expected a certificate chain in PEM", path.display())]
    Certificate {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("{}: expected a certificate chain in PEM, found none", path.display())]
    NoCertificate { path: PathBuf },
    #[error("{}: expected an X.509 certificate, found other or damaged data", path.display())]
    BadCertificate {
        path: PathBuf,
        #[source]
        source: rustls::Error,
    },
    #[error("{}: expected a private key in PEM", path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error(
        "{}: expected a private key of type RSA, ECDSA (P-256 or P-384) or Ed25519, found another type or damaged data",
        path.display()
    )]
    BadKey {
        path: PathBuf,
        #[source]
        source: rustls::Error,
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
    /// The state of the files before they were last read.
    stamps: Mutex<[Option<FileStamp>; 2]>,
}

/// The content of valid files, see [`ServerTls::check`].
#[derive(Debug)]
pub struct CheckedFiles {
    config: Arc<ServerConfig>,
    /// The state of the files before they were read.
    stamps: [Option<FileStamp>; 2],
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid, or if certificate and key do not belong
    /// together. The error names the file or both files.
    pub fn from_files(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let stamps = Mutex::new(stamps(&certificate, &key));
        let config = RwLock::new(read(&certificate, &key)?);
        Ok(Self(Arc::new(Inner {
            certificate,
            key,
            config,
            stamps,
        })))
    }

    /// Reads the files and checks them, without using them.
    ///
    /// # Errors
    /// As for [`ServerTls::from_files`].
    pub fn check(&self) -> Result<CheckedFiles, TlsError> {
        let stamps = stamps(&self.0.certificate, &self.0.key);
        let config = read(&self.0.certificate, &self.0.key)?;
        Ok(CheckedFiles { config, stamps })
    }

    /// Uses the content of checked files for new connections.
    pub fn install(&self, files: CheckedFiles) {
        *self.stamps() = files.stamps;
        let config = self.0.config.write();
        *config.unwrap_or_else(PoisonError::into_inner) = files.config;
    }

    /// Reads the files again, for new connections.
    ///
    /// # Errors
    /// As for [`ServerTls::from_files`]. Then the old certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        *self.stamps() = stamps(&self.0.certificate, &self.0.key);
        self.install(self.check()?);
        Ok(())
    }

    /// Reads the files again if they have changed. Returns whether they have.
    ///
    /// # Errors
    /// As for [`ServerTls::from_files`]. After an error the old certificate stays in
    /// use, and the files are read again after their next change. The cause may be that a
    /// program has not written both files completely yet.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let now = stamps(&self.0.certificate, &self.0.key);
        if *self.stamps() == now {
            return Ok(false);
        }
        self.reload()?;
        Ok(true)
    }

    fn stamps(&self) -> MutexGuard<'_, [Option<FileStamp>; 2]> {
        self.0.stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let config = self.0.config.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&config)
    }
}

fn stamps(certificate: &Path, key: &Path) -> [Option<FileStamp>; 2] {
    [certificate, key].map(|path| path.metadata().ok().map(|found| FileStamp::of(&found)))
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| {
            let path = certificate.to_owned();
            match error {
                pem::Error::Io(source) => TlsError::Unreadable { path, source },
                source => TlsError::Certificate { path, source },
            }
        })?;
    if chain.is_empty() {
        let path = certificate.to_owned();
        return Err(TlsError::NoCertificate { path });
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        let path = key.to_owned();
        match error {
            pem::Error::Io(source) => TlsError::Unreadable { path, source },
            source => TlsError::Key { path, source },
        }
    })?;
    let unusable = |error: rustls::Error| match error {
        source @ rustls::Error::InconsistentKeys(_) => TlsError::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        },
        source @ rustls::Error::InvalidCertificate(_) => TlsError::BadCertificate {
            path: certificate.to_owned(),
            source,
        },
        source => TlsError::BadKey {
            path: key.to_owned(),
            source,
        },
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
