//! Reads Debian packages with dpkg-deb, which runs nothing in them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use landfall_initramfs::digest_writer::DigestWriter;
use landfall_initramfs::path_error::PathError;
use landfall_initramfs::temporary;

/// The maximum size in bytes of the control data of a package. The control data of
/// Debian's largest packages has some 10 KB.
const MAX_CONTROL_BYTES: usize = 1 << 20;

/// A package file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebianPackage {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// The whole control paragraph, ended by a newline.
    pub control: String,
    pub file: PathBuf,
    /// The digest of the file in hexadecimal.
    pub sha256: String,
}

#[derive(Debug, thiserror::Error)]
pub enum DebianPackageError {
    #[error("cannot run dpkg-deb (package dpkg)")]
    Program(#[source] std::io::Error),
    #[error("{path}: expected a Debian package, found another file: {fault}")]
    NoPackage {
        path: PathBuf,
        /// What dpkg-deb reports, or what is missing.
        fault: String,
    },
    #[error("cannot unpack {path}: {fault}")]
    Unpack {
        path: PathBuf,
        /// What dpkg-deb reports.
        fault: String,
    },
    #[error("{path}: expected at least one Debian package (.deb), found none")]
    None { path: PathBuf },
    #[error("package {name}: {first} and {second} are both given -- give one of them")]
    Twice {
        name: String,
        first: PathBuf,
        second: PathBuf,
    },
    #[error(transparent)]
    Path(#[from] PathError),
}

impl DebianPackage {
    /// Reads name, version and digest of a package file.
    pub fn read(file: &Path) -> Result<Self, DebianPackageError> {
        let sha256 = digest(file)?;
        let output = dpkg_deb(Command::new("dpkg-deb").arg("--field").arg(file))?;
        let no_package = |fault: String| DebianPackageError::NoPackage {
            path: file.to_owned(),
            fault,
        };
        if !output.status.success() {
            return Err(no_package(first_line(&output.stderr)));
        }
        if output.stdout.len() > MAX_CONTROL_BYTES {
            return Err(no_package(format!(
                "control data of more than {MAX_CONTROL_BYTES} bytes"
            )));
        }
        let control = String::from_utf8_lossy(&output.stdout).into_owned();
        let required = |name: &str| {
            let value = field(&control, name);
            value.ok_or_else(|| no_package(format!("no field {name}")))
        };
        let name = required("Package")?;
        if !is_package_name(name) {
            return Err(no_package(format!("the package name {name:?}")));
        }
        Ok(Self {
            name: name.to_owned(),
            version: required("Version")?.to_owned(),
            architecture: required("Architecture")?.to_owned(),
            control: control.trim_end().to_owned() + "\n",
            file: file.to_owned(),
            sha256,
        })
    }

    /// Reads several packages, sorted by name. A directory stands for the .deb
    /// files in it.
    pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Self>, DebianPackageError> {
        let mut packages: Vec<Self> = Vec::new();
        for path in paths {
            for file in files(path)? {
                packages.push(Self::read(&file)?);
            }
        }
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        for pair in packages.windows(2) {
            if let [first, second] = pair
                && first.name == second.name
            {
                return Err(DebianPackageError::Twice {
                    name: first.name.clone(),
                    first: first.file.clone(),
                    second: second.file.clone(),
                });
            }
        }
        Ok(packages)
    }

    /// Unpacks the files of the package into a directory.
    pub fn unpack(&self, directory: &Path) -> Result<(), DebianPackageError> {
        let mut command = Command::new("dpkg-deb");
        let output = dpkg_deb(command.arg("--extract").arg(&self.file).arg(directory))?;
        if output.status.success() {
            return Ok(());
        }
        Err(DebianPackageError::Unpack {
            path: self.file.clone(),
            fault: first_line(&output.stderr),
        })
    }

    /// Whether packages of this name may be installed for several architectures at once.
    /// dpkg then writes the architecture into the names of its files about the package.
    pub(crate) fn is_multi_arch_same(&self) -> bool {
        field(&self.control, "Multi-Arch") == Some("same")
    }
}

/// Whether the text has only the characters that Debian Policy (5.6.1) allows in a
/// package name. The name becomes the name of a directory.
fn is_package_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b))
}

/// The first line of a field of a control paragraph.
fn field<'a>(control: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = control.lines();
    lines.find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.eq_ignore_ascii_case(name) && !value.trim().is_empty()).then(|| value.trim())
    })
}

/// The package files that a path stands for.
fn files(path: &Path) -> Result<Vec<PathBuf>, DebianPackageError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let listing = || PathError::new("cannot list", path);
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(listing())? {
        let file = entry.map_err(listing())?.path();
        if file.extension().is_some_and(|ending| ending == "deb") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(DebianPackageError::None {
            path: path.to_owned(),
        });
    }
    files.sort();
    Ok(files)
}

fn digest(file: &Path) -> Result<String, PathError> {
    let mut input = std::fs::File::open(file).map_err(PathError::new("cannot open", file))?;
    let mut digest = DigestWriter::new(std::io::sink());
    std::io::copy(&mut input, &mut digest).map_err(PathError::new("cannot read", file))?;
    Ok(digest.finish().1)
}

fn dpkg_deb(command: &mut Command) -> Result<Output, DebianPackageError> {
    temporary::run(command.env("LC_ALL", "C")).map_err(DebianPackageError::Program)
}

fn first_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("no reason given").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian_archive::{self, Control};
    use crate::tar_tree::TarTree;

    fn package(directory: &Path, name: &str, version: &str) -> PathBuf {
        let control = Control {
            package: name,
            version,
            architecture: "all",
            section: "admin",
            maintainer: "a <a@b>",
            homepage: None,
            depends: "",
            recommends: "",
            synopsis: "x",
            description: "",
        };
        let file = directory.join(format!("{name}_{version}.deb"));
        let out = std::fs::File::create(&file).unwrap();
        let mut tree = TarTree::default();
        tree.text(&format!("usr/share/{name}"), version).unwrap();
        debian_archive::write(out, &control, &tree, directory, 0).unwrap();
        file
    }

    #[test]
    fn packages_are_sorted_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let debs = directory.path().join("debs");
        std::fs::create_dir(&debs).unwrap();
        package(&debs, "b", "1");
        let a = package(&debs, "a", "2:3~4");
        std::fs::write(debs.join("Packages"), "not a package").unwrap();
        let packages = DebianPackage::read_all(std::slice::from_ref(&debs)).unwrap();
        let named: Vec<_> = packages
            .iter()
            .map(|package| (&*package.name, &*package.version, &*package.architecture))
            .collect();
        assert_eq!(named, [("a", "2:3~4", "all"), ("b", "1", "all")]);
        assert!(packages[0].control.starts_with("Package: a\n"));
        let out = directory.path().join("out");
        packages[0].unpack(&out).unwrap();
        let text = std::fs::read_to_string(out.join("usr/share/a")).unwrap();
        assert_eq!(text, "2:3~4");

        let twice = DebianPackage::read_all(&[debs, a]).unwrap_err().to_string();
        assert!(twice.starts_with("package a: "), "{twice}");
    }

    #[test]
    fn invalid_packages_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let none = DebianPackage::read_all(&[directory.path().to_owned()]);
        let none = none.unwrap_err().to_string();
        assert!(
            none.ends_with(": expected at least one Debian package (.deb), found none"),
            "{none}"
        );
        let file = directory.path().join("x.deb");
        std::fs::write(&file, "text").unwrap();
        let error = DebianPackage::read(&file).unwrap_err().to_string();
        let expected = ": expected a Debian package, found another file: ";
        assert!(error.contains(expected), "{error}");
        assert!(DebianPackage::read(Path::new("/no/such.deb")).is_err());
    }

    #[test]
    fn package_names() {
        for (name, good) in [
            ("libstdc++6", true),
            ("0ad", true),
            ("../x", false),
            ("a/b", false),
            ("-x", false),
            ("", false),
        ] {
            assert_eq!(is_package_name(name), good, "{name}");
        }
    }

    #[test]
    fn fields() {
        let control = "Package: a\nDepends: b,\n c\nMulti-Arch: same\nEmpty:\n";
        for (name, expected) in [
            ("package", Some("a")),
            ("Depends", Some("b,")),
            ("Multi-Arch", Some("same")),
            ("Empty", None),
            ("Version", None),
        ] {
            assert_eq!(field(control, name), expected, "{name}");
        }
    }
}
