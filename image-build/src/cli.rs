//! The command line: definitions only.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, Parser, Subcommand};
use landfall_initramfs::compress::Compression;
use landfall_initramfs::kernel_source::KernelSource;
use landfall_initramfs::module_set::ModuleSet;
use landfall_initramfs::path_error;

use crate::base_url::BaseUrl;

/// Build the ramdisk that turns a bare server into a CoreOS node, and media that boot it.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 80,
    after_help = "Start with: landfall-image iso --help"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Initramfs(InitramfsArguments),
    Iso(IsoArguments),
    Pxe(PxeArguments),
    Inspect(InspectArguments),
}

/// Build the ramdisk: agent, kernel modules and firmware in one file.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  landfall-image initramfs --agent target/release/landfall-agent \\
      --kernel-package linux-image-cloud-amd64 -o initrd.img

Same input, same bytes: every time in the image is SOURCE_DATE_EPOCH, or 0.")]
pub(crate) struct InitramfsArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Build an ISO that boots by BIOS and UEFI, as CD, USB stick or virtual media.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  landfall-image iso --agent target/release/landfall-agent \\
      --kernel-package linux-image-cloud-amd64 \\
      --karg ipa-api-url=http://192.0.2.1:6385 \\
      --karg ip=192.0.2.50::192.0.2.1:24::eno1:none -o landfall.iso

Hosts with Secure Boot are served by default: shim and the signed GRUB add
4.3 MB. The kernel arguments and an area for a second ramdisk can be replaced
in the finished image; boot/landfall-areas.json on it says where they are.
Needs the packages xorriso, grub-common, grub-pc-bin and shim-signed,
grub-efi-amd64-signed (with --no-secure-boot: grub-efi-amd64-bin).")]
pub(crate) struct IsoArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    /// Put shim and the signed GRUB on it (the default)
    #[arg(long, overrides_with = "no_secure_boot")]
    pub(crate) secure_boot: bool,
    /// Save 4.3 MB; hosts with Secure Boot will not boot it
    #[arg(long)]
    pub(crate) no_secure_boot: bool,
    /// Size of the area for per-host files, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(4..=65536))]
    pub(crate) embed_kib: u32,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Build a directory to serve by TFTP and HTTP for network boot.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  landfall-image pxe --agent target/release/landfall-agent \\
      --kernel-package linux-image-cloud-amd64 \\
      --karg ipa-api-url=http://192.0.2.1:6385 \\
      --base-url http://192.0.2.1:8080/landfall -o /srv/landfall

DHCP then names the first file: boot.ipxe for iPXE (by HTTP or TFTP),
shimx64.efi for UEFI firmware (by TFTP; goes on to grubx64.efi and
grub/grub.cfg, also with Secure Boot). The directory has to be the root of
the TFTP server, because Debian's signed GRUB looks for /grub/grub.cfg.")]
pub(crate) struct PxeArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    /// Fetch kernel and ramdisk from here instead of by TFTP
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<BaseUrl>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Show what a ramdisk or an ISO holds, with its digest.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  landfall-image inspect --json landfall.iso | jq .ramdisk.kernel_release")]
pub(crate) struct InspectArguments {
    /// A ramdisk or an ISO
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the kernel is told.
#[derive(Debug, Args)]
pub(crate) struct KernelArgumentTexts {
    /// Add kernel arguments; may be repeated
    ///
    /// `console=tty0 console=ttyS0,115200n8 quiet` stand before them, the consoles
    /// unless you give one, `quiet` unless you give a log level.
    #[arg(long, value_name = "TEXT")]
    pub(crate) karg: Vec<String>,
}

/// What a ramdisk is made of.
#[derive(Debug, Args)]
pub(crate) struct RamdiskArguments {
    /// The agent: a static program that becomes /init
    #[arg(long, value_name = "PATH")]
    pub(crate) agent: PathBuf,
    #[command(flatten)]
    pub(crate) kernel: KernelArguments,
    /// Which modules: `vm`, `server`, or a file of names and `directory/` lines
    #[arg(long, value_name = "SET", default_value = "vm")]
    pub(crate) module_set: String,
    /// Put in the firmware that the modules name, from here (/lib/firmware)
    #[arg(long, value_name = "DIR")]
    pub(crate) firmware_dir: Option<PathBuf>,
    /// `zstd:1` to `zstd:19`, or `none`
    ///
    /// 19 takes a minute and makes the file a fifth smaller than 3; unpacking takes
    /// the same time.
    #[arg(long, value_name = "HOW", default_value = "zstd:19")]
    pub(crate) compress: Compression,
}

/// Where the kernel comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false, args = ["kernel_package", "kernel_deb", "kernel_dir"])]
pub(crate) struct KernelArguments {
    /// An installed Debian package (linux-image-amd64)
    #[arg(long, value_name = "NAME")]
    pub(crate) kernel_package: Option<String>,
    /// A kernel's .deb file
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel_deb: Option<PathBuf>,
    /// A directory with vmlinuz and lib/modules/VERSION
    #[arg(long, value_name = "DIR")]
    pub(crate) kernel_dir: Option<PathBuf>,
    /// Which kernel of --kernel-dir, if it holds several
    #[arg(long, value_name = "VERSION", requires = "kernel_dir")]
    pub(crate) kernel_release: Option<String>,
}

/// Where the result goes.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Where to write
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: PathBuf,
    /// Replace what is there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print a summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

impl KernelArguments {
    pub(crate) fn source(&self) -> Result<KernelSource> {
        match (&self.kernel_package, &self.kernel_deb, &self.kernel_dir) {
            (Some(name), _, _) => Ok(KernelSource::InstalledPackage(name.clone())),
            (_, Some(path), _) => Ok(KernelSource::Deb(path.clone())),
            (_, _, Some(path)) => Ok(KernelSource::Directory {
                path: path.clone(),
                release: self.kernel_release.clone(),
            }),
            _ => Err(anyhow!(
                "expected a kernel: --kernel-package, --kernel-deb or --kernel-dir"
            )),
        }
    }
}

impl RamdiskArguments {
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
