//! The root directory of a container, made of Debian packages.
//!
//! The packages' scripts do not run: building needs neither root nor a chroot, and gives
//! the same bytes everywhere. This module makes what the builder's programs need from
//! these scripts: the links of the merged /usr, the bundle of certificate authorities,
//! and dpkg's list of what is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use landfall_initramfs::path_error::PathError;

use crate::debian_package::{DebianPackage, DebianPackageError};
use crate::tar_tree::{Content, Node, TarTree, TreeError};

/// Directories that are links to directories of the same name in /usr. Packages of
/// Debian 12 still name files in them.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];
/// Files that nobody reads in a container. Copyright files stay: the licences ask for
/// them.
const LEFT_OUT: [&str; 5] = [
    "usr/share/info/",
    "usr/share/lintian/",
    "usr/share/locale/",
    "usr/share/man/",
    "usr/share/bug/",
];
const DOCUMENTATION: &str = "usr/share/doc/";
/// The authorities of the package ca-certificates, all of which Debian trusts by
/// default.
const AUTHORITIES: &str = "usr/share/ca-certificates/mozilla/";
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
/// The maximum size of one certificate in bytes.
const MAX_CERTIFICATE_BYTES: u64 = 1 << 20;
/// The depth to which directories are searched.
const MAX_DEPTH: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum DebianRootError {
    #[error(transparent)]
    Package(#[from] DebianPackageError),
    #[error("package {package}")]
    Content {
        package: String,
        #[source]
        source: TreeError,
    },
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(
        "package {package}: {path}: expected a file, a directory or a link, found another kind"
    )]
    Kind { package: String, path: String },
    #[error("package {package}: {path}: expected a name in UTF-8, found another one")]
    Name { package: String, path: String },
}

/// Makes the tree of these packages. They are unpacked below `work`, which must
/// stay there until the tree is written.
pub fn build(packages: &[DebianPackage], work: &Path) -> Result<TarTree, DebianRootError> {
    let mut tree = TarTree::default();
    for package in packages {
        let directory = work.join(&package.name);
        fs::create_dir_all(&directory).map_err(PathError::new("cannot make", &directory))?;
        package.unpack(&directory)?;
        let mut walk = Walk {
            package,
            tree: &mut tree,
            list: String::from("/.\n"),
        };
        walk.directory(&directory, "", 0)?;
        let list = walk.list;
        tree.text(&list_file(package), list)?;
    }
    for name in MERGED {
        tree.link(name, &format!("usr/{name}"))?;
        tree.directory(&format!("usr/{name}"), 0o755)?;
    }
    tree.text("var/lib/dpkg/status", status(packages))?;
    tree.text("var/lib/dpkg/info/format", "1\n")?;
    tree.directory("tmp", 0o1777)?;
    for (path, text) in [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        ("etc/group", "root:x:0:\n"),
    ] {
        if tree.get(path).is_none() {
            tree.text(path, text)?;
        }
    }
    add_bundle(&mut tree)?;
    Ok(tree)
}

/// Adds the files of one unpacked package to a tree.
struct Walk<'a> {
    package: &'a DebianPackage,
    tree: &'a mut TarTree,
    /// dpkg's list of the package's files.
    list: String,
}

impl Walk<'_> {
    fn directory(
        &mut self,
        directory: &Path,
        prefix: &str,
        depth: usize,
    ) -> Result<(), DebianRootError> {
        let listing = || PathError::new("cannot list", directory);
        let entries = directory.read_dir().map_err(listing())?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(listing())?;
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| DebianRootError::Name {
                package: self.package.name.clone(),
                path: path.display().to_string(),
            })?;
            let inside = format!("{prefix}{name}");
            self.list += &format!("/{inside}\n");
            self.entry(&path, &inside, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, inside: &str, depth: usize) -> Result<(), DebianRootError> {
        let metadata = path.symlink_metadata();
        let metadata = metadata.map_err(PathError::new("cannot look at", path))?;
        // Every file belongs to root, so a set-user-ID or set-group-ID bit would give
        // rights that Debian does not give.
        let mode = metadata.permissions().mode() & 0o1777;
        let place = merged(inside);
        let node = if metadata.is_dir() {
            if depth == MAX_DEPTH {
                return Err(self.kind(inside));
            }
            if !MERGED.contains(&inside) && !is_left_out(&format!("{place}/")) {
                self.tree
                    .directory(&place, mode)
                    .map_err(|source| self.content(source))?;
            }
            return self.directory(path, &format!("{inside}/"), depth + 1);
        } else if metadata.is_symlink() {
            let target = fs::read_link(path).map_err(PathError::new("cannot read", path))?;
            Node::Link {
                target: target.to_string_lossy().into_owned(),
            }
        } else if metadata.is_file() {
            Node::File {
                content: Content::on_disk(path)?,
                mode,
            }
        } else {
            return Err(self.kind(inside));
        };
        // Debian 13's base-files contains the links of the merged /usr, which `build`
        // adds in any case.
        if MERGED.contains(&inside) || is_left_out(&place) {
            return Ok(());
        }
        self.tree
            .add(&place, node)
            .map_err(|source| self.content(source))
    }

    fn content(&self, source: TreeError) -> DebianRootError {
        DebianRootError::Content {
            package: self.package.name.clone(),
            source,
        }
    }

    fn kind(&self, path: &str) -> DebianRootError {
        DebianRootError::Kind {
            package: self.package.name.clone(),
            path: path.to_owned(),
        }
    }
}

/// Where a path of a package is on a system with a merged /usr.
fn merged(path: &str) -> String {
    match path.split_once('/') {
        Some((first, _)) if MERGED.contains(&first) => format!("usr/{path}"),
        _ => path.to_owned(),
    }
}

fn is_left_out(path: &str) -> bool {
    let is_document =
        path.starts_with(DOCUMENTATION) && !path.ends_with('/') && !path.ends_with("/copyright");
    is_document || LEFT_OUT.iter().any(|start| path.starts_with(start))
}

fn list_file(package: &DebianPackage) -> String {
    let architecture = match package.is_multi_arch_same() {
        true => format!(":{}", package.architecture),
        false => String::new(),
    };
    format!("var/lib/dpkg/info/{}{architecture}.list", package.name)
}

/// dpkg's status file: the builder asks dpkg which package a file comes from, and
/// scanners for vulnerabilities read the file itself.
fn status(packages: &[DebianPackage]) -> String {
    let paragraphs = packages.iter().map(|package| {
        let (first, rest) = package.control.split_once('\n').unwrap_or_default();
        format!("{first}\nStatus: install ok installed\n{rest}\n")
    });
    paragraphs.collect()
}

/// Joins the authorities of ca-certificates, as its update-ca-certificates does.
fn add_bundle(tree: &mut TarTree) -> Result<(), DebianRootError> {
    let mut bundle = Vec::new();
    for (path, content) in tree.files() {
        if !path.starts_with(AUTHORITIES) || !path.ends_with(".crt") {
            continue;
        }
        if content.size() > MAX_CERTIFICATE_BYTES {
            let fault = format!("expected at most {MAX_CERTIFICATE_BYTES} bytes, found more");
            return Err(PathError::new("cannot read", path)(std::io::Error::other(fault)).into());
        }
        let mut reader = content.open()?;
        std::io::Read::read_to_end(&mut reader, &mut bundle)
            .map_err(PathError::new("cannot read", path))?;
        if !bundle.ends_with(b"\n") {
            bundle.push(b'\n');
        }
    }
    if !bundle.is_empty() {
        tree.text(BUNDLE, bundle)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
