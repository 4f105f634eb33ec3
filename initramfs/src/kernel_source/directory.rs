//! Finds a kernel's image, modules and configuration in the directory layouts that
//! distributions use.

use std::path::{Path, PathBuf};

use super::{Kernel, KernelSourceError};
use crate::path_error::PathError;
use crate::temporary::TemporaryPath;

/// The expectation in an error if there are several kernels.
pub(super) const ONE_KERNEL: &str = "one kernel, or --kernel-release to choose one";

/// Looks below `top`, which has one of these layouts:
///
/// * a system or an unpacked package: `boot/vmlinuz-VER`, `[usr/]lib/modules/VER`;
/// * a kernel's `make tarbz2-pkg` or a hand-made directory: `vmlinuz[-VER]`,
///   `lib/modules/VER`;
/// * the module directory itself with the image inside, as in Fedora:
///   `VER/vmlinuz`.
pub(super) fn find(
    top: &Path,
    release: Option<&str>,
    unpacked: Option<TemporaryPath>,
) -> Result<Kernel, KernelSourceError> {
    let (release, modules) = module_directory(top, release)?;
    let image_names = [
        top.join(format!("boot/vmlinuz-{release}")),
        top.join(format!("vmlinuz-{release}")),
        modules.join("vmlinuz"),
        top.join("boot/vmlinuz"),
        top.join("vmlinuz"),
    ];
    let Some(image) = image_names.iter().find(|path| path.is_file()) else {
        return Err(KernelSourceError::NotFound {
            within: top.display().to_string(),
            expected: format!(
                "a kernel image (boot/vmlinuz-{release}, vmlinuz-{release} or vmlinuz)"
            ),
            found: "none".to_owned(),
        });
    };
    let config_names = [
        top.join(format!("boot/config-{release}")),
        top.join(format!("config-{release}")),
        modules.join("config"),
        top.join("config"),
    ];
    let config = config_names.into_iter().find(|path| path.is_file());
    Kernel {
        image: image.clone(),
        modules,
        release,
        config,
        _unpacked: unpacked,
    }
    .checked()
}

fn module_directory(
    top: &Path,
    release: Option<&str>,
) -> Result<(String, PathBuf), KernelSourceError> {
    let mut directories = Vec::new();
    if is_module_directory(top)
        && let Some(name) = top
            .canonicalize()
            .ok()
            .and_then(|path| path.file_name()?.to_str().map(str::to_owned))
    {
        directories.push((name, top.to_owned()));
    }
    for parent in ["lib/modules", "usr/lib/modules"] {
        let parent = top.join(parent);
        if !parent.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&parent).map_err(PathError::new("cannot list", &parent))? {
            let entry = entry.map_err(PathError::new("cannot list", &parent))?;
            // If /lib is a link to /usr/lib, both parent directories contain the same
            // directories.
            if let Ok(name) = entry.file_name().into_string()
                && is_module_directory(&entry.path())
                && !directories.iter().any(|(other, _)| *other == name)
            {
                directories.push((name, entry.path()));
            }
        }
    }
    directories.sort();
    let listed = || match directories.len() {
        0 => "none".to_owned(),
        _ => directories
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    };
    let fault = |expected| KernelSourceError::NotFound {
        within: top.display().to_string(),
        expected,
        found: listed(),
    };
    match (release, directories.as_slice()) {
        (Some(release), all) => all
            .iter()
            .find(|(name, _)| name == release)
            .cloned()
            .ok_or_else(|| {
                fault(format!(
                    "modules of kernel {release} (lib/modules/{release})"
                ))
            }),
        (None, [one]) => Ok(one.clone()),
        (None, []) => Err(fault("a module tree (lib/modules/VERSION)".to_owned())),
        (None, _) => Err(fault(ONE_KERNEL.to_owned())),
    }
}

fn is_module_directory(path: &Path) -> bool {
    path.join("kernel").is_dir() || path.join("modules.builtin").is_file()
}
