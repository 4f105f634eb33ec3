//! The arguments of `landfall-image pxe`.

use clap::Args;

use super::{
    CoreosImageArguments, KernelArgumentTexts, LoaderArguments, OutputArguments, RamdiskArguments,
};
use crate::base_url::BaseUrl;

/// Build a directory to serve by TFTP and HTTP for network boot.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image pxe --agent PATH KERNEL [OPTIONS] -o DIR",
    after_help = "\
Example:
  landfall-image pxe --agent ./landfall-agent \\
      --kernel-package linux-image-amd64 --module-set server \\
      --firmware debian --karg ipa-api-url=http://192.0.2.1:6385 \\
      --base-url http://192.0.2.1:8080/landfall -o /srv/landfall

The module set vm is for virtual machines; use server for real servers.
The builder puts `console=tty0 console=ttyS0,115200n8 quiet` before your kernel
arguments. A console that you name is one more. With your own settings for
ttyS0, or with another virtual terminal than tty0, the builder omits its own,
and it omits quiet if you set a log level.
The DHCP server must name the first file: boot.ipxe for iPXE (by HTTP or
TFTP), undionly.kpxe for BIOS without iPXE (by TFTP; it is iPXE and asks DHCP
again), shimx64.efi for UEFI firmware (by TFTP; it loads grubx64.efi, which
reads grub/grub.cfg, also with Secure Boot). The directory must be the root of
the TFTP server, because Debian's signed GRUB looks for /grub/grub.cfg.
With an http URL as --base-url the tree also has httpx64.efi, which UEFI
firmware boots by HTTP: the DHCP server names its URL. It is not signed: with
Secure Boot let the firmware fetch an ISO (landfall-image iso) by HTTP.
All menus load images/ignition.img after the ramdisk. It adds nothing until you
replace it: coreos-installer pxe ignition wrap -o DIR/images/ignition.img"
)]
pub(crate) struct PxeArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    #[command(flatten)]
    pub(crate) loaders: LoaderArguments,
    /// Fetch kernel and ramdisk from this URL, not by TFTP
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<BaseUrl>,
    #[command(flatten)]
    pub(crate) coreos: CoreosImageArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
