//! Opens the other paths to a disk.

use std::io;
use std::path::{Path, PathBuf};

use landfall_devices::disk_paths;
use nix::libc;

use super::{OpenPath, content};
use crate::device::busy::{Device, KernelView};

/// Another path to the disk is opened exclusively by another program.
#[derive(Debug)]
pub(crate) struct BusyPath(pub PathBuf);

/// Opens the other paths to a disk of `size` bytes, the active ones first. A path that
/// cannot be opened, or that shows other content than `first`, is left out: the disk is
/// written without it.
///
/// # Errors
/// If another program uses the disk by one of the paths.
pub(crate) fn open_others(
    kernel: &KernelView,
    disk: &Device,
    first: &OpenPath,
    size: u64,
    write: bool,
) -> Result<Vec<OpenPath>, BusyPath> {
    let mut others = match kernel.other_paths(disk) {
        Ok(others) => others,
        Err(error) => {
            tracing::warn!(
                "/dev/{}: cannot look for its other paths: {error}",
                disk.name
            );
            Vec::new()
        }
    };
    others.sort_by_key(|other| !disk_paths::is_active(&other.directory));
    let mut opened = Vec::new();
    for other in &others {
        let path = Path::new("/dev").join(&other.name);
        match open_other(kernel, disk, &path, write) {
            Ok(open) => opened.extend(compared(open, other, first, size)),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(BusyPath(path));
            }
            Err(error) => tracing::warn!(
                "{}: cannot open this path to /dev/{}, continuing without it: {error}",
                path.display(),
                disk.name
            ),
        }
    }
    Ok(opened)
}

/// `None` if the path shows other content than the first one. A path that is not active
/// is not read, because the read may wait until the path is given up.
fn compared(path: OpenPath, device: &Device, first: &OpenPath, size: u64) -> Option<OpenPath> {
    if !disk_paths::is_active(&device.directory) {
        return Some(path);
    }
    match content::is_same(&first.file, &path.file, size) {
        Ok(true) => Some(OpenPath {
            is_compared: true,
            ..path
        }),
        Ok(false) => {
            tracing::warn!(
                "{} and {} have the same name, serial number and size, but different content: they are not used as paths to one disk",
                first.path.display(),
                path.path.display()
            );
            None
        }
        Err(error) => {
            tracing::info!(
                "{}: cannot compare it with its other paths: {error}",
                path.path.display()
            );
            Some(path)
        }
    }
}

fn open_other(
    kernel: &KernelView,
    disk: &Device,
    path: &Path,
    write: bool,
) -> io::Result<OpenPath> {
    let opened = OpenPath::open(path, write)?;
    // The name may have changed its disk since. The number cannot while it is open.
    let found = kernel.device(&opened.file.metadata()?)?;
    let own = disk_paths::identity(&disk.directory);
    if own.is_some() && own == disk_paths::identity(&found.directory) {
        return Ok(opened);
    }
    Err(io::Error::other("it leads to another disk now"))
}
