//! The settings that only OpenShift's agent container has: from the files of its image,
//! from the files that its unit mounts, and from the environment that the unit sets.
//!
//! The agent reads them before it changes its root to the host's root, because it cannot
//! reach the container's files afterwards.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use landfall_boot_params::{BootParams, Origin, Setting};
use landfall_ignition_config::{AgentUnit, GivenFile};
use landfall_sys::private_file;
use landfall_sys::state_file::STATE_DIRECTORY;

use crate::ConfigFiles;

/// How the origin of a setting names the container.
pub(crate) const NAME: &str = "the agent container";
const ENVIRONMENT: &str = "environment of the agent container";
/// The beginning of the names of the environment variables that the agent reads.
const PREFIX: &str = "IPA_";
/// The bundle of certificate authorities that the builder's `--ca-bundle` adds, at the
/// same path as in the ramdisk.
const AUTHORITIES: &str = "etc/landfall/ca-bundle.pem";
/// The directory below [`STATE_DIRECTORY`] with the copies of the files that the settings
/// name.
const COPIES: &str = "container";
/// In bytes: the size limit of a file that the settings name. The HTTP client has the
/// same limit for a PEM file.
const LARGEST: u64 = 4 << 20;

/// What the agent has read in the container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerParts {
    /// Where the host's root is mounted in the container.
    host: PathBuf,
    files: ConfigFiles,
    environment: AgentUnit,
    /// The files of the container that its configuration files name, each with its path
    /// in the container.
    named: Vec<GivenFile>,
    /// Certificates to trust in addition to those of the host.
    authorities: Option<GivenFile>,
    warnings: Vec<String>,
}

impl ContainerParts {
    /// Reads the container of this process. `host` is where the host's root is
    /// mounted in the container.
    pub fn of_this_process(host: &Path) -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self::read(Path::new("/"), host, variables)
    }

    fn read(root: &Path, host: &Path, variables: impl Iterator<Item = (String, String)>) -> Self {
        let (environment, ignored) = AgentUnit::from_variables(variables);
        let ignored = ignored.into_iter().filter(|name| name.starts_with(PREFIX));
        let mut parts = Self {
            host: host.to_owned(),
            files: ConfigFiles::of_system(root),
            environment,
            warnings: ignored
                .map(|name| {
                    format!("{ENVIRONMENT}: {name}: the agent has no such setting; ignored")
                })
                .collect(),
            ..Self::default()
        };
        for file in &mut parts.files.files {
            file.container = Some(NAME.to_owned());
        }
        parts.read_named(root);
        match read(&root.join(AUTHORITIES)) {
            Ok(content) => {
                parts.authorities = Some(GivenFile {
                    path: format!("/{AUTHORITIES}"),
                    content,
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let words = format!("cannot read /{AUTHORITIES} in {NAME}: {error}");
                parts.warnings.push(words);
            }
        }
        parts
    }

    fn read_named(&mut self, root: &Path) {
        let mut params = BootParams::default();
        for file in &self.files.files {
            params.read_file(&file.origin(), &file.text);
        }
        for path in path_options(&mut params).map(|option| option.value.take()) {
            let Some(path) = path.filter(|path| self.on_host(path).is_none()) else {
                continue;
            };
            match read(&root.join(path.trim_start_matches('/'))) {
                Ok(content) => self.named.push(GivenFile { path, content }),
                Err(error) => {
                    let words = format!("cannot read {path} in {NAME}: {error}");
                    self.warnings.push(words);
                }
            }
        }
    }

    /// The configuration files: only those of the container, as in the original agent.
    /// Adds a warning for each configuration file of the host (below `root`) that the
    /// unit does not mount into the container.
    pub(crate) fn files(&self, root: &Path) -> ConfigFiles {
        let mut files = self.files.clone();
        for file in ConfigFiles::of_system(root).files {
            // The unit mounts a file of the host into the container under another name,
            // so compare the texts.
            if self.files.files.iter().any(|own| own.text == file.text) {
                continue;
            }
            let path = Path::new(&file.path).strip_prefix(root);
            let path = path.unwrap_or(Path::new(&file.path)).display();
            files.warnings.push(format!(
                "/{path} of the host is ignored: expected the settings in {NAME} -- mount the file into /etc/ironic-python-agent"
            ));
        }
        files
    }

    /// Sets the values of the environment, which any other source overrides.
    pub(crate) fn apply_environment(&self, params: &mut BootParams) {
        params.warnings.extend(self.warnings.iter().cloned());
        for (option, value) in self.environment.options() {
            let origin = Origin::File(ENVIRONMENT.to_owned());
            let ignored = params.apply_override(option, value, origin);
            params.warnings.extend(ignored);
        }
    }

    /// Changes the paths in the options that name files, for use in the host's root. The
    /// path of a file of the container becomes that of its copy. A path below the mount
    /// of the host's root becomes the path on the host.
    pub(crate) fn point_to_copies(&self, params: &mut BootParams) {
        for option in path_options(params) {
            // Paths from kernel arguments and `parameters.txt` are paths on the host
            // already.
            if let (Some(path), Origin::File(_)) = (&option.value, &option.origin) {
                let copy = || Path::new(STATE_DIRECTORY).join(copy_of(path));
                let path = self.on_host(path).unwrap_or_else(copy);
                option.value = Some(path.display().to_string());
            }
        }
    }

    /// The path on the host of a file that the container sees through the mount of the
    /// host's root.
    fn on_host(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path).strip_prefix(&self.host).ok()?;
        Some(Path::new("/").join(path))
    }

    /// Writes the copies of the files that the settings name. Only root may read them.
    /// Returns the faults, one line each.
    pub fn write_copies(&self, state: &Path) -> Vec<String> {
        let write = |file: &GivenFile| {
            let path = state.join(copy_of(&file.path));
            let error = private_file::write(&path, &file.content).err()?;
            Some(format!("cannot write {}: {error}", path.display()))
        };
        self.named.iter().filter_map(write).collect()
    }

    /// The certificates to trust in addition to those of the host.
    pub fn authorities(&self) -> Option<&GivenFile> {
        self.authorities.as_ref()
    }
}

/// The options that name a file.
fn path_options(params: &mut BootParams) -> [&mut Setting<Option<String>>; 5] {
    [
        &mut params.cafile,
        &mut params.certfile,
        &mut params.keyfile,
        &mut params.tls_cert_file,
        &mut params.tls_key_file,
    ]
}

/// The path of a copy below [`STATE_DIRECTORY`]. Leaves out `..`, so that every copy is
/// below that directory.
fn copy_of(path: &str) -> PathBuf {
    let names = Path::new(path).components();
    let names = names.filter(|part| matches!(part, Component::Normal(_)));
    Path::new(COPIES).join(names.collect::<PathBuf>())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let length = File::open(path)?
        .take(LARGEST + 1)
        .read_to_end(&mut content)?;
    match length as u64 > LARGEST {
        true => Err(io::Error::other(format!(
            "expected at most {LARGEST} bytes, found more"
        ))),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests;
