//! The certificate authorities of this system. The builder adds them to the ramdisk
//! (`--ca-bundle`); a live system has those of its distribution.
//!
//! Such a bundle has about 150 certificates in 220 kB of PEM, and most boots need none of
//! them. The bundle is therefore read only when the first server sends its certificate,
//! once for the whole process. The process keeps only the data for verification: names,
//! keys and constraints, about 80 kB.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::pem_files::{COUNT_LIMIT, SIZE_LIMIT};

/// The possible paths of the bundle; the first one that exists is used. The builder
/// writes the first path. The others are those of Fedora and Red Hat, Debian, SUSE and
/// Alpine.
const FILES: [&str; 5] = [
    "/etc/landfall/ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[derive(Debug)]
pub(super) struct SystemAuthorities {
    /// The names, keys and constraints of the authorities.
    pub(super) roots: Arc<RootCertStore>,
    /// A description of the authorities for error messages.
    pub(super) described: String,
}

/// The authorities of the system in which the agent runs.
pub(super) fn of_this_system() -> &'static SystemAuthorities {
    static OF_THIS_SYSTEM: OnceLock<SystemAuthorities> = OnceLock::new();
    OF_THIS_SYSTEM.get_or_init(|| SystemAuthorities::of_first(&FILES))
}

impl SystemAuthorities {
    /// The authorities in the first of these files that exists. Certificates that
    /// cannot be authorities are left out, because a distribution's bundle may
    /// contain some.
    pub(super) fn of_first(files: &[&str]) -> Self {
        let found = files.iter().find_map(|path| {
            let file = File::open(Path::new(path)).ok()?;
            Some((path, file))
        });
        let mut roots = RootCertStore::empty();
        let Some((path, file)) = found else {
            let described = "this system trusts no authority (the builder's --ca-bundle puts \
                             those of the build machine into a ramdisk)";
            return Self {
                roots: Arc::new(roots),
                described: described.to_owned(),
            };
        };
        let mut left_out = 0;
        let pem = BufReader::new(file.take(SIZE_LIMIT));
        for certificate in CertificateDer::pem_reader_iter(pem).take(COUNT_LIMIT) {
            match certificate.map(|certificate| roots.add(certificate)) {
                Ok(Ok(())) => {}
                _ => left_out += 1,
            }
        }
        tracing::debug!("{path}: {} authorities, {left_out} left out", roots.len());
        Self {
            described: format!("none of the {} authorities in {path}", roots.len()),
            roots: Arc::new(roots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(name: &str) -> String {
        let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn the_first_file_that_exists_is_read_and_curiosities_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let bundle = format!("# two\n{}{odd}{}", authority("a"), authority("b"));
        std::fs::write(path("second"), bundle).unwrap();
        std::fs::write(path("third"), authority("c")).unwrap();
        let [first, second, third] = ["first", "second", "third"].map(path);
        let found = SystemAuthorities::of_first(&[&first, &second, &third]);
        assert_eq!(found.roots.len(), 2);
        assert_eq!(
            found.described,
            format!("none of the 2 authorities in {second}")
        );
        let none = SystemAuthorities::of_first(&[&first]);
        assert!(none.roots.is_empty());
        assert!(none.described.contains("trusts no authority"));
    }
}
