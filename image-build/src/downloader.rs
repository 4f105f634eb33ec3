//! The program of the downloader image: does what metal3's `get-resource.sh` does,
//! with the ramdisk that is in the image instead of one from a server.
//!
//! The image holds this program as [`PROGRAM_PATH`], because metal3 names that path in
//! its manifests. The kernel of the container host starts it without a shell.

mod old_folders;
mod publish;
mod request;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::statvfs::statvfs;

use crate::report;
use publish::{PublishError, Ramdisk};
use request::Request;

/// The path in the image, without the leading slash.
pub(crate) const PROGRAM_PATH: &str = "usr/local/bin/get-resource.sh";
/// The directory of kernel and ramdisk in the image, without the leading slash.
pub(crate) const DIRECTORY: &str = "usr/local/share/landfall";
/// The beginning of the name of a finished folder.
const FOLDER: &str = "landfall-";
/// The beginning of the names of unfinished folders and links.
const UNFINISHED: &str = ".landfall-";
pub(crate) const KERNEL: &str = "ironic-python-agent.kernel";
pub(crate) const RAMDISK: &str = "ironic-python-agent.initramfs";

/// Whether the program was started under the name that it has in the image.
pub(crate) fn is_called() -> bool {
    let name = std::env::args_os().next().unwrap_or_default();
    Path::new(&name).file_name() == Path::new(PROGRAM_PATH).file_name()
}

/// Publishes the ramdisk. All arguments are ignored: scripts that start the image
/// with podman pass the program's path once more.
pub(crate) fn run() -> Result<()> {
    let request = Request::read(|name| std::env::var_os(name))?;
    if !request.ignored.is_empty() {
        report::say(&format!(
            "{}: ignored, because the ramdisk is in this image and nothing is downloaded",
            request.ignored.join(", ")
        ));
    }
    let ramdisk = Ramdisk::read(&directory()?)?;
    let published = publish::publish(&ramdisk, &request, &report::say);
    published.map_err(|error| {
        let advice = advice(&error, &request.shared, ramdisk.size);
        match advice {
            Some(advice) => anyhow::Error::new(error).context(advice),
            None => error.into(),
        }
    })
}

/// The directory of kernel and ramdisk. Its place relative to the program is the same as
/// in the image.
fn directory() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the program's own path")?;
    let share = Path::new(DIRECTORY).file_name().map(OsStr::to_owned);
    let local = program.parent().and_then(Path::parent);
    let local = local.context("cannot find the directory of the ramdisk")?;
    Ok(local.join("share").join(share.unwrap_or_default()))
}

/// What an operator can do about a full or protected volume; `None` for other errors.
fn advice(error: &PublishError, shared: &Path, needed: u64) -> Option<String> {
    let fault = error.io_error()?.raw_os_error().map(Errno::from_raw)?;
    match fault {
        Errno::ENOSPC | Errno::EDQUOT => {
            let free = statvfs(shared).ok();
            let free = free.map_or_else(String::new, |info| {
                let bytes = info.blocks_available() * info.fragment_size();
                format!(", found {}", report::megabytes(bytes))
            });
            Some(format!(
                "{} is full: expected {} free{free}; the published ramdisk is unchanged",
                shared.display(),
                report::megabytes(needed)
            ))
        }
        Errno::EACCES | Errno::EPERM | Errno::EROFS => Some(format!(
            "uid {} cannot write to {} -- set fsGroup of the pod, or the owner of the volume",
            nix::unistd::getuid(),
            shared.display()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
