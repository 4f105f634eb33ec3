//! Finds a kernel and its modules in an installed package, a .deb or a directory.

mod debian_package;
mod directory;

use std::path::{Path, PathBuf};

use crate::free_space::NoSpace;
use crate::kernel_image::{KernelImage, KernelImageError};
use crate::path_error::PathError;
use crate::temporary::TemporaryPath;
pub(crate) use debian_package::unpack_deb;

/// How the user names a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// An installed Debian package. A meta package leads to the kernel package that
    /// it depends on.
    InstalledPackage(String),
    Deb(PathBuf),
    /// A directory that holds a kernel image and a module tree.
    Directory {
        path: PathBuf,
        /// The release to use if the directory holds several kernels.
        release: Option<String>,
    },
}

#[derive(Debug)]
pub struct Kernel {
    /// The file that a boot loader loads.
    pub image: PathBuf,
    /// The module directory: `/lib/modules/<release>`, or where it was unpacked.
    pub modules: PathBuf,
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// The kernel's `.config`, if there is one.
    pub config: Option<PathBuf>,
    /// The directory into which a .deb was unpacked. It is removed with this value.
    _unpacked: Option<TemporaryPath>,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelSourceError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Image(#[from] KernelImageError),
    /// A program that is part of every Debian system cannot be run.
    #[error("cannot run {program} (package {package})")]
    Program {
        program: &'static str,
        /// The Debian package that provides the program.
        package: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("kernel package `{name}` is not installed: {advice}")]
    NotInstalled {
        /// The name that the user gave.
        name: String,
        advice: String,
    },
    #[error(transparent)]
    Space(#[from] NoSpace),
    #[error("cannot unpack {path}: {fault}")]
    BadDeb {
        path: PathBuf,
        /// What dpkg-deb reports.
        fault: String,
    },
    /// A package or directory lacks the kernel image or the modules.
    #[error("{within}: expected {expected}, found {found}")]
    NotFound {
        /// The package or directory in which the builder looked.
        within: String,
        expected: String,
        found: String,
    },
    /// The image and the modules have different releases.
    #[error(
        "kernel image {image} is release {found}, expected {expected} like the modules in {modules}"
    )]
    ReleaseDiffers {
        image: PathBuf,
        found: String,
        expected: String,
        modules: PathBuf,
    },
}

impl KernelSource {
    /// Finds the kernel. A .deb is unpacked into a temporary directory. The error
    /// says what is missing and how to get it.
    pub fn resolve(&self) -> Result<Kernel, KernelSourceError> {
        match self {
            Self::InstalledPackage(name) => {
                let release = debian_package::installed_release(name)?;
                directory::find(Path::new("/"), Some(&release), None)
            }
            Self::Deb(path) => debian_package::resolve(path),
            Self::Directory { path, release } => directory::find(path, release.as_deref(), None),
        }
    }
}

impl Kernel {
    fn checked(self) -> Result<Self, KernelSourceError> {
        let image = KernelImage::read(&self.image)?;
        if image.release != self.release {
            return Err(KernelSourceError::ReleaseDiffers {
                image: self.image,
                found: image.release,
                expected: self.release,
                modules: self.modules,
            });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
