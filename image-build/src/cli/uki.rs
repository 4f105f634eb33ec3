//! The arguments of `landfall-image uki`.

use std::path::PathBuf;

use clap::Args;

use super::{
    CoreosImageArguments, KernelArgumentTexts, LoaderArguments, OutputArguments, RamdiskArguments,
};

/// Build one EFI file (UKI): kernel, ramdisk and kernel arguments.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image uki --agent PATH KERNEL [OPTIONS] -o landfall.efi",
    after_help = "\
Example:
  landfall-image uki --agent ./landfall-agent \\
      --kernel-package linux-image-amd64 --module-set server \\
      --firmware debian --karg ipa-api-url=http://192.0.2.1:6385 \\
      -o landfall.efi

UEFI firmware starts the file without a boot loader: over HTTP, or as
EFI/BOOT/BOOTX64.EFI on a FAT file system. The kernel arguments are the same as
those of landfall-image iso. With Secure Boot nobody can change them.
The file has no signature. For Secure Boot, sign it with a key that the firmware
or shim trusts:
  sbsign --key KEY --cert CERTIFICATE --output signed.efi landfall.efi
The builder needs the package systemd-boot-efi, or the file for --stub."
)]
pub(crate) struct UkiArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    #[command(flatten)]
    pub(crate) loaders: LoaderArguments,
    /// systemd's EFI stub, if not that of Debian's package
    #[arg(long, value_name = "FILE")]
    pub(crate) stub: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) coreos: CoreosImageArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
