//! Unpacks the kernel packages of RHEL, CentOS Stream and Fedora.
//!
//! A kernel is divided into several packages: `kernel-core` has the image;
//! `kernel-modules-core`, `kernel-modules` and `kernel-modules-extra` have the drivers.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::{Kernel, KernelSourceError, directory};
use crate::free_space;
use crate::newc::Member;
use crate::path_error::PathError;
use crate::rpm::{Package, Payload, RpmError};
use crate::temporary::TemporaryPath;

/// The end of the names in dependencies between kernel packages, such as
/// `kernel-modules-core-uname-r` (redhat/kernel.spec of the kernel-ark tree).
const SAME_KERNEL: &str = "-uname-r";

type KernelPackage = Package<BufReader<File>>;

pub(super) fn resolve(
    paths: &[PathBuf],
    release: Option<&str>,
) -> Result<Kernel, KernelSourceError> {
    let packages = paths.iter().map(|path| Ok((path.as_path(), open(path)?)));
    let packages: Vec<(&Path, KernelPackage)> =
        packages.collect::<Result<_, KernelSourceError>>()?;
    require_all_parts(&packages)?;
    let sizes = packages
        .iter()
        .map(|(_, package)| package.installed_bytes());
    let needed = sizes.fold(0, u64::saturating_add);
    let named = super::names(paths);
    free_space::require(&std::env::temp_dir(), needed, &format!("unpacking {named}"))?;
    let unpacked = TemporaryPath::directory("landfall-kernel-")
        .map_err(PathError::new("cannot make", std::env::temp_dir()))?;
    let top = unpacked.path().to_owned();
    for (path, package) in packages {
        unpack(path, package, &top)?;
    }
    directory::find(&top, release, Some(unpacked)).map_err(|error| match error {
        // Name the packages in the error, because the temporary directory means nothing
        // to the user.
        KernelSourceError::NotFound {
            expected, found, ..
        } => KernelSourceError::NotFound {
            within: named,
            expected,
            found,
        },
        error => error,
    })
}

fn bad(path: &Path) -> impl FnOnce(RpmError) -> KernelSourceError {
    move |source| KernelSourceError::BadRpm {
        path: path.to_owned(),
        source,
    }
}

fn open(path: &Path) -> Result<KernelPackage, KernelSourceError> {
    super::require_file(path, ".rpm")?;
    let file = File::open(path).map_err(PathError::new("cannot open kernel package", path))?;
    Package::open(BufReader::new(file)).map_err(bad(path))
}

/// Fails if a package needs a part of the kernel that no given package provides. Without
/// its modules a kernel boots, but finds neither disk nor network.
fn require_all_parts(packages: &[(&Path, KernelPackage)]) -> Result<(), KernelSourceError> {
    let all = packages.iter();
    let provided: BTreeSet<&String> = all.flat_map(|(_, package)| package.provides()).collect();
    for (path, package) in packages {
        let mut needs = package.requires().iter();
        // A dependency with a condition in parentheses does not end with this text.
        if let Some(missing) =
            needs.find(|need| need.ends_with(SAME_KERNEL) && !provided.contains(need))
        {
            return Err(KernelSourceError::MissingPart {
                path: path.to_path_buf(),
                package: package.name().to_owned(),
                missing: missing.clone(),
            });
        }
    }
    Ok(())
}

/// Writes the kernel and its modules below `top`.
fn unpack(path: &Path, package: KernelPackage, top: &Path) -> Result<(), KernelSourceError> {
    let mut payload = package.payload().map_err(bad(path))?;
    let mut several: HashMap<u32, SeveralNames> = HashMap::new();
    while let Some(member) = payload.next_member().map_err(bad(path))? {
        let file = place(&member);
        if let Some(file) = &file
            && top.join(file).exists()
        {
            return Err(KernelSourceError::Twice {
                path: path.to_owned(),
                file: file.clone(),
            });
        }
        let to = if member.is_file() && member.links > 1 {
            let names = several.entry(member.inode).or_default();
            names.waiting.extend(file);
            if member.size == 0 {
                continue;
            }
            names.has_content = true;
            // The builder may not need the name that has the content. So write the
            // content under a name that it needs.
            names.waiting.pop()
        } else {
            file
        };
        let Some(file) = to else {
            continue;
        };
        let to = top.join(&file);
        write(&mut payload, &to).map_err(|error| match error {
            Fault::Payload(source) => bad(path)(RpmError::Io {
                part: "payload",
                source,
            }),
            Fault::Output(error) => error.into(),
        })?;
        if let Some(names) = several.get_mut(&member.inode)
            && member.links > 1
        {
            names.written = Some(to);
        }
    }
    for names in several.into_values() {
        names.write(path, top)?;
    }
    Ok(())
}

/// A file with several names. The archive has the content at the last name.
#[derive(Default)]
struct SeveralNames {
    /// The names that the builder needs and that have no content yet.
    waiting: Vec<String>,
    /// The name that has the content.
    written: Option<PathBuf>,
    /// Whether any of the names had content, including names that the builder does not
    /// need.
    has_content: bool,
}

impl SeveralNames {
    /// Writes the file under the waiting names.
    fn write(self, path: &Path, top: &Path) -> Result<(), KernelSourceError> {
        for file in self.waiting {
            let name = top.join(&file);
            make_parent(&name)?;
            let made = match &self.written {
                Some(written) => fs::hard_link(written, &name),
                // Fail here, because an empty driver would fail on the host.
                None if self.has_content => {
                    return Err(KernelSourceError::PassedOver {
                        path: path.to_owned(),
                        file,
                    });
                }
                None => File::create_new(&name).map(drop),
            };
            made.map_err(PathError::new("cannot write", &name))?;
        }
        Ok(())
    }
}

/// The path of a file of the package in the unpacked tree, if the builder needs the file:
/// `lib/modules/...` or `boot/...`. Links are not needed, because `build` and `source`
/// lead to other packages. Names with `..` or control characters are skipped; no kernel
/// package contains such names.
fn place(member: &Member) -> Option<String> {
    if !member.is_file() {
        return None;
    }
    let name = member.name.strip_prefix('.').unwrap_or(&member.name);
    let name = name.strip_prefix('/').unwrap_or(name);
    // Packages of one kernel may use `/lib/modules` or `/usr/lib/modules`.
    let name = name.strip_prefix("usr/").unwrap_or(name);
    let is_plain =
        |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control);
    let is_wanted = name.starts_with("lib/modules/") || name.starts_with("boot/");
    (is_wanted && name.split('/').all(is_plain)).then(|| name.to_owned())
}

/// The file at which a copy failed: the source or the destination.
enum Fault {
    Payload(io::Error),
    Output(PathError),
}

fn write(payload: &mut Payload, to: &Path) -> Result<(), Fault> {
    use std::io::{Read as _, Write as _};
    make_parent(to).map_err(Fault::Output)?;
    let failed = || PathError::new("cannot write", to);
    let mut file = File::create_new(to).map_err(|error| Fault::Output(failed()(error)))?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match payload.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Fault::Payload(error)),
        };
        let written = file.write_all(&buffer[..read]);
        written.map_err(|error| Fault::Output(failed()(error)))?;
    }
}

fn make_parent(path: &Path) -> Result<(), PathError> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(PathError::new("cannot make", parent))
}

#[cfg(test)]
mod tests;
