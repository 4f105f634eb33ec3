//! Certificates and keys from PEM files.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use landfall_report::failure::{Failure, Result};
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The maximum size of a PEM file in bytes. The bundles of operating systems have
/// about 250 kB.
pub(super) const SIZE_LIMIT: u64 = 4 << 20;
/// The maximum number of certificates in a file. Real bundles have far fewer.
pub(super) const COUNT_LIMIT: usize = 4096;

/// A private key and its certificates, our own certificate first.
#[derive(Debug)]
pub struct Identity {
    /// The source of the identity, for messages.
    pub name: String,
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads the identity from these two files, which may be the same file.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid. The error names the file and the reason.
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Self> {
        let name = certificates.display().to_string();
        let certificates = certificates_of(&name, &read(certificates)?)?;
        let key = key_of(&key.display().to_string(), &read(key)?)?;
        Ok(Self {
            name,
            certificates,
            key,
        })
    }

    /// Reads the identity from these texts.
    ///
    /// # Errors
    /// If a text is invalid.
    pub fn from_pem(name: &str, certificates: &str, key: &str) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            certificates: certificates_of(name, certificates.as_bytes())?,
            key: key_of(name, key.as_bytes())?,
        })
    }
}

/// The certificates of a bundle.
///
/// # Errors
/// If the file cannot be read, has an invalid item or contains no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    certificates_of(&path.display().to_string(), &read(path)?)
}

/// The certificates in a PEM text, which may also contain other items.
pub fn certificates_of(name: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .take(COUNT_LIMIT)
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| {
            fault(
                name,
                &format!("expected certificates in PEM, found {error}"),
            )
        })?;
    if certificates.is_empty() {
        return Err(fault(
            name,
            "expected certificates in PEM (BEGIN CERTIFICATE), found none",
        ));
    }
    Ok(certificates)
}

/// The first private key in a PEM text.
pub fn key_of(name: &str, pem: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let found = match error {
            PemError::NoItemsFound => "none".to_owned(),
            other => other.to_string(),
        };
        fault(
            name,
            &format!("expected a private key in PEM, not encrypted, found {found}"),
        )
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(SIZE_LIMIT + 1).read_to_end(&mut bytes))
        .map_err(|error| fault(&name, &error.to_string()))?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(fault(
            &name,
            &format!("expected at most {SIZE_LIMIT} bytes, found more"),
        ));
    }
    Ok(bytes)
}

fn fault(name: &str, what: &str) -> Failure {
    Failure::other(format!("{name}: {what}"))
}
