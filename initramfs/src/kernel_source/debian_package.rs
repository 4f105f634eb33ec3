//! Asks dpkg and apt about kernel packages. Nothing is downloaded or installed here.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::KernelSourceError;
use crate::path_error::PathError;

/// The release of the kernel that an installed package, or the one a meta package
/// depends on, has put into /boot.
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

/// Unpacks a .deb as `dpkg-deb -x` does; nothing in it is run.
pub(super) fn unpack(path: &Path) -> Result<TempDir, KernelSourceError> {
    if !path.is_file() {
        return Err(PathError::new("opening", path)(std::io::ErrorKind::NotFound.into()).into());
    }
    let directory = TempDir::with_prefix("landfall-kernel-")
        .map_err(PathError::new("making", std::env::temp_dir()))?;
    let output = Command::new("dpkg-deb")
        .arg("-x")
        .arg(path)
        .arg(directory.path())
        .output();
    let output = output.map_err(|source| KernelSourceError::Program {
        program: "dpkg-deb",
        package: "dpkg",
        source,
    })?;
    if !output.status.success() {
        let fault = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(KernelSourceError::BadDeb {
            path: path.to_owned(),
            fault,
        });
    }
    Ok(directory)
}

fn release_in_files(package: &str) -> Result<Option<String>, KernelSourceError> {
    let listing = run("dpkg", "dpkg", &["-L", package])?;
    // dpkg -L lists the files of a package that was removed but not purged, too: ask for the file itself.
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
        None => "apt knows no package of that name (apt-cache search linux-image lists kernels)"
            .to_owned(),
    }
}

/// The kernels in a `Depends` field: `linux-image-6.1.0-56-amd64 (= 6.1.192-2), x | y`.
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

/// Debian Policy 5.6.1; keeps options and paths from being taken for packages.
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
