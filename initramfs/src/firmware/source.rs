//! Finds the sources of firmware files: Debian's packages, a directory, or none.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use super::debian_packages;
use crate::kernel_source::{KernelSourceError, unpack_deb};
use crate::path_error::PathError;
use crate::temporary::TemporaryPath;

/// Where Debian's packages and the kernel have firmware.
const SYSTEM: &str = "/lib/firmware";

/// The value of `--firmware`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FirmwareSource {
    #[default]
    None,
    /// The firmware packages of Debian that are installed on this machine. Other files
    /// in /lib/firmware are not used.
    Debian,
    /// A directory like /lib/firmware, or one with .deb files.
    Directory(PathBuf),
}

impl FromStr for FirmwareSource {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "none" => Self::None,
            "debian" => Self::Debian,
            path => Self::Directory(path.into()),
        })
    }
}

/// The files from which a build can choose firmware.
#[derive(Debug, Default)]
pub struct FirmwareFiles {
    /// If several directories have a file, the file in the first of these directories is
    /// used.
    pub(super) directories: Vec<PathBuf>,
    /// The only paths below the directories that may be used; `None` if all may be used.
    pub(super) only: Option<BTreeSet<String>>,
    /// The directory into which .deb files were unpacked. It is removed with this value.
    unpacked: Option<TemporaryPath>,
}

/// Why there is no firmware to choose from.
#[derive(Debug, thiserror::Error)]
pub enum FirmwareSourceError {
    /// The value of `--firmware` is neither `none` nor `debian`, so the builder uses it
    /// as the name of a directory. There is no such directory, or your user cannot read
    /// it.
    #[error(
        "cannot list the firmware in {}: {error} -- give none, debian, or a directory with firmware files or .deb files",
        path.display()
    )]
    Unlisted { path: PathBuf, error: io::Error },
    /// The directory for the unpacked .deb files cannot be made.
    #[error(transparent)]
    Path(#[from] PathError),
    /// One of the .deb files in the directory cannot be unpacked.
    #[error(transparent)]
    Package(#[from] KernelSourceError),
    /// The machine has no dpkg, so it is not a Debian machine. Give a directory with
    /// firmware files instead of `debian`.
    #[error("debian: cannot run dpkg-query (package dpkg)")]
    NoDpkg(#[source] io::Error),
}

impl FirmwareSource {
    /// Unpacks the .deb files in a directory, or queries dpkg for the files of Debian's
    /// packages.
    ///
    /// # Errors
    /// If the directory cannot be read, a temporary directory cannot be made, a .deb
    /// cannot be unpacked, or dpkg cannot be run.
    pub fn resolve(&self) -> Result<FirmwareFiles, FirmwareSourceError> {
        match self {
            Self::None => Ok(FirmwareFiles::default()),
            Self::Debian => Ok(FirmwareFiles {
                directories: vec![SYSTEM.into()],
                only: Some(of_installed_packages()?),
                unpacked: None,
            }),
            Self::Directory(directory) => in_directory(directory),
        }
    }
}

impl FirmwareFiles {
    /// All files of a directory.
    #[must_use]
    pub fn below(directory: &Path) -> Self {
        Self {
            directories: vec![directory.to_owned()],
            ..Self::default()
        }
    }

    /// Whether a file that was found may be used. A link in a package must not lead out
    /// of the unpacked packages, because the ramdisk would then contain another file of
    /// this machine.
    pub(super) fn has(&self, path: &str, file: &Path) -> bool {
        if self.only.as_ref().is_some_and(|only| !only.contains(path)) {
            return false;
        }
        let Some(unpacked) = &self.unpacked else {
            return true;
        };
        match (unpacked.path().canonicalize(), file.canonicalize()) {
            (Ok(top), Ok(file)) => file.starts_with(top),
            _ => false,
        }
    }

    /// The directories that contain the files. Packages have up to two of them.
    #[must_use]
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }
}

fn in_directory(directory: &Path) -> Result<FirmwareFiles, FirmwareSourceError> {
    let listing = fs::read_dir(directory).map_err(|error| FirmwareSourceError::Unlisted {
        path: directory.to_owned(),
        error,
    })?;
    let paths = listing.filter_map(|entry| Some(entry.ok()?.path()));
    let mut packages: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "deb"))
        .collect();
    if packages.is_empty() {
        return Ok(FirmwareFiles::below(directory));
    }
    // No two packages have the same path, so the order does not change the result.
    packages.sort();
    let unpacked = TemporaryPath::directory("landfall-firmware-")
        .map_err(PathError::new("cannot make", std::env::temp_dir()))?;
    for package in &packages {
        unpack_deb(package, unpacked.path())?;
    }
    // Packages of Debian 13 have all files below /usr. The directory may contain packages
    // of Debian 12 and of Debian 13.
    let places = ["usr/lib/firmware", "lib/firmware"].map(|place| unpacked.path().join(place));
    Ok(FirmwareFiles {
        directories: places.into_iter().filter(|place| place.is_dir()).collect(),
        only: None,
        unpacked: Some(unpacked),
    })
}

/// The paths below /lib/firmware that belong to installed firmware packages.
fn of_installed_packages() -> Result<BTreeSet<String>, FirmwareSourceError> {
    let mut command = Command::new("dpkg-query");
    command.arg("-L").args(debian_packages::names());
    // If one of the packages is not installed, dpkg-query fails but still lists the
    // others.
    let output = command.env("LC_ALL", "C").output();
    let output = output.map_err(FirmwareSourceError::NoDpkg)?;
    Ok(below_firmware(&String::from_utf8_lossy(&output.stdout)))
}

fn below_firmware(listing: &str) -> BTreeSet<String> {
    let paths = listing.lines().filter_map(|path| {
        let path = path.strip_prefix("/usr").unwrap_or(path);
        path.strip_prefix("/lib/firmware/")
    });
    paths.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firmware::{PackedFirmware, collect};
    use crate::kernel_modules::Selection;
    use crate::modinfo::ModInfo;

    #[test]
    fn words_are_sources() {
        for (text, expected) in [
            ("none", FirmwareSource::None),
            ("debian", FirmwareSource::Debian),
            ("./debian", FirmwareSource::Directory("./debian".into())),
            (SYSTEM, FirmwareSource::Directory(SYSTEM.into())),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn files_of_packages_of_both_debian_versions() {
        let listing = "/.\n/lib\n/lib/firmware\n/lib/firmware/bnx2\n/lib/firmware/bnx2/a.fw\n\
            /usr/lib/firmware/intel/ice.pkg\n/usr/share/doc/firmware-bnx2/copyright\n";
        let found: Vec<String> = below_firmware(listing).into_iter().collect();
        assert_eq!(found, ["bnx2", "bnx2/a.fw", "intel/ice.pkg"]);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error() {
        let source = FirmwareSource::Directory("/nonexistent/firmware".into());
        let error = source.resolve().unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot list the firmware in /nonexistent/firmware: No such file or directory (os error 2) -- give none, debian, or a directory with firmware files or .deb files"
        );
    }

    #[test]
    fn packages_in_a_directory_are_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), "acme", "usr/lib/firmware/acme/nic.bin");
        let firmware = tree.join("usr/lib/firmware/acme");
        for (link, to) in [("link.bin", "nic.bin"), ("outside.bin", "/etc/passwd")] {
            std::os::unix::fs::symlink(to, firmware.join(link)).unwrap();
        }
        let packages = packed(dir.path(), &[tree]);
        let files = FirmwareSource::Directory(packages).resolve().unwrap();
        let directory = &files.directories()[0];
        assert_eq!(fs::read(directory.join("acme/nic.bin")).unwrap(), b"blob");
        let has = |path: &str| files.has(path, &directory.join(path));
        assert!(has("acme/nic.bin") && has("acme/link.bin"));
        assert!(!has("acme/outside.bin") && !has("acme/none.bin"));
    }

    /// Debian 12 has firmware in /lib, and Debian 13 in /usr/lib.
    #[test]
    fn packages_of_both_debian_versions_count() {
        let dir = tempfile::tempdir().unwrap();
        let trees = [
            tree(dir.path(), "new", "usr/lib/firmware/acme/new-1.bin"),
            tree(dir.path(), "old", "lib/firmware/acme/old.bin"),
            tree(dir.path(), "older", "lib/firmware/acme/new-2.bin"),
        ];
        let packages = packed(dir.path(), &trees);
        let files = FirmwareSource::Directory(packages).resolve().unwrap();
        let declared = ["acme/old.bin", "acme/new-*.bin", "acme/none.bin"];
        let info = ModInfo {
            firmware: declared.map(str::to_owned).to_vec(),
            ..ModInfo::default()
        };
        let selection = Selection::from([("acme".to_owned(), info)]);
        let firmware = collect(&selection, &files, PackedFirmware::default()).unwrap();
        let found: Vec<&String> = firmware.found.keys().collect();
        assert_eq!(found, ["acme/new-1.bin", "acme/new-2.bin", "acme/old.bin"]);
        assert!(firmware.found.values().all(|file| file.is_file()));
        let missing = ("acme".to_owned(), "acme/none.bin".to_owned());
        assert!(firmware.missing.iter().eq([&missing]), "{firmware:?}");
    }

    /// The files of a package with one firmware file.
    fn tree(dir: &Path, name: &str, firmware: &str) -> PathBuf {
        let tree = dir.join(name);
        let control = format!(
            "Package: firmware-{name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.com>\nDescription: x\n"
        );
        for (file, text) in [("DEBIAN/control", control.as_str()), (firmware, "blob")] {
            let path = tree.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        tree
    }

    /// A directory with a .deb of each tree.
    fn packed(dir: &Path, trees: &[PathBuf]) -> PathBuf {
        let packages = dir.join("packages");
        fs::create_dir(&packages).unwrap();
        for tree in trees {
            let name = tree.file_name().unwrap().to_str().unwrap();
            let built = Command::new("dpkg-deb")
                .args(["--root-owner-group", "-b"])
                .args([tree, &packages.join(format!("firmware-{name}_1_all.deb"))])
                .output()
                .unwrap();
            assert!(built.status.success(), "{built:?}");
        }
        packages
    }
}
