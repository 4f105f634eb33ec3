//! Reads the files that CoreOS' tools put into a ramdisk: `/config.ign`, and
//! NetworkManager's keyfiles for the initramfs.

mod config_parser;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use landfall_boot_params::openshift_agent::DEFAULTS;
use landfall_boot_params::{BootParams, Origin};
use landfall_ignition_config::{AgentUnit, ConfigIgn, GivenFile, PATH};
use landfall_network_plan::{Keyfile, from_keyfiles};
use landfall_parser_child::Fault;
use landfall_sys::private_file;

use crate::ConfigFiles;

pub use config_parser::ConfigParser;

/// Where `coreos-installer iso network embed` and `pxe network wrap` put keyfiles.
const KEYFILES: &str = "etc/coreos-firstboot-network";
const SUFFIX: &str = ".nmconnection";

/// The ramdisk keeps its own files here, such as the certificate authorities that it
/// trusts. A config may replace the configuration files, but no other file.
const OWN_DIRECTORY: &str = "/etc/landfall/";

const IMAGE: &str = "default of OpenShift's agent image";

/// The option of the variable IPA_DEFAULT_HOSTNAME.
const HOST_NAME: &str = "landfall.default_hostname";

/// What CoreOS' tools have put into this ramdisk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnitionParts {
    /// The path of the config, as the origin of settings names it.
    pub path: String,
    pub config: Option<ConfigIgn>,
    /// NetworkManager's profiles, those of the config first.
    pub keyfiles: Vec<Keyfile>,
    /// Files that could not be read, one line each.
    pub warnings: Vec<String>,
}

/// Why a config cannot be used. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum UnusableConfig {
    #[error("cannot read it: {0}")]
    File(#[from] io::Error),
    /// In the words of the parser.
    #[error("{0}")]
    Content(String),
    #[error(transparent)]
    Parser(#[from] Fault),
}

impl IgnitionParts {
    /// The parts of the system with this root. Most ramdisks have none. A fault becomes a
    /// warning.
    pub fn of_system(root: &Path) -> Self {
        let mut parts = match Self::read(&root.join(PATH)) {
            Ok(parts) => parts,
            Err(UnusableConfig::File(error)) if error.kind() == io::ErrorKind::NotFound => {
                Self::default()
            }
            Err(error) => Self {
                warnings: vec![format!("/{PATH}: {error}; it is ignored")],
                ..Self::default()
            },
        };
        if let Some(config) = &mut parts.config {
            let is_kept = |file: &GivenFile| {
                !file.path.starts_with(OWN_DIRECTORY) || is_free(&in_root(root, file), file)
            };
            let words = "the ramdisk has its own file of this name";
            config.retain_companions(is_kept, words);
        }
        parts.add_directory(&root.join(KEYFILES));
        parts
    }

    /// The parts of a config.
    ///
    /// # Errors
    /// If the file cannot be read or is not an Ignition config, or if its parser fails.
    pub fn read(path: &Path) -> Result<Self, UnusableConfig> {
        let config = config_parser::read(File::open(path)?)?;
        let mut parts = Self {
            path: path.display().to_string(),
            ..Self::default()
        };
        for GivenFile { path, content } in &config.keyfiles {
            parts.add_keyfile(path, content.clone());
        }
        parts.config = Some(config);
        Ok(parts)
    }

    /// Adds the keyfiles of a directory, at most [`from_keyfiles::MOST_FILES`]. A keyfile
    /// of the config replaces the keyfile with the same name in the directory, as
    /// Ignition's files do in CoreOS.
    fn add_directory(&mut self, directory: &Path) {
        let paths = match keyfile_paths(directory) {
            Ok(paths) => paths,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                let words = format!("cannot read {}: {error}", directory.display());
                return self.warnings.push(words);
            }
        };
        for path in paths.into_iter().take(from_keyfiles::MOST_FILES) {
            let name = path.file_name().unwrap_or_default().display().to_string();
            if self.keyfiles.iter().any(|known| known.name == name) {
                continue;
            }
            match read_keyfile(&path) {
                Ok(content) => self.add_keyfile(&name, content),
                Err(error) => {
                    let words = format!("cannot read {}: {error}", path.display());
                    self.warnings.push(words);
                }
            }
        }
    }

    fn add_keyfile(&mut self, name: &str, content: Vec<u8>) {
        match String::from_utf8(content) {
            Ok(text) => self.keyfiles.push(Keyfile {
                name: name.to_owned(),
                text,
            }),
            Err(_) => {
                let words = format!("keyfile {name}: expected UTF-8; the file is ignored");
                self.warnings.push(words);
            }
        }
    }

    /// Sets the values of the config, except those in the agent's configuration files
    /// inside it. If it has the agent's unit, also sets the defaults of OpenShift's
    /// image. Any other source overrides the values set here.
    pub(crate) fn apply(&self, params: &mut BootParams) {
        params.warnings.extend(self.warnings.iter().cloned());
        let Some(config) = &self.config else {
            return;
        };
        if config.agent_unit.is_some() {
            // Ignore the default `debug` of OpenShift's container, which logs to the
            // journal. In the ramdisk debug messages would fill the consoles, and slow
            // down a boot with a serial console.
            for (option, value) in DEFAULTS.iter().filter(|(option, _)| *option != "debug") {
                let ignored = params.apply_override(option, value, Origin::File(IMAGE.to_owned()));
                params.warnings.extend(ignored);
            }
        }
        let origin = |what: &str| Origin::File(format!("{what} in {}", self.path));
        let mut set = |option: &str, value: &str, what: &str| {
            let ignored = params.apply_override(option, value, origin(what));
            params.warnings.extend(ignored);
        };
        if let Some(server) = config.ntp_servers.first() {
            set("ntp_server", server, &config.ntp_path);
        }
        if let Some(name) = &config.host_name {
            set(HOST_NAME, name, "/etc/hostname");
        }
        let unit = config.agent_unit.iter();
        for (option, value) in unit.flat_map(AgentUnit::options) {
            // As on CoreOS, the default host name of the unit is only for a host without
            // /etc/hostname.
            let is_named = option == HOST_NAME && config.host_name.is_some();
            if !is_named {
                set(option, value, "ironic-agent.service");
            }
        }
    }

    /// Adds the agent's configuration files of the config to those of the ramdisk.
    pub(crate) fn add_files(&self, files: ConfigFiles) -> ConfigFiles {
        match &self.config {
            Some(config) => files.with_files_of(&self.path, &config.agent_files),
            None => files,
        }
    }

    /// Writes the files to which the agent's configuration can refer. Only root may read
    /// them. Call this only in the ramdisk. Returns the faults, one line each.
    pub fn write_companions(&self, root: &Path) -> Vec<String> {
        let config = self.config.iter();
        let mut faults = Vec::new();
        for file in config.flat_map(|config| &config.companions) {
            let path = in_root(root, file);
            // Remove an existing file first. Otherwise the file would keep its mode, and
            // a symbolic link would redirect the write.
            let removed = match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
            let written = removed.and_then(|()| private_file::write(&path, &file.content));
            if let Err(error) = written {
                faults.push(format!("cannot write {}: {error}", file.path));
            }
        }
        faults
    }

    /// Logs what is applied, and what is not.
    pub(crate) fn report(&self) {
        let Some(config) = &self.config else {
            return;
        };
        for line in &config.applied {
            tracing::info!("config.ign: {line}");
        }
        for line in &config.not_applied {
            tracing::warn!("config.ign: not applied: {line}");
        }
        for line in &config.not_needed {
            tracing::debug!("config.ign: not needed: {line}");
        }
    }
}

fn in_root(root: &Path, file: &GivenFile) -> PathBuf {
    root.join(file.path.trim_start_matches('/'))
}

/// Whether the path does not exist yet, or is a file with the same content, which the
/// agent wrote before a restart.
fn is_free(path: &Path, file: &GivenFile) -> bool {
    match fs::symlink_metadata(path) {
        Ok(found) => {
            let has_length = found.is_file() && found.len() == file.content.len() as u64;
            has_length && fs::read(path).is_ok_and(|content| content == file.content)
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The paths of the keyfiles in a directory, sorted. Like NetworkManager, a boot skips
/// hidden files.
///
/// # Errors
/// If the directory cannot be read.
pub fn keyfile_paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(SUFFIX) && !name.starts_with('.')
    });
    paths.sort();
    Ok(paths)
}

fn read_keyfile(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Read one byte beyond the limit, so that a file that is too long is noticed.
    File::open(path)?
        .take(from_keyfiles::LARGEST as u64 + 1)
        .read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::CommandLine;

    use super::*;
    use crate::Settings;
    use crate::media::Media;

    const CONFIG: &[u8] =
        include_bytes!("../../ignition-config/test_data/image_customization_controller.ign");

    fn of_ramdisk(config: &[u8]) -> (tempfile::TempDir, IgnitionParts) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(PATH), config).unwrap();
        let parts = IgnitionParts::of_system(root.path());
        (root, parts)
    }

    fn settings(parts: &IgnitionParts, line: &str) -> Settings {
        Settings::from_sources(
            CommandLine::parse(line),
            Media::default(),
            ConfigFiles::default(),
            parts.clone(),
        )
    }

    #[test]
    fn each_value_names_its_source_and_kernel_arguments_override_the_unit() {
        let (root, parts) = of_ramdisk(CONFIG);
        let line = "ipa-api-url=http://192.0.2.9:6385 HTTP_PROXY=http://other:1 ipa-collect-lldp=0";
        let settings = settings(&parts, line);
        let listed = settings.params.list();
        let of = |key: &str| {
            let found = listed.iter().find(|setting| setting.key == key).unwrap();
            let origin = found.origin.to_string();
            let origin = origin.replace(root.path().to_str().unwrap(), "");
            format!("{} ({origin})", found.value)
        };
        for (key, expected) in [
            (
                "ipa-api-url",
                "https://192.0.2.1:6385,https://[2001:db8::1]:6385 (/etc/ironic-python-agent.conf in /config.ign)",
            ),
            (
                "ipa-insecure",
                "1 (/etc/ironic-python-agent.conf in /config.ign)",
            ),
            (
                "ipa-ntp-server",
                "ntp1.example (/etc/chrony.conf in /config.ign)",
            ),
            (
                "IPA_DEFAULT_HOSTNAME",
                "node7 (ironic-agent.service in /config.ign)",
            ),
            (
                "IPA_COREOS_COPY_NETWORK",
                "1 (ironic-agent.service in /config.ign)",
            ),
            (
                "HTTP_PROXY",
                "http://other:1 (kernel argument HTTP_PROXY=http://other:1)",
            ),
            ("ipa-collect-lldp", "0 (kernel argument ipa-collect-lldp=0)"),
            (
                "ipa-inspection-collectors",
                "default,logs (default of OpenShift's agent image)",
            ),
        ] {
            assert_eq!(of(key), expected, "{key}");
        }
        assert_eq!(settings.params.warnings, [""; 0]);
        // Ironic at `api_url` gets the inventory, because the image configures
        // collectors.
        assert!(settings.params.inspection_urls().is_some());
        assert_eq!(settings.embedded.keyfiles.len(), 1);
        assert!(settings.embedded.has_plan());
        assert_eq!(settings.authorities().len(), 1);
    }

    #[test]
    fn hostname_precedes_the_default_of_the_unit() {
        let text = String::from_utf8(CONFIG.to_vec()).unwrap();
        let file = r#"{"path":"/etc/hostname","contents":{"source":"data:,node8"}},"#;
        let text = text.replacen("\"files\":[", &format!("\"files\":[{file}"), 1);
        let (_root, parts) = of_ramdisk(text.as_bytes());
        let name = |line| settings(&parts, line).params.default_hostname.value;
        assert_eq!(name("").as_deref(), Some("node8"));
        assert_eq!(name("IPA_DEFAULT_HOSTNAME=node9").as_deref(), Some("node9"));
    }

    #[test]
    fn keyfiles_of_both_places() {
        let (root, _) = of_ramdisk(CONFIG);
        let directory = root.path().join(KEYFILES);
        fs::create_dir_all(directory.join("sub.nmconnection")).unwrap();
        for (name, content) in [
            ("eth0.nmconnection", &b"of the other place"[..]),
            ("eth1.nmconnection", b"[connection]\n"),
            ("eth2.nmconnection", b"\xff"),
            (".eth3.nmconnection", b""),
            ("eth4", b""),
        ] {
            fs::write(directory.join(name), content).unwrap();
        }
        let parts = IgnitionParts::of_system(root.path());
        let names: Vec<_> = parts
            .keyfiles
            .iter()
            .map(|file| file.name.as_str())
            .collect();
        assert_eq!(names, ["eth0.nmconnection", "eth1.nmconnection"]);
        assert!(
            parts.keyfiles[0]
                .text
                .starts_with("[connection]\nautoconnect")
        );
        assert_eq!(parts.warnings.len(), 2, "{:?}", parts.warnings);
        assert!(parts.warnings[0].contains("eth2.nmconnection: expected UTF-8"));
    }

    #[test]
    fn an_invalid_config_is_reported() {
        let (_root, parts) = of_ramdisk(b"{");
        assert!(parts.warnings[0].starts_with("/config.ign: expected an Ignition config, found"));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(
            IgnitionParts::of_system(empty.path()),
            IgnitionParts::default()
        );
    }

    #[test]
    fn files_that_the_configuration_refers_to_are_private() {
        use std::os::unix::fs::PermissionsExt as _;

        let paths = [
            "/etc/ironic-python-agent/ironic.crt",
            "/etc/ironic-python-agent.d/known.crt",
            "/etc/landfall/new.pem",
        ];
        let files = paths
            .map(|path| format!(r#"{{"path": "{path}", "contents": {{"source": "data:,pem"}}}}"#));
        let files = files.join(", ");
        let config =
            format!(r#"{{"ignition": {{"version": "3.4.0"}}, "storage": {{"files": [{files}]}}}}"#);
        let (root, parts) = of_ramdisk(config.as_bytes());
        let known = root.path().join("etc/ironic-python-agent.d/known.crt");
        fs::create_dir_all(known.parent().unwrap()).unwrap();
        fs::write(&known, "of the ramdisk").unwrap();
        fs::set_permissions(&known, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(parts.write_companions(root.path()), [""; 0]);
        for path in paths {
            let path = root.path().join(&path[1..]);
            assert_eq!(fs::read(&path).unwrap(), b"pem");
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        // A restarted agent finds its own files.
        let again = IgnitionParts::of_system(root.path());
        assert_eq!(again, parts);
        assert_eq!(again.write_companions(root.path()), [""; 0]);
    }

    #[test]
    fn the_own_files_of_the_ramdisk_stay() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("etc/landfall");
        fs::create_dir_all(own.join("hosts")).unwrap();
        fs::write(own.join("ca-bundle.pem"), "own").unwrap();
        std::os::unix::fs::symlink("nowhere", own.join("link")).unwrap();
        let names = ["ca-bundle.pem", "hosts", "link", "new"];
        let files = names.map(|name| {
            format!(r#"{{"path": "/etc/landfall/{name}", "contents": {{"source": "data:,pem"}}}}"#)
        });
        let files = files.join(", ");
        let config =
            format!(r#"{{"ignition": {{"version": "3.4.0"}}, "storage": {{"files": [{files}]}}}}"#);
        fs::write(root.path().join(PATH), config).unwrap();
        let parts = IgnitionParts::of_system(root.path());
        assert_eq!(parts.write_companions(root.path()), [""; 0]);
        assert_eq!(fs::read(own.join("ca-bundle.pem")).unwrap(), b"own");
        let config = parts.config.unwrap();
        assert_eq!(config.applied, ["/etc/landfall/new: file of the agent"]);
        assert_eq!(
            config.not_applied,
            [
                "/etc/landfall/ca-bundle.pem: the ramdisk has its own file of this name",
                "/etc/landfall/hosts: the ramdisk has its own file of this name",
                "/etc/landfall/link: the ramdisk has its own file of this name",
            ]
        );
    }

    #[test]
    fn the_defaults_of_the_image_apply_without_debug() {
        let (_root, parts) = of_ramdisk(CONFIG);
        let settings = settings(&parts, "");
        assert!(!settings.params.wants_debug());
        let list = settings.params.list();
        let of_image = list
            .iter()
            .filter(|found| found.origin.to_string() == IMAGE);
        assert_eq!(of_image.count(), 3);
    }
}
