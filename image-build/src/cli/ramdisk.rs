//! The arguments of `landfall-image initramfs`, and of all commands that build a ramdisk.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Args;
use landfall_initramfs::arch::Arch;
use landfall_initramfs::build;
use landfall_initramfs::compress::Compression;
use landfall_initramfs::firmware::FirmwareSource;
use landfall_initramfs::kernel_source::KernelSource;
use landfall_initramfs::module_set::ModuleSet;
use landfall_initramfs::path_error;

use super::{HostArguments, OutputArguments};
use crate::ca_bundle::CaBundle;

const KERNEL: &str = "KERNEL (one of)";
const FIRMWARE: &str = "FIRMWARE";

/// Build the ramdisk: agent, kernel modules and firmware in one file.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image initramfs --agent PATH KERNEL [OPTIONS] -o initrd.img",
    after_help = "\
Example:
  landfall-image initramfs --agent ./landfall-agent \\
      --kernel-package linux-image-amd64 --module-set server \\
      --firmware debian -o initrd.img

The same input gives the same bytes: every timestamp in the image is
SOURCE_DATE_EPOCH, or 0."
)]
pub(crate) struct InitramfsArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// What a ramdisk is made of.
#[derive(Debug, Args)]
pub(crate) struct RamdiskArguments {
    /// The agent: a static program that becomes /init
    #[arg(long, value_name = "PATH")]
    pub(crate) agent: PathBuf,
    /// For x86_64 or aarch64 hosts
    #[arg(long, value_name = "ARCH", default_value_t)]
    pub(crate) arch: Arch,
    #[command(flatten)]
    kernel: KernelArguments,
    /// Kernel version to use if --kernel-dir or --kernel-rpm has several
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["kernel_package", "kernel_deb", "kernel_running"], help_heading = KERNEL)]
    kernel_release: Option<String>,
    /// vm, server, or a file of module names
    #[arg(long, value_name = "SET", default_value = "vm")]
    pub(crate) module_set: String,
    /// debian, none (default) or a directory
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "none",
        hide_default_value = true,
        alias = "firmware-dir",
        help_heading = FIRMWARE
    )]
    pub(crate) firmware: FirmwareSource,
    /// Build although drivers lack firmware they need
    #[arg(long, help_heading = FIRMWARE)]
    pub(crate) allow_missing_firmware: bool,
    /// Trust these certificate authorities (a PEM file)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Public CAs to trust: system, none or a PEM file
    #[arg(long, value_name = "WHICH")]
    pub(crate) ca_bundle: Option<CaBundle>,
    /// Add a configuration file, *.conf; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) config_file: Vec<PathBuf>,
    /// Allow SSH login in rescue (busybox, dropbear)
    #[arg(long)]
    pub(crate) rescue_layer: bool,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    /// zstd:1 to zstd:19, or none
    #[arg(long, value_name = "HOW", default_value = "zstd:19")]
    pub(crate) compress: Compression,
    /// Keep compressed parts here, not in ~/.cache
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache_dir: Option<PathBuf>,
    /// Compress everything again
    #[arg(long)]
    no_cache: bool,
}

/// Where the kernel comes from: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct KernelArguments {
    /// An installed Debian package (linux-image-amd64)
    #[arg(long, value_name = "NAME", help_heading = KERNEL)]
    pub(crate) kernel_package: Option<String>,
    /// A kernel's .deb file, or several that make it up
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = KERNEL)]
    pub(crate) kernel_deb: Vec<PathBuf>,
    /// kernel-core and kernel-modules, as .rpm files
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = KERNEL)]
    pub(crate) kernel_rpm: Vec<PathBuf>,
    /// A directory with vmlinuz and lib/modules/VERSION
    #[arg(long, value_name = "DIR", help_heading = KERNEL)]
    pub(crate) kernel_dir: Option<PathBuf>,
    /// The kernel that this machine runs
    #[arg(long, help_heading = KERNEL)]
    pub(crate) kernel_running: bool,
}

impl RamdiskArguments {
    pub(crate) fn kernel(&self) -> Result<KernelSource> {
        let kernel = &self.kernel;
        let release = || self.kernel_release.clone();
        if let Some(name) = &kernel.kernel_package {
            return Ok(KernelSource::InstalledPackage(name.clone()));
        }
        if let Some(path) = &kernel.kernel_dir {
            return Ok(KernelSource::Directory {
                path: path.clone(),
                release: release(),
            });
        }
        if kernel.kernel_running {
            return Ok(KernelSource::Running);
        }
        match (kernel.kernel_deb.as_slice(), kernel.kernel_rpm.as_slice()) {
            ([], []) => Err(anyhow!(
                "expected a kernel: --kernel-package, --kernel-deb, --kernel-rpm, --kernel-dir or --kernel-running"
            )),
            ([], paths) => Ok(KernelSource::Rpms {
                paths: paths.to_vec(),
                release: release(),
            }),
            (paths, _) => Ok(KernelSource::Debs(paths.to_vec())),
        }
    }

    /// The directory for compressed parts: the one that the user names, or by default
    /// the user's cache (XDG Base Directory Specification), if the user has a home.
    /// Fails if the directory that the user names is not usable.
    pub(crate) fn cache(&self) -> Result<Option<PathBuf>> {
        if self.no_cache {
            return Ok(None);
        }
        if let Some(directory) = &self.cache_dir {
            ensure!(
                build::can_cache_in(directory),
                "--cache-dir {}: expected a directory of your own that only you can write, found a file, a directory of another owner, or one that others can write -- make another directory, or use --no-cache",
                directory.display()
            );
            return Ok(Some(directory.clone()));
        }
        let absolute = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let caches = absolute("XDG_CACHE_HOME");
        let caches = caches.or_else(|| Some(absolute("HOME")?.join(".cache")));
        Ok(caches.map(|caches| caches.join("landfall-image")))
    }

    pub(crate) fn module_set(&self) -> Result<ModuleSet> {
        if let Some(set) = ModuleSet::built_in(&self.module_set) {
            return Ok(set);
        }
        let bytes = path_error::read_bounded(self.module_set.as_ref(), 1 << 20)
            .context("module set: expected `vm`, `server` or a file")?;
        Ok(ModuleSet::parse(
            &self.module_set,
            &String::from_utf8_lossy(&bytes),
        )?)
    }
}
