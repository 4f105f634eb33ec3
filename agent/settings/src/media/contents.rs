//! Reads the wanted files of a medium, up to a size limit.

use std::path::{Component, Path, PathBuf};

use landfall_boot_params::agent_args::MAX_PARAMETERS;
use landfall_sys::private_file;

use super::volume_fault::{Reason, VolumeFault};
use super::volumes::Volume;

/// The directories of a medium whose files the agent copies.
const CONFIGURATION: [&str; 2] = ["etc/ironic-python-agent", "etc/ironic-python-agent.d"];
const NETWORK_DATA: &str = "openstack/latest/network_data.json";

/// In bytes: the size limit of a file that is copied, four times the size of a
/// distribution's bundle of certificate authorities.
const FILE_LIMIT: u32 = 1 << 20;
/// At most this many files are copied from one directory.
const FILES: usize = 64;
/// In bytes: the size limit of all copied files together, because they stay in memory
/// until they are written. Ironic's files have a few KiB.
const TOTAL_LIMIT: usize = 16 << 20;
/// In bytes: the size limit of the network data.
const NETWORK_DATA_LIMIT: u32 = 1 << 20;

/// Returns the content of `parameters.txt`; `None` if there is no such file.
pub(super) fn parameters(volume: &mut Volume) -> Result<Option<String>, VolumeFault> {
    // The cast is lossless: at most 64 KiB.
    let bytes = volume.read("parameters.txt", MAX_PARAMETERS as u32)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the network data of the host; `None` if there is none.
pub(super) fn network_data(volume: &mut Volume) -> Result<Option<String>, VolumeFault> {
    let Some(bytes) = volume.read(NETWORK_DATA, NETWORK_DATA_LIMIT)? else {
        return Ok(None);
    };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| volume.fault(Reason::NotUtf8(NETWORK_DATA)))
}

/// The configuration files of a medium.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    files: Vec<ConfigurationFile>,
    pub(super) faults: Vec<String>,
}

#[derive(Debug)]
struct ConfigurationFile {
    /// Without the slash at its beginning.
    path: String,
    bytes: Vec<u8>,
    node: PathBuf,
}

/// Reads the files of the two directories.
pub(super) fn configuration(volume: &mut Volume) -> Configuration {
    let mut configuration = Configuration::default();
    for directory in CONFIGURATION {
        if let Err(fault) = configuration.read(volume, directory) {
            configuration.faults.push(fault.to_string());
        }
    }
    // A parser that has failed gives the same fault for each file.
    configuration.faults.dedup();
    configuration
}

impl Configuration {
    fn read(&mut self, volume: &mut Volume, directory: &str) -> Result<(), VolumeFault> {
        let mut names = volume.files(directory)?;
        names.sort();
        if names.len() > FILES {
            let fault = volume.fault(Reason::TooManyFiles {
                directory: directory.to_owned(),
                limit: FILES,
                found: names.len(),
            });
            self.faults.push(fault.to_string());
            names.truncate(FILES);
        }
        for name in names {
            match file(volume, directory, &name) {
                Ok(file) if self.length() + file.bytes.len() > TOTAL_LIMIT => {
                    return Err(volume.fault(Reason::TooLarge {
                        directory: directory.to_owned(),
                        limit: TOTAL_LIMIT >> 20,
                        name,
                    }));
                }
                Ok(file) => self.files.push(file),
                Err(fault) => self.faults.push(fault.to_string()),
            }
        }
        Ok(())
    }

    fn length(&self) -> usize {
        self.files.iter().map(|file| file.bytes.len()).sum()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.faults.extend(other.faults);
    }

    /// Writes the files to the same paths below `to`. Returns the faults.
    pub(super) fn write(&self, to: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        for ConfigurationFile { path, bytes, node } in &self.files {
            // Only root may read the copy, because the file may hold a client's private
            // key.
            match private_file::write(&to.join(path), bytes) {
                Ok(()) => tracing::info!("/{path} copied from {}", node.display()),
                Err(error) => faults.push(format!("cannot write /{path}: {error}")),
            }
        }
        faults
    }
}

fn file(
    volume: &mut Volume,
    directory: &str,
    name: &str,
) -> Result<ConfigurationFile, VolumeFault> {
    // Reject a name that would lead to another directory: a name on the medium may
    // contain any bytes.
    let mut parts = Path::new(name).components();
    let plain = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(part)), None) if part == name
    );
    if !plain || name.chars().any(char::is_control) {
        return Err(volume.fault(Reason::FileName {
            directory: directory.to_owned(),
            name: name.to_owned(),
        }));
    }
    let path = format!("{directory}/{name}");
    let Some(bytes) = volume.read(&path, FILE_LIMIT)? else {
        return Err(volume.fault(Reason::Missing(path)));
    };
    Ok(ConfigurationFile {
        path,
        bytes,
        node: volume.node.clone(),
    })
}
