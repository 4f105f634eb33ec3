//! Chooses the certificate authorities that the ramdisk trusts if the site
//! names none of its own. By default they are those of the build machine.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use landfall_initramfs::path_error;

use crate::authorities::{self, MAX_PEM_BYTES};

/// The name of the bundle in the ramdisk's configuration directory, where the
/// agent looks first.
pub(crate) const FILE: &str = "ca-bundle.pem";

/// Where distributions keep their trusted authorities: Debian, Fedora and Red Hat,
/// SUSE, Alpine.
const OF_DISTRIBUTIONS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The value of `--ca-bundle`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CaBundle {
    /// Use the bundle of the build machine.
    System,
    /// Use no bundle.
    None,
    File(PathBuf),
}

impl FromStr for CaBundle {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "system" => Self::System,
            "none" => Self::None,
            path => Self::File(path.into()),
        })
    }
}

impl CaBundle {
    /// Returns the PEM of the bundle; `None` if the user wants no bundle. Fails if the
    /// build machine has no bundle, if the file cannot be read, or if it is not a list of
    /// certificates.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>> {
        let path = match self {
            Self::None => return Ok(None),
            Self::File(path) => path,
            Self::System => match of_this_machine() {
                Some(path) => path,
                None => bail!(
                    "--ca-bundle system: expected {}, found none of them -- install the package ca-certificates, or give --ca-bundle FILE or --ca-bundle none",
                    OF_DISTRIBUTIONS.join(", ")
                ),
            },
        };
        let pem = path_error::read_bounded(path, MAX_PEM_BYTES)?;
        authorities::check(&pem).with_context(|| path.display().to_string())?;
        Ok(Some(pem))
    }
}

/// The bundle of the build machine, if there is one.
pub(crate) fn of_this_machine() -> Option<&'static Path> {
    let files = OF_DISTRIBUTIONS.iter().map(Path::new);
    files.into_iter().find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_files() {
        for (text, expected) in [
            ("system", CaBundle::System),
            ("none", CaBundle::None),
            ("ca.pem", CaBundle::File("ca.pem".into())),
            ("./none", CaBundle::File("./none".into())),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        assert_eq!(CaBundle::None.read().unwrap(), None);
        let missing = CaBundle::File("/no/such.pem".into()).read().unwrap_err();
        assert!(format!("{missing:#}").contains("/no/such.pem"));
    }
}
