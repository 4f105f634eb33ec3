//! Finds a kernel and its modules in an installed package, in package files (.deb or
//! .rpm), in a directory or in the running system.

mod debian_package;
mod directory;
mod rpm_packages;

use std::path::{Path, PathBuf};

use crate::free_space::NoSpace;
use crate::kernel_image::{KernelImage, KernelImageError};
use crate::path_error::PathError;
use crate::rpm::RpmError;
use crate::temporary::TemporaryPath;
pub(crate) use debian_package::unpack_deb;

/// The kernel as the user specifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// An installed Debian package. For a meta package, the kernel package that it
    /// depends on.
    InstalledPackage(String),
    /// One .deb, or the `linux-binary`, `linux-modules` and `linux-base` packages into
    /// which Debian divides its kernel after Debian 13.
    Debs(Vec<PathBuf>),
    /// The packages of one kernel of RHEL, CentOS Stream or Fedora: `kernel-core`,
    /// `kernel-modules-core`, `kernel-modules` and so on.
    Rpms {
        paths: Vec<PathBuf>,
        /// The release to use if the packages hold several kernels.
        release: Option<String>,
    },
    /// The kernel that runs on this machine, from /usr/lib/modules and /boot.
    Running,
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
    /// The directory into which packages were unpacked. It is removed with this value.
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
    /// The file of `--kernel-rpm` is not a package of RPM 4, or it is damaged. The text
    /// after the colon says which.
    #[error("cannot read RPM package {path}")]
    BadRpm {
        path: PathBuf,
        #[source]
        source: RpmError,
    },
    /// A needed part of the kernel is missing, so drivers would be missing. The name of
    /// the missing package is usually the printed name without `-uname-r`:
    /// `kernel-modules-core` provides `kernel-modules-core-uname-r`. Also give the file
    /// of that package, in the same version.
    #[error(
        "{path}: {package} needs `{missing}`, which none of the packages provides -- give that package with --kernel-rpm, too"
    )]
    MissingPart {
        path: PathBuf,
        package: String,
        missing: String,
    },
    /// Two of the packages contain the same file: the same package was given twice, or
    /// the packages are two builds of the same version. Give each package once.
    #[error("{path}: expected files that no other package has, found {file} again")]
    Twice {
        path: PathBuf,
        /// The path in the package.
        file: String,
    },
    /// A file in the package has several names, and the archive has its content before
    /// the last name. rpmbuild writes no such archive: build the package again with
    /// rpmbuild.
    #[error(
        "{path}: expected the content of {file} at the last name of the file, found it at an earlier one"
    )]
    PassedOver {
        path: PathBuf,
        /// The path in the package.
        file: String,
    },
    /// The system does not report which kernel it runs.
    #[error("cannot find out the release of the running kernel")]
    Uname(#[source] std::io::Error),
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
    /// Finds the kernel. Package files are unpacked into a temporary directory. The error
    /// contains the fault and, if known, what to do about it.
    pub fn resolve(&self) -> Result<Kernel, KernelSourceError> {
        match self {
            Self::InstalledPackage(name) => {
                let release = debian_package::installed_release(name)?;
                directory::find(Path::new("/"), Some(&release), None)
            }
            Self::Debs(paths) => debian_package::resolve(paths),
            Self::Rpms { paths, release } => rpm_packages::resolve(paths, release.as_deref()),
            Self::Running => running(),
            Self::Directory { path, release } => directory::find(path, release.as_deref(), None),
        }
    }
}

/// CoreOS and RHEL keep the image next to the modules. Debian has it in /boot.
fn running() -> Result<Kernel, KernelSourceError> {
    let name = nix::sys::utsname::uname();
    let name = name.map_err(|error| KernelSourceError::Uname(error.into()))?;
    let release = name.release().to_string_lossy().into_owned();
    directory::find(Path::new("/"), Some(&release), None).map_err(|error| match error {
        KernelSourceError::NotFound {
            expected, found, ..
        } => KernelSourceError::NotFound {
            within: format!("running kernel {release}"),
            expected,
            found: found
                + " -- in a container, give it the host's /usr/lib/modules (-v /usr/lib/modules:/usr/lib/modules:ro)",
        },
        error => error,
    })
}

/// Fails unless this is a regular file: a read from a pipe could wait forever.
fn require_file(path: &Path, kind: &str) -> Result<(), KernelSourceError> {
    let metadata = path.metadata();
    let metadata = metadata.map_err(PathError::new("cannot open kernel package", path))?;
    match metadata.is_file() {
        true => Ok(()),
        false => Err(KernelSourceError::NotFound {
            within: path.display().to_string(),
            expected: format!("a kernel package ({kind})"),
            found: "no regular file".to_owned(),
        }),
    }
}

fn names(paths: &[PathBuf]) -> String {
    let names = paths.iter().map(|path| path.display().to_string());
    names.collect::<Vec<_>>().join(", ")
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
