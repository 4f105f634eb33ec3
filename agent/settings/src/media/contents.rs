//! Reads the wanted files of a medium, up to a size limit.

use std::path::{Component, Path};

use landfall_boot_params::agent_args::MAX_PARAMETERS;
use landfall_sys::private_file;

use super::volumes::Volume;

/// The directories of a medium whose files the agent copies.
const CONFIGURATION: [&str; 2] = ["etc/ironic-python-agent", "etc/ironic-python-agent.d"];
const NETWORK_DATA: &str = "openstack/latest/network_data.json";

/// In bytes: the size of the largest file that is copied. The bundle of a
/// distribution's certificate authorities has a quarter of that.
const FILE_LIMIT: u32 = 1 << 20;
/// At most this many files are copied from one directory.
const FILES: usize = 64;
/// In bytes: the size limit of the network data.
const NETWORK_DATA_LIMIT: u32 = 1 << 20;

/// Returns the content of `parameters.txt`; `None` if there is no such file.
pub(super) fn parameters(volume: &mut Volume) -> Result<Option<String>, String> {
    // The cast is lossless: at most 64 KiB.
    let bytes = volume.read("parameters.txt", MAX_PARAMETERS as u32)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the network data of the host; `None` if there is none.
pub(super) fn network_data(volume: &mut Volume) -> Result<Option<String>, String> {
    let Some(bytes) = volume.read(NETWORK_DATA, NETWORK_DATA_LIMIT)? else {
        return Ok(None);
    };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| volume.fault(&format!("{NETWORK_DATA}: expected UTF-8")))
}

/// Copies the files of the two directories to the same paths below `to`. Returns
/// the paths of the copied files, and the faults.
pub(super) fn copy_configuration(volume: &mut Volume, to: &Path) -> (Vec<String>, Vec<String>) {
    let (mut copied, mut faults) = (Vec::new(), Vec::new());
    for directory in CONFIGURATION {
        let mut names = match volume.files(directory) {
            Ok(names) => names,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        names.sort();
        if names.len() > FILES {
            faults.push(volume.fault(&format!(
                "{directory}: expected at most {FILES} files, found {}; the rest is ignored",
                names.len()
            )));
            names.truncate(FILES);
        }
        for name in names {
            match copy(volume, directory, &name, to) {
                Ok(()) => copied.push(format!("/{directory}/{name}")),
                Err(fault) => faults.push(fault),
            }
        }
    }
    // A parser that has failed gives the same fault for each file.
    faults.dedup();
    (copied, faults)
}

fn copy(volume: &mut Volume, directory: &str, name: &str, to: &Path) -> Result<(), String> {
    // A name on the medium may contain any bytes, so it must not lead to another
    // directory.
    let mut parts = Path::new(name).components();
    let plain = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(part)), None) if part == name
    );
    if !plain || name.chars().any(char::is_control) {
        return Err(volume.fault(&format!(
            "{directory}: {name:?} is not a valid file name; ignored"
        )));
    }
    let path = format!("{directory}/{name}");
    let Some(bytes) = volume.read(&path, FILE_LIMIT)? else {
        return Err(volume.fault(&format!("{path} is missing")));
    };
    // Only root may read the copy, because the file may hold a client's private
    // key.
    private_file::write(&to.join(&path), &bytes)
        .map_err(|error| format!("cannot write /{path}: {error}"))
}
