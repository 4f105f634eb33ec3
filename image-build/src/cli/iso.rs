//! The arguments of `landfall-image iso`.

use std::path::PathBuf;

use clap::Args;

use super::{
    COREOS, CoreosImageArguments, KernelArgumentTexts, LoaderArguments, OutputArguments,
    RamdiskArguments,
};

/// Build an ISO for BIOS and UEFI: CD, USB stick, virtual media.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image iso --agent PATH KERNEL [OPTIONS] -o out.iso",
    after_help = "\
Example:
  landfall-image iso --agent ./landfall-agent \\
      --kernel-package linux-image-amd64 --module-set server \\
      --firmware debian --karg ipa-api-url=http://192.0.2.1:6385 \\
      --karg ip=192.0.2.50::192.0.2.1:24::eno1:none -o landfall.iso

The module set vm is for virtual machines; use server for real servers.
The builder puts `console=tty0 console=ttyS0,115200n8 quiet` before your kernel
arguments. A console that you name is one more. With your own settings for
ttyS0, or with another virtual terminal than tty0, the builder omits its own,
and it omits quiet if you set a log level.
By default the ISO also boots hosts with Secure Boot; shim and the signed GRUB
add 4.3 MB. The kernel arguments and two areas for more ramdisks can be
replaced in the finished ISO; boot/landfall-areas.json in it describes them.
`coreos-installer iso kargs`, `iso ignition` and `iso network` change them, too.
With --coreos-image the ISO holds everything that an installation needs: the
image and its SHA-256. The image is copied through the temporary directory.
The builder needs the packages xorriso, grub-common, grub-pc-bin, shim-signed
and grub-efi-amd64-signed (with --no-secure-boot: grub-efi-amd64-bin instead of
the last two)."
)]
pub(crate) struct IsoArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    #[command(flatten)]
    pub(crate) loaders: LoaderArguments,
    /// Add shim and the signed GRUB (the default)
    #[arg(long, overrides_with = "no_secure_boot")]
    pub(crate) secure_boot: bool,
    /// Save 4.3 MB; Secure Boot hosts will reject the ISO
    #[arg(long)]
    pub(crate) no_secure_boot: bool,
    /// Put this image on the ISO, for sites without an image server
    #[arg(long, value_name = "FILE", conflicts_with = "coreos_image_url", help_heading = COREOS)]
    pub(crate) coreos_image: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) coreos: CoreosImageArguments,
    /// Size in KiB of each ramdisk area
    #[arg(long, value_name = "KIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(4..=65536))]
    pub(crate) embed_kib: u32,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
