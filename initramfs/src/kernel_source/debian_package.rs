//! Finds kernels in installed Debian packages and in .deb files, with the programs of
//! dpkg and apt. Never downloads or installs anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{Kernel, KernelSourceError, directory};
use crate::free_space;
use crate::path_error::PathError;
use crate::temporary::{self, TemporaryPath};

/// The maximum number of dependencies between a meta package and a kernel:
/// `linux-image-amd64` depends on `linux-image-VERSION`, which after Debian 13 depends on
/// `linux-binary-VERSION`.
const MAX_DEPENDENCIES: usize = 3;

/// The release of the kernel that belongs to an installed package. A meta package
/// contains no kernel, but depends on the package that does.
pub(super) fn installed_release(name: &str) -> Result<String, KernelSourceError> {
    if !is_package_name(name) {
        return Err(KernelSourceError::NotFound {
            within: format!("`{name}`"),
            expected: "a Debian package name such as linux-image-amd64".to_owned(),
            found: "another kind of text".to_owned(),
        });
    }
    let mut packages = BTreeSet::from([name.to_owned()]);
    for _ in 0..=MAX_DEPENDENCIES {
        let mut needed = BTreeSet::new();
        for package in &packages {
            if let Some(release) = release_in_files(package)? {
                return Ok(release);
            }
            let depends = run(
                "dpkg-query",
                "dpkg",
                &["-W", "-f", "${Depends}", package.as_str()],
            )?;
            needed.extend(kernel_packages(&String::from_utf8_lossy(&depends.stdout)));
        }
        packages = needed;
    }
    Err(KernelSourceError::NotInstalled {
        name: name.to_owned(),
        advice: advice(name),
    })
}

/// Unpacks the packages and finds the kernel in them.
pub(super) fn resolve(paths: &[PathBuf]) -> Result<Kernel, KernelSourceError> {
    let mut needed: u64 = 0;
    for path in paths {
        super::require_file(path, ".deb")?;
        let kib: u64 = field(path, "Installed-Size")?.parse().unwrap_or_default();
        needed = needed.saturating_add(kib.saturating_mul(1024));
    }
    let named = super::names(paths);
    free_space::require(&std::env::temp_dir(), needed, &format!("unpacking {named}"))?;
    let unpacked = TemporaryPath::directory("landfall-kernel-")
        .map_err(PathError::new("cannot make", std::env::temp_dir()))?;
    for path in paths {
        unpack_deb(path, unpacked.path())?;
    }
    let top = unpacked.path().to_owned();
    directory::find(&top, None, Some(unpacked)).map_err(|error| match error {
        // Name the packages in the error, because the temporary directory means nothing
        // to the user.
        KernelSourceError::NotFound {
            expected, found, ..
        } if expected == directory::ONE_KERNEL => KernelSourceError::NotFound {
            within: named,
            expected: "the packages of one kernel".to_owned(),
            found,
        },
        KernelSourceError::NotFound {
            expected, found, ..
        } => KernelSourceError::NotFound {
            within: named,
            expected,
            found: found + &needed_packages(paths),
        },
        error => error,
    })
}

/// Text to add to the error if the packages contain no kernel. For example,
/// linux-image-amd64 only depends on the package that contains the kernel.
fn needed_packages(paths: &[PathBuf]) -> String {
    let depends = paths.iter().map(|path| field(path, "Depends"));
    let depends: Vec<String> = depends.flatten().collect();
    let mut needed = kernel_packages(&depends.join(", "));
    let given: Vec<String> = (paths.iter())
        .flat_map(|path| field(path, "Package"))
        .collect();
    needed.retain(|package| !given.contains(package));
    match needed.as_slice() {
        [] => String::new(),
        [one] => format!(" -- it only depends on {one}; fetch that one (apt-get download {one})"),
        several => {
            let several = several.join(" ");
            format!(
                " -- the kernel is in other packages; fetch them (apt-get download {several}), and give all with --kernel-deb"
            )
        }
    }
}

/// A field of a .deb's control file; empty if the file does not have it.
fn field(path: &Path, name: &str) -> Result<String, KernelSourceError> {
    let path = path.to_string_lossy();
    let output = run("dpkg-deb", "dpkg", &["-f", &path, name])?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `dpkg-deb -x`, which runs no script of the package.
pub(crate) fn unpack_deb(path: &Path, directory: &Path) -> Result<(), KernelSourceError> {
    let mut command = Command::new("dpkg-deb");
    command.arg("-x").arg(path).arg(directory);
    let output = temporary::run(&mut command);
    let output = output.map_err(|source| KernelSourceError::Program {
        program: "dpkg-deb",
        package: "dpkg",
        source,
    })?;
    if !output.status.success() {
        let fault = first_line(&String::from_utf8_lossy(&output.stderr));
        return Err(KernelSourceError::BadDeb {
            path: path.to_owned(),
            fault,
        });
    }
    Ok(())
}

/// Shortens the text to one line: tar(1) complains about each file.
fn first_line(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or("no reason given").trim().to_owned();
    match lines.count() {
        0 => first,
        1 => format!("{first} (and 1 more line)"),
        more => format!("{first} (and {more} more lines)"),
    }
}

fn release_in_files(package: &str) -> Result<Option<String>, KernelSourceError> {
    let listing = run("dpkg", "dpkg", &["-L", package])?;
    // dpkg -L also lists the files of a package that was removed but not purged, so
    // check that the file exists.
    let release = String::from_utf8_lossy(&listing.stdout)
        .lines()
        .filter(|path| Path::new(path).is_file())
        .find_map(release_of_image);
    Ok(release)
}

/// Debian's kernel is in /boot; after Debian 13 it is in the directory of its modules.
fn release_of_image(path: &str) -> Option<String> {
    let release = path.strip_prefix("/boot/vmlinuz-").or_else(|| {
        let path = path.strip_prefix("/usr").unwrap_or(path);
        path.strip_prefix("/lib/modules/")?.strip_suffix("/vmlinuz")
    });
    release.map(str::to_owned)
}

fn advice(name: &str) -> String {
    let real = run(
        "apt-cache",
        "apt",
        &["depends", "--no-recommends", "--no-suggests", name],
    )
    .ok()
    .filter(|output| output.status.success())
    .map(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "))
            .map(str::to_owned)
            .find(|p| is_kernel(p))
    });
    match real {
        Some(dependency) => {
            let real = dependency.unwrap_or_else(|| name.to_owned());
            format!(
                "install it (apt-get install {name}), or fetch it (apt-get download {real}) and pass the file with --kernel-deb"
            )
        }
        None => "apt finds no package of that name (apt-cache search linux-image lists kernels)"
            .to_owned(),
    }
}

/// The names of kernel packages in a `Depends` field such as `linux-image-6.1.0-56-amd64
/// (= 6.1.192-2), x | y`.
fn kernel_packages(depends: &str) -> Vec<String> {
    let words = depends
        .split([',', '|'])
        .filter_map(|item| item.split_whitespace().next());
    words
        .filter(|word| is_kernel(word))
        .map(str::to_owned)
        .collect()
}

/// Whether the package is a kernel or a part of a kernel. `linux-base` without a version
/// is not a part of a kernel.
fn is_kernel(package: &str) -> bool {
    let is_part = |prefix: &str| {
        let version = package.strip_prefix(prefix);
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    let parts = ["linux-binary-", "linux-modules-", "linux-base-"];
    let is_kernel = package.starts_with("linux-image-") || parts.into_iter().any(is_part);
    is_kernel && is_package_name(package)
}

/// Whether the text is a valid package name (Debian Policy 5.6.1). Options and paths are
/// not valid names, so this check rejects them.
fn is_package_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b))
}

fn run(
    program: &'static str,
    package: &'static str,
    arguments: &[&str],
) -> Result<Output, KernelSourceError> {
    Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .map_err(|source| KernelSourceError::Program {
            program,
            package,
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_in_a_depends_field() {
        for (field, expected) in [
            ("", &[][..]),
            (
                "linux-image-6.1.0-56-amd64 (= 6.1.192-2)",
                &["linux-image-6.1.0-56-amd64"],
            ),
            (
                "kmod, linux-base (>= 4.3~) | linux-image-x",
                &["linux-image-x"],
            ),
            (
                "linux-base-7.1-amd64 (= 7.1-1), linux-binary-7.1-amd64 (= 7.1-1)",
                &["linux-base-7.1-amd64", "linux-binary-7.1-amd64"],
            ),
        ] {
            assert_eq!(kernel_packages(field), expected, "{field}");
        }
    }

    #[test]
    fn a_package_file_that_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("none.deb");
        let error = resolve(std::slice::from_ref(&missing)).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(
            (error.to_string(), source.as_deref()),
            (
                format!("cannot open kernel package {}", missing.display()),
                Some("No such file or directory (os error 2)")
            )
        );
        let error = resolve(&[directory.path().to_owned()])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!(
                "{}: expected a kernel package (.deb), found no regular file",
                directory.path().display()
            )
        );
    }

    #[test]
    fn a_kernel_is_known_by_its_image() {
        for (path, release) in [
            ("/boot/vmlinuz-6.1.0-56-amd64", Some("6.1.0-56-amd64")),
            ("/usr/lib/modules/7.1-amd64/vmlinuz", Some("7.1-amd64")),
            ("/lib/modules/7.1-amd64/vmlinuz", Some("7.1-amd64")),
            ("/usr/lib/modules/7.1-amd64/modules.order", None),
            ("/boot/config-6.1.0-56-amd64", None),
        ] {
            assert_eq!(release_of_image(path).as_deref(), release, "{path}");
        }
    }

    #[test]
    fn one_line_has_no_plural() {
        for (text, expected) in [
            ("", "no reason given"),
            ("a\n", "a"),
            ("a\nb\n\n", "a (and 1 more line)"),
            ("a\nb\nc", "a (and 2 more lines)"),
        ] {
            assert_eq!(first_line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn package_names() {
        for (name, good) in [
            ("linux-image-amd64", true),
            ("--help", false),
            ("/boot", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_package_name(name), good, "{name}");
        }
    }

    #[test]
    fn a_package_that_is_not_there_comes_with_advice() {
        let error = installed_release("linux-image-none-such")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("kernel package `linux-image-none-such` is not installed: "),
            "{error}"
        );
    }
}
