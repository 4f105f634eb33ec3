//! Asks dpkg and apt about kernel packages. Never downloads or installs
//! anything.

use std::path::Path;
use std::process::{Command, Output};

use super::{Kernel, KernelSourceError, directory};
use crate::free_space;
use crate::path_error::PathError;
use crate::temporary::{self, TemporaryPath};

/// The release of the kernel that an installed package has put into /boot. A meta
/// package has none, but depends on the package that does.
pub(super) fn installed_release(name: &str) -> Result<String, KernelSourceError> {
    if !is_package_name(name) {
        return Err(KernelSourceError::NotFound {
            within: format!("`{name}`"),
            expected: "a Debian package name such as linux-image-amd64".to_owned(),
            found: "another kind of text".to_owned(),
        });
    }
    if let Some(release) = release_in_files(name)? {
        return Ok(release);
    }
    let depends = run("dpkg-query", "dpkg", &["-W", "-f", "${Depends}", name])?;
    for dependency in kernel_packages(&String::from_utf8_lossy(&depends.stdout)) {
        if let Some(release) = release_in_files(&dependency)? {
            return Ok(release);
        }
    }
    Err(KernelSourceError::NotInstalled {
        name: name.to_owned(),
        advice: advice(name),
    })
}

/// Unpacks a .deb and finds the kernel in it.
pub(super) fn resolve(path: &Path) -> Result<Kernel, KernelSourceError> {
    let metadata = path.metadata();
    let metadata = metadata.map_err(PathError::new("cannot open kernel package", path))?;
    if !metadata.is_file() {
        return Err(KernelSourceError::NotFound {
            within: path.display().to_string(),
            expected: "a kernel package (.deb)".to_owned(),
            found: "no regular file".to_owned(),
        });
    }
    let temporary = std::env::temp_dir();
    let kib: Option<u64> = field(path, "Installed-Size")?.parse().ok();
    let needed = kib
        .and_then(|kib| kib.checked_mul(1024))
        .unwrap_or_default();
    free_space::require(&temporary, needed, &format!("unpacking {}", path.display()))?;
    let unpacked = unpack(path)?;
    let top = unpacked.path().to_owned();
    directory::find(&top, None, Some(unpacked)).map_err(|error| match error {
        // Name the .deb in the error, because the user does not know the temporary
        // directory.
        KernelSourceError::NotFound {
            expected, found, ..
        } => KernelSourceError::NotFound {
            within: path.display().to_string(),
            expected,
            found: found + &needed_package(path),
        },
        error => error,
    })
}

/// Text to add to the error if a .deb holds no kernel. linux-image-amd64, for
/// example, only depends on the package that holds one.
fn needed_package(path: &Path) -> String {
    let depends = field(path, "Depends").unwrap_or_default();
    match kernel_packages(&depends).first() {
        Some(package) => {
            format!(" -- it only depends on {package}; fetch that one (apt-get download {package})")
        }
        None => String::new(),
    }
}

/// A field of a .deb's control file; empty if the file does not have it.
fn field(path: &Path, name: &str) -> Result<String, KernelSourceError> {
    let path = path.to_string_lossy();
    let output = run("dpkg-deb", "dpkg", &["-f", &path, name])?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn unpack(path: &Path) -> Result<TemporaryPath, KernelSourceError> {
    let directory = TemporaryPath::directory("landfall-kernel-")
        .map_err(PathError::new("cannot make", std::env::temp_dir()))?;
    unpack_deb(path, directory.path())?;
    Ok(directory)
}

/// Runs `dpkg-deb -x`, which runs nothing in the package.
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
        .find_map(|path| path.strip_prefix("/boot/vmlinuz-").map(str::to_owned));
    Ok(release)
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

/// The kernel packages in a `Depends` field such as `linux-image-6.1.0-56-amd64 (=
/// 6.1.192-2), x | y`.
fn kernel_packages(depends: &str) -> Vec<String> {
    let words = depends
        .split([',', '|'])
        .filter_map(|item| item.split_whitespace().next());
    words
        .filter(|word| is_kernel(word))
        .map(str::to_owned)
        .collect()
}

fn is_kernel(package: &str) -> bool {
    package.starts_with("linux-image-") && is_package_name(package)
}

/// Whether the text is a valid package name (Debian Policy 5.6.1). Options and
/// paths are not, so they cannot pass for a package.
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
        ] {
            assert_eq!(kernel_packages(field), expected, "{field}");
        }
    }

    #[test]
    fn a_package_file_that_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("none.deb");
        let error = resolve(&missing).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(
            (error.to_string(), source.as_deref()),
            (
                format!("cannot open kernel package {}", missing.display()),
                Some("No such file or directory (os error 2)")
            )
        );
        let error = resolve(directory.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{}: expected a kernel package (.deb), found no regular file",
                directory.path().display()
            )
        );
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
