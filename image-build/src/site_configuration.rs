//! What a site puts into its ramdisk beside kernel arguments: configuration
//! files and the certificate authorities that its servers are verified against.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use landfall_boot_params::{BootParams, Origin, ini_file};
use landfall_initramfs::build::{CONFIGURATION_DIRECTORY, ConfigurationFile};
use landfall_initramfs::path_error;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// As the agent, which would not read a larger one.
const MAX_PEM_BYTES: u64 = 4 << 20;

const CA_FILE: &str = "ca.pem";
/// Names the file above to the agent. Before the site's own files by name, which
/// is their order: theirs win.
const CA_OPTION_FILE: &str = "00-ca.conf";

/// The files, and what the agent would ignore in them.
#[derive(Debug, Default)]
pub(crate) struct SiteConfiguration {
    pub(crate) files: Vec<ConfigurationFile>,
    pub(crate) warnings: Vec<String>,
}

impl SiteConfiguration {
    /// Reads and checks the files that the user names.
    pub(crate) fn read(ca_file: Option<&Path>, config_files: &[impl AsRef<Path>]) -> Result<Self> {
        let mut found = Self::default();
        let mut params = BootParams::default();
        if let Some(path) = ca_file {
            let bytes = path_error::read_bounded(path, MAX_PEM_BYTES)?;
            check_authorities(&bytes).with_context(|| path.display().to_string())?;
            let option = format!("[DEFAULT]\ncafile = /{CONFIGURATION_DIRECTORY}/{CA_FILE}\n");
            params.read_file(CA_OPTION_FILE, &option);
            found.add(CA_FILE, bytes);
            found.add(CA_OPTION_FILE, option.into_bytes());
        }
        let first = found.files.len();
        for path in config_files {
            found.add_config_file(path.as_ref())?;
        }
        // As the agent reads them, so that a later one is weighed against an earlier.
        found.files[first..].sort_by(|a, b| a.name.cmp(&b.name));
        for file in &found.files[first..] {
            params.read_file(&file.name, &String::from_utf8_lossy(&file.bytes));
        }
        params.check_together();
        found.warnings.extend(params.not_supported_yet());
        found.warnings.append(&mut params.warnings);
        if let Origin::File(name) = &params.cafile.origin
            && ca_file.is_some()
            && name != CA_OPTION_FILE
        {
            found.warnings.push(format!(
                "{name}: sets cafile, so that --ca-file is of no use"
            ));
        }
        Ok(found)
    }

    fn add(&mut self, name: &str, bytes: Vec<u8>) {
        let name = name.to_owned();
        self.files.push(ConfigurationFile { name, bytes });
    }

    fn add_config_file(&mut self, path: &Path) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ensure!(
            name.ends_with(".conf") && !name.starts_with('.'),
            "{}: expected a name that ends in .conf: the agent reads no other",
            path.display()
        );
        ensure!(
            self.files.iter().all(|file| file.name != name),
            "{}: there is another {name} already",
            path.display()
        );
        let bytes = path_error::read_bounded(path, ini_file::MAX_LENGTH as u64)?;
        let text = std::str::from_utf8(&bytes)
            .with_context(|| format!("{}: expected text", path.display()))?;
        if ini_file::IniFile::parse(text).assignments.is_empty() {
            self.warnings
                .push(format!("{}: sets nothing", path.display()));
        }
        self.add(&name, bytes);
        Ok(())
    }
}

/// Checks that these are certificates, and nothing that must not be handed out.
fn check_authorities(pem: &[u8]) -> Result<()> {
    // An encrypted one, too: the label is all that counts.
    ensure!(
        !String::from_utf8_lossy(pem).contains("PRIVATE KEY-----"),
        "expected certificates only, found a private key: whoever gets the ramdisk can read it"
    );
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| anyhow::anyhow!("expected certificates in PEM, found {error}"))?;
    ensure!(
        !certificates.is_empty(),
        "expected certificates in PEM (BEGIN CERTIFICATE), found none"
    );
    for (number, certificate) in (1..).zip(&certificates) {
        ensure!(
            is_sequence(certificate),
            "certificate {number}: expected DER, found something else or only a part"
        );
    }
    Ok(())
}

/// Whether this is one DER SEQUENCE from begin to end, as a certificate is
/// (X.690, 8.1.3).
fn is_sequence(der: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = der else {
        return false;
    };
    if *length < 0x80 {
        return usize::from(*length) == rest.len();
    }
    let digits = usize::from(length & 0x7f);
    if !(1..=4).contains(&digits) || rest.len() < digits {
        return false;
    }
    let (length, content) = rest.split_at(digits);
    let length = length
        .iter()
        .fold(0, |all, byte| all << 8 | usize::from(*byte));
    length == content.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Of an authority `Test`, by openssl req -x509 -newkey ed25519.
    const AUTHORITY: &str = include_str!("../test_data/site_configuration/authority.pem");

    fn read(files: &[(&str, &str)]) -> Result<SiteConfiguration> {
        let dir = tempfile::tempdir().unwrap();
        let mut ca_file = None;
        let mut config_files = Vec::new();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            match name.ends_with(".pem") {
                true => ca_file = Some(path),
                false => config_files.push(path),
            }
        }
        SiteConfiguration::read(ca_file.as_deref(), &config_files)
    }

    fn error(files: &[(&str, &str)]) -> String {
        format!("{:#}", read(files).unwrap_err())
    }

    #[test]
    fn authorities_are_named_to_the_agent() {
        let bundle = format!("# two\n{AUTHORITY}{AUTHORITY}");
        let site = read(&[("bundle.pem", &bundle)]).unwrap();
        assert_eq!(site.warnings, [""; 0]);
        assert_eq!(site.files[0].name, "ca.pem");
        assert_eq!(site.files[0].bytes, bundle.as_bytes());
        assert_eq!(site.files[1].name, "00-ca.conf");
        let mut params = BootParams::default();
        params.read_file("f", std::str::from_utf8(&site.files[1].bytes).unwrap());
        assert_eq!(params.cafile.as_deref(), Some("/etc/landfall/ca.pem"));
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        let key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        let cut = AUTHORITY.replace("-----END CERTIFICATE-----\n", "");
        let short = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for (text, expected) in [
            ("", "found none"),
            ("[DEFAULT]\n", "found none"),
            (cut.as_str(), "expected certificates in PEM, found"),
            (short, "certificate 1: expected DER"),
            (&format!("{AUTHORITY}{key}"), "found a private key"),
        ] {
            let error = error(&[("ca.pem", text)]);
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("ca.pem: "), "{error}");
        }
    }

    #[test]
    fn files_are_checked_as_the_agent_will_read_them() {
        let site = read(&[
            (
                "b.conf",
                "[DEFAULT]\napi_ulr = http://h\n[container]\nrunner = podman\n",
            ),
            ("a.conf", "[DEFAULT]\nlisten_port = x\nkeyfile = /k\n"),
            ("c.conf", "# nothing\n"),
        ])
        .unwrap();
        let names: Vec<&str> = site.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.conf", "b.conf", "c.conf"]);
        for expected in [
            "c.conf: sets nothing",
            "a.conf: listen_port = x: expected a number",
            "b.conf: api_ulr: not known here, api_url is",
            "container.runner: not supported",
            "keyfile: expected certfile beside it",
        ] {
            let told = |warning: &String| warning.contains(expected);
            assert!(
                site.warnings.iter().any(told),
                "{expected}: {:?}",
                site.warnings
            );
        }
        assert_eq!(site.warnings.len(), 5, "{:?}", site.warnings);
    }

    #[test]
    fn a_file_that_names_other_authorities_wins() {
        let site = read(&[
            ("ca.pem", AUTHORITY),
            ("site.conf", "[DEFAULT]\ncafile = /etc/other.pem\n"),
        ])
        .unwrap();
        assert_eq!(
            site.warnings,
            ["site.conf: sets cafile, so that --ca-file is of no use"]
        );
    }

    #[test]
    fn names_that_the_agent_would_not_read_are_refused() {
        for (name, expected) in [
            ("site.ini", "expected a name that ends in .conf"),
            (".conf", "expected a name that ends in .conf"),
            ("00-ca.conf", "there is another 00-ca.conf already"),
        ] {
            let error = error(&[("ca.pem", AUTHORITY), (name, "")]);
            assert!(error.contains(expected), "{error}");
        }
        let binary = SiteConfiguration::read(None, &["/dev/null/x.conf"]).unwrap_err();
        assert!(format!("{binary:#}").contains("/dev/null/x.conf"));
    }

    #[test]
    fn lengths_of_der() {
        let long = [&[0x30, 0x82, 1, 0][..], &[0; 256]].concat();
        for (der, expected) in [
            (&[][..], false),
            (&[0x30], false),
            (&[0x30, 0], true),
            (&[0x30, 1, 9], true),
            (&[0x30, 1], false),
            (&[0x31, 0], false),
            (&[0x30, 0x80], false),
            (&[0x30, 0x85, 0, 0, 0, 0, 0], false),
            (&[0x30, 0x82, 1], false),
            (&long, true),
            (&long[..259], false),
        ] {
            assert_eq!(is_sequence(der), expected, "{der:x?}");
        }
    }
}
