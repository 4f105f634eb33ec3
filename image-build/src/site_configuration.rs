//! Reads what a site puts into its ramdisk in addition to kernel arguments:
//! configuration files, and the certificate authorities with which the agent
//! verifies the site's servers.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use landfall_boot_params::{BootParams, Origin, ini_file};
use landfall_initramfs::build::{CONFIGURATION_DIRECTORY, ConfigurationFile};
use landfall_initramfs::path_error;

use crate::authorities::{self, MAX_PEM_BYTES};
use crate::ca_bundle::{self, CaBundle};

const CA_FILE: &str = "ca.pem";
/// The name of the configuration file that gives the agent the path of [`CA_FILE`]. The
/// agent reads files in the order of their names, so the site's own files override this
/// one.
const CA_OPTION_FILE: &str = "00-ca.conf";

/// The files, and warnings about what the agent would ignore in them.
#[derive(Debug, Default)]
pub(crate) struct SiteConfiguration {
    pub(crate) files: Vec<ConfigurationFile>,
    pub(crate) warnings: Vec<String>,
}

impl SiteConfiguration {
    /// Reads and checks the files that the user named.
    ///
    /// Without `ca_file`, the agent trusts the authorities of `ca_bundle`, by
    /// default those of this machine. With `ca_file`, it trusts those of `ca_file`,
    /// and those of `ca_bundle` only if the user names one.
    pub(crate) fn read_with_bundle(
        ca_file: Option<&Path>,
        ca_bundle: Option<&CaBundle>,
        config_files: &[impl AsRef<Path>],
    ) -> Result<Self> {
        let bundle = match ca_bundle {
            Some(bundle) => bundle.read()?,
            None if ca_file.is_some() => None,
            None if ca_bundle::of_this_machine().is_none() => {
                let mut site = Self::read(ca_file, config_files)?;
                site.warnings.push(
                    "this machine has no bundle of certificate authorities (package ca-certificates): the agent will trust no https server -- give --ca-bundle FILE or --ca-file"
                        .to_owned(),
                );
                return Ok(site);
            }
            None => CaBundle::System.read()?,
        };
        let mut site = Self::read(ca_file, config_files)?;
        let Some(bundle) = bundle else {
            return Ok(site);
        };
        match site.files.iter_mut().find(|file| name_of(file) == CA_FILE) {
            Some(own) => {
                own.bytes.push(b'\n');
                own.bytes.extend(bundle);
            }
            None => site.add(ca_bundle::FILE, bundle),
        }
        Ok(site)
    }

    /// Reads and checks the files, without a bundle: the base ISO, base ramdisk or live
    /// system that gets the files already has one.
    pub(crate) fn read(ca_file: Option<&Path>, config_files: &[impl AsRef<Path>]) -> Result<Self> {
        let mut site = Self::default();
        let mut params = BootParams::default();
        if let Some(path) = ca_file {
            let bytes = path_error::read_bounded(path, MAX_PEM_BYTES)?;
            authorities::check(&bytes).with_context(|| path.display().to_string())?;
            let option = format!("[DEFAULT]\ncafile = /{CONFIGURATION_DIRECTORY}/{CA_FILE}\n");
            params.read_file(CA_OPTION_FILE, &option);
            site.add(CA_FILE, bytes);
            site.add(CA_OPTION_FILE, option.into_bytes());
        }
        let first = site.files.len();
        for path in config_files {
            site.add_config_file(path.as_ref())?;
        }
        // Sort the files in the order in which the agent reads them: a later file
        // overrides an earlier one.
        site.files[first..].sort_by(|a, b| a.path.cmp(&b.path));
        for file in &site.files[first..] {
            params.read_file(name_of(file), &String::from_utf8_lossy(&file.bytes));
        }
        params.check_together();
        site.warnings.extend(params.not_supported_yet());
        site.warnings.append(&mut params.warnings);
        if let Origin::File(name) = &params.cafile.origin
            && ca_file.is_some()
            && name != CA_OPTION_FILE
        {
            site.warnings
                .push(format!("{name}: sets cafile, so --ca-file has no effect"));
        }
        Ok(site)
    }

    fn add(&mut self, name: &str, bytes: Vec<u8>) {
        let path = format!("{CONFIGURATION_DIRECTORY}/{name}");
        self.files.push(ConfigurationFile { path, bytes });
    }

    fn add_config_file(&mut self, path: &Path) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ensure!(
            name.ends_with(".conf") && !name.starts_with('.'),
            "{}: expected a name that ends in .conf: the agent reads no other",
            path.display()
        );
        ensure!(
            self.files.iter().all(|file| name_of(file) != name),
            "{}: another file is already named {name}",
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

/// The name of a file without its directory, as the agent's messages show it.
fn name_of(file: &ConfigurationFile) -> &str {
    file.path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The certificate of an authority `Test`, made by openssl req -x509 -newkey
    /// ed25519.
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

    #[test]
    fn a_bundle_is_there_unless_the_site_names_its_authorities() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (ca_file, bundle) = (path("ca.pem"), path("bundle.pem"));
        fs::write(&ca_file, AUTHORITY).unwrap();
        fs::write(&bundle, format!("# of the public\n{AUTHORITY}")).unwrap();
        let public = CaBundle::File(bundle);
        let own = Some(ca_file.as_path());
        for (own, bundle, expected) in [
            (None, Some(&public), &[("ca-bundle.pem", 1)][..]),
            (None, Some(&CaBundle::None), &[]),
            (own, None, &[("ca.pem", 1)]),
            (own, Some(&CaBundle::None), &[("ca.pem", 1)]),
            (own, Some(&public), &[("ca.pem", 2)]),
        ] {
            let site = SiteConfiguration::read_with_bundle(own, bundle, &[""; 0]).unwrap();
            let pem = site.files.iter().filter(|file| file.path.ends_with(".pem"));
            let found: Vec<_> = pem
                .map(|file| (name_of(file), authorities::count(&file.bytes)))
                .collect();
            assert_eq!(found, expected, "{own:?} {bundle:?}");
        }
        // Debian 12 and 13 have about 140 authorities if the package
        // ca-certificates is installed.
        let usual = SiteConfiguration::read_with_bundle(None, None, &[""; 0]).unwrap();
        match ca_bundle::of_this_machine() {
            Some(file) => assert_eq!(usual.files[0].bytes, fs::read(file).unwrap()),
            None => assert!(usual.warnings[0].contains("no https server")),
        }
    }

    fn error(files: &[(&str, &str)]) -> String {
        format!("{:#}", read(files).unwrap_err())
    }

    #[test]
    fn authorities_are_named_to_the_agent() {
        let bundle = format!("# two\n{AUTHORITY}{AUTHORITY}");
        let site = read(&[("bundle.pem", &bundle)]).unwrap();
        assert_eq!(site.warnings, [""; 0]);
        assert_eq!(name_of(&site.files[0]), "ca.pem");
        assert_eq!(site.files[0].bytes, bundle.as_bytes());
        assert_eq!(name_of(&site.files[1]), "00-ca.conf");
        let mut params = BootParams::default();
        params.read_file("f", std::str::from_utf8(&site.files[1].bytes).unwrap());
        assert_eq!(params.cafile.as_deref(), Some("/etc/landfall/ca.pem"));
    }

    #[test]
    fn an_invalid_bundle_is_rejected() {
        let key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        let cut = AUTHORITY.replace("-----END CERTIFICATE-----\n", "");
        let short = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for (text, expected) in [
            ("", "found none"),
            ("[DEFAULT]\n", "found none"),
            (
                cut.as_str(),
                "expected certificates in PEM, found damaged or incomplete text: ",
            ),
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
        let names: Vec<&str> = site.files.iter().map(name_of).collect();
        assert_eq!(names, ["a.conf", "b.conf", "c.conf"]);
        for expected in [
            "c.conf: sets nothing",
            "a.conf: listen_port = x: expected a number",
            "b.conf: api_ulr: unknown name; ignored -- did you mean api_url?",
            "container.runner: not supported",
            "keyfile: expected certfile as well",
        ] {
            let is_expected = |warning: &String| warning.contains(expected);
            assert!(
                site.warnings.iter().any(is_expected),
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
            ["site.conf: sets cafile, so --ca-file has no effect"]
        );
    }

    #[test]
    fn names_that_the_agent_would_not_read_are_refused() {
        for (name, expected) in [
            ("site.ini", "expected a name that ends in .conf"),
            (".conf", "expected a name that ends in .conf"),
            ("00-ca.conf", "another file is already named 00-ca.conf"),
        ] {
            let error = error(&[("ca.pem", AUTHORITY), (name, "")]);
            assert!(error.contains(expected), "{error}");
        }
        let binary = SiteConfiguration::read(None, &["/dev/null/x.conf"]).unwrap_err();
        assert!(format!("{binary:#}").contains("/dev/null/x.conf"));
    }
}
