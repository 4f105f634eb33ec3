//! Where a kernel and its modules come from: an installed package, a .deb, a directory.

mod debian_package;
mod directory;

use std::path::{Path, PathBuf};

use crate::free_space::NoSpace;
use crate::kernel_image::{KernelImage, KernelImageError};
use crate::path_error::PathError;
use crate::temporary::TemporaryPath;

/// How the user names a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// A Debian package that is installed; a meta package is followed.
    InstalledPackage(String),
    /// A .deb file.
    Deb(PathBuf),
    /// A directory that holds a kernel image and a module tree.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Which kernel, if it holds several.
        release: Option<String>,
    },
}

/// A kernel, found.
#[derive(Debug)]
pub struct Kernel {
    /// The bootable file.
    pub image: PathBuf,
    /// `/lib/modules/<release>`, wherever it is unpacked.
    pub modules: PathBuf,
    /// `uname -r`.
    pub release: String,
    /// The configuration, if it is there.
    pub config: Option<PathBuf>,
    /// Where a package was unpacked; removed with this value.
    _unpacked: Option<TemporaryPath>,
}

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelSourceError {
    /// A file.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The image.
    #[error(transparent)]
    Image(#[from] KernelImageError),
    /// A program that is part of every Debian system cannot be run.
    #[error("running {program} (package {package})")]
    Program {
        /// The program.
        program: &'static str,
        /// What brings it.
        package: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// dpkg does not know it as installed.
    #[error("kernel package `{name}` is not installed: {advice}")]
    NotInstalled {
        /// As asked for.
        name: String,
        /// What to do.
        advice: String,
    },
    /// The room to unpack it.
    #[error(transparent)]
    Space(#[from] NoSpace),
    /// The .deb cannot be unpacked.
    #[error("unpacking {path}: {fault}")]
    BadDeb {
        /// The file.
        path: PathBuf,
        /// What dpkg-deb says.
        fault: String,
    },
    /// It is not in there.
    #[error("{within}: expected {expected}, found {found}")]
    NotFound {
        /// Where it was looked for.
        within: String,
        /// What.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The image is of another release than the modules.
    #[error(
        "kernel image {image} is release {found}, expected {expected} as its modules in {modules}"
    )]
    ReleaseDiffers {
        /// The image.
        image: PathBuf,
        /// The image's release.
        found: String,
        /// The modules' release.
        expected: String,
        /// The module directory.
        modules: PathBuf,
    },
}

impl KernelSource {
    /// Finds the kernel; a .deb is unpacked into a temporary directory.
    ///
    /// # Errors
    /// [`KernelSourceError`] that says what is missing and how to get it.
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
