//! Checks whether the kernel can run the ramdisk, and whether firmware is missing.

use super::{BuildError, Recipe};
use crate::firmware::MissingFirmware;
use crate::kernel_config::{KernelConfig, Needs};
use crate::kernel_image::KernelImage;
use crate::kernel_modules::{ModuleTree, Selection};

/// Reads the kernel image and checks that it is for the architecture of the hosts.
pub(super) fn read_kernel(recipe: &Recipe<'_>) -> Result<KernelImage, BuildError> {
    let kernel = KernelImage::read(&recipe.kernel.image)?;
    if kernel.arch == recipe.arch {
        return Ok(kernel);
    }
    Err(BuildError::Arch {
        release: kernel.release,
        expected: recipe.arch,
        found: kernel.arch,
    })
}

pub(super) fn check_kernel(
    recipe: &Recipe<'_>,
    modules: &ModuleTree,
    selection: &Selection,
) -> Result<(Option<KernelConfig>, Vec<String>), BuildError> {
    let release = &recipe.kernel.release;
    let Some(path) = &recipe.kernel.config else {
        let warning = format!(
            "kernel {release} has no config file: the options that the ramdisk needs are not checked"
        );
        return Ok((None, vec![warning]));
    };
    let config = KernelConfig::read(path)?;
    let any_ends_with = |end| {
        selection
            .keys()
            .any(|name| modules.path_of(name).is_some_and(|p| p.ends_with(end)))
    };
    let needs = Needs {
        arch: recipe.arch,
        compression: recipe.compression,
        xz_modules: any_ends_with(".xz"),
        zstd_modules: any_ends_with(".zst"),
    };
    let (fatal, other): (Vec<_>, Vec<_>) = config
        .check(needs)
        .into_iter()
        .partition(|finding| finding.fatal);
    if !fatal.is_empty() {
        let faults = fatal.into_iter().map(|finding| finding.text).collect();
        return Err(BuildError::Kernel {
            release: release.clone(),
            faults,
        });
    }
    Ok((
        Some(config),
        other
            .into_iter()
            .map(|finding| format!("kernel {release}: {}", finding.text))
            .collect(),
    ))
}

/// A warning if the kernel lacks many modules. For example, Debian's `cloud` kernel boots
/// on a server but finds no disk.
pub(super) fn kernel_warning(recipe: &Recipe<'_>, modules: &ModuleTree) -> Option<String> {
    let missing = recipe.module_set.missing_in(modules)?;
    let warning = format!(
        "kernel {} has no modules for {} of the {} entries of the module set {}, such as {}: it is probably made for virtual machines -- use a complete kernel (in Debian linux-image-{})",
        recipe.kernel.release,
        missing.missing.len(),
        missing.lines,
        missing.set,
        missing.missing.first().map_or("", String::as_str),
        recipe.arch.debian(),
    );
    Some(warning)
}

pub(super) fn require_firmware(missing: &[MissingFirmware]) -> Result<(), BuildError> {
    let needed = missing.iter().filter(|missing| missing.needed);
    let mut drivers: Vec<String> = needed
        .map(|missing| match &missing.package {
            Some(package) => format!("{} ({package})", missing.driver),
            None => missing.driver.clone(),
        })
        .collect();
    drivers.dedup();
    match drivers.is_empty() {
        true => Ok(()),
        false => Err(BuildError::Firmware { drivers }),
    }
}

/// The builder warns, because the fault is harder to find on the host: a card without
/// firmware has no link, which looks like a missing cable. The agent can name the
/// firmware file only as long as the driver's message is in the kernel log.
pub(super) fn firmware_warnings(missing: &[MissingFirmware]) -> Vec<String> {
    let mut warnings: Vec<String> = missing.iter().map(ToString::to_string).collect();
    if missing.iter().any(|missing| missing.package.is_some()) {
        let advice = "firmware: the ramdisk lacks files that Debian packages have -- install the packages that your hosts need, and pass --firmware debian";
        warnings.push(advice.to_owned());
    }
    warnings
}
