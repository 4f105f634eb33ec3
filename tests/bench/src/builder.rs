//! Builds ramdisks and ISOs with the release build of landfall-image, and reads the
//! summaries that it prints.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use landfall_tests::artifacts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::measured::{self, Usage};

/// The built-in module sets that the bench builds.
const SETS: [&str; 2] = ["vm", "server"];

/// What a ramdisk is built of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) set: &'static str,
    pub(super) arch: &'static str,
    kernel: Kernel,
    agent: PathBuf,
    /// A folder with boot loaders, in place of the loaders of this machine.
    loaders: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kernel {
    /// A .deb file.
    Package(PathBuf),
    /// A folder into which the package was unpacked.
    Directory(PathBuf),
}

/// The fields of the builder's summary that the tables show.
#[derive(Debug, Deserialize)]
pub(super) struct Ramdisk {
    pub(super) kernel_release: String,
    pub(super) bytes: u64,
    /// The number of module files.
    pub(super) modules: usize,
    /// The number of firmware files.
    pub(super) firmware_files: usize,
    pub(super) memory_floor: MemoryFloor,
}

/// The least memory of a host, in MiB: to boot, and to write an image as well.
#[derive(Debug, Deserialize)]
pub(super) struct MemoryFloor {
    pub(super) boot_mib: u64,
    pub(super) deployment_mib: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Iso {
    pub(super) bytes: u64,
    pub(super) ramdisk: Ramdisk,
}

impl Target {
    /// Each module set with each kernel: Debian's cloud and generic kernels for x86-64,
    /// and the aarch64 kernel if `make aarch64` has downloaded it.
    pub(super) fn all() -> Result<Vec<Self>> {
        let mut targets = Vec::new();
        for package in [artifacts::kernel_deb()?, artifacts::generic_kernel_deb()?] {
            for set in SETS {
                targets.push(Self::x86_64(set, package.clone())?);
            }
        }
        let folder = artifacts::out_dir().join("aarch64");
        if folder.join("packages").is_dir() {
            let package = artifacts::kernel_deb_in(&folder.join("packages"))?;
            let agent = folder.join("landfall-agent");
            ensure!(
                agent.is_file(),
                "no agent for the kernel {}: expected {}, found no such file -- run make aarch64",
                package.display(),
                agent.display()
            );
            targets.extend(SETS.map(|set| Self {
                set,
                arch: "aarch64",
                kernel: Kernel::Package(package.clone()),
                agent: agent.clone(),
                loaders: Some(folder.join("system")),
            }));
        }
        Ok(targets)
    }

    /// The set for servers with the generic kernel. It has drivers for real hardware, which
    /// the cloud kernel lacks.
    pub(super) fn server() -> Result<Self> {
        Self::x86_64("server", artifacts::generic_kernel_deb()?)
    }

    fn x86_64(set: &'static str, package: PathBuf) -> Result<Self> {
        Ok(Self {
            set,
            arch: "x86_64",
            kernel: Kernel::Package(package),
            agent: artifacts::agent()?,
            loaders: None,
        })
    }

    /// Changes the target: the kernel is in a folder into which its package was unpacked.
    pub(super) fn unpacked_in(self, folder: &Path) -> Self {
        Self {
            kernel: Kernel::Directory(folder.to_owned()),
            ..self
        }
    }

    /// Builds the ramdisk with a cache in the folder `cache`; without a cache if it is
    /// `None`.
    pub(super) fn ramdisk(&self, cache: Option<&Path>, output: &Path) -> Result<(Usage, Ramdisk)> {
        summary(&mut self.command("initramfs", cache, output)?, output)
    }

    /// Builds the ISO. With `with_firmware`, it contains the firmware that this machine
    /// has.
    pub(super) fn iso(&self, cache: &Path, with_firmware: bool, output: &Path) -> Result<Iso> {
        let mut command = self.command("iso", Some(cache), output)?;
        if with_firmware {
            command.arg("--firmware").arg(firmware());
        }
        if let Some(folder) = &self.loaders {
            command.arg("--loader-dir").arg(folder);
        }
        Ok(summary(&mut command, output)?.1)
    }

    fn command(&self, name: &str, cache: Option<&Path>, output: &Path) -> Result<Command> {
        let mut command = Command::new(artifacts::release_builder()?);
        // Few build machines have firmware: it is in Debian's section non-free-firmware.
        command.args([name, "--json", "--force", "--allow-missing-firmware"]);
        command.args(["--module-set", self.set, "--arch", self.arch]);
        command.arg("--agent").arg(&self.agent);
        match &self.kernel {
            Kernel::Package(file) => command.arg("--kernel-deb").arg(file),
            Kernel::Directory(folder) => command.arg("--kernel-dir").arg(folder),
        };
        match cache {
            Some(folder) => command.arg("--cache-dir").arg(folder),
            None => command.arg("--no-cache"),
        };
        command.arg("-o").arg(output);
        Ok(command)
    }
}

/// The value of `--firmware`: the packages in out/packages/firmware, or the packages that
/// are installed on this machine.
fn firmware() -> OsString {
    let packages = artifacts::out_dir().join("packages/firmware");
    match packages.is_dir() {
        true => packages.into_os_string(),
        false => "debian".into(),
    }
}

fn summary<S: DeserializeOwned>(command: &mut Command, output: &Path) -> Result<(Usage, S)> {
    let folder = output.parent().context("the output has no folder")?;
    let (usage, printed) = measured::run_captured(command, folder)?;
    let summary = serde_json::from_str(&printed);
    let summary = summary.with_context(|| {
        format!("reading the summary: expected that of --json, found '{printed}'")
    })?;
    Ok((usage, summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read() {
        let iso: Iso = serde_json::from_str(
            r#"{"path": "a.iso", "bytes": 41650176, "ramdisk": {"bytes": 27347900,
            "kernel_release": "6.1.0-56-amd64", "modules": 485, "firmware_files": 0,
            "memory_floor": {"boot_mib": 317, "deployment_mib": 318}}}"#,
        )
        .unwrap();
        assert_eq!((iso.bytes, iso.ramdisk.bytes), (41_650_176, 27_347_900));
        assert_eq!(iso.ramdisk.memory_floor.deployment_mib, 318);
    }
}
