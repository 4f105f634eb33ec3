//! The arguments of `landfall-image customize`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{
    CHANGES, ChangedFileArguments, CoreosImageArguments, HostArguments, SiteChangeArguments,
};

/// Put one host's settings into a finished ISO or ramdisk.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("place").args(["output", "in_place"]).required(true),
    override_usage = "landfall-image customize BASE -o OUT|--in-place CHANGES",
    after_help = "\
Example:
  landfall-image customize landfall.iso -o node1.iso \\
      --nmstate node1.yaml --karg ipa-api-url=https://192.0.2.1:6385
  landfall-image inspect --verify node1.iso

Nothing is rebuilt: the changes go into areas that `landfall-image iso` has
reserved (1792 bytes for kernel arguments, --embed-kib for files), or into an
archive after a ramdisk. A second customization adds to the first. The order
is: reset, delete, append.
With -o, OUT appears when it is complete. On file systems with reflinks (XFS,
btrfs) it shares its blocks with BASE. With --in-place, an ISO is changed where
it lies, also on a USB stick; a ramdisk is replaced. OUT has the permissions of
BASE. Another landfall-image that writes BASE at the same time is an error.
In a ramdisk there are no kernel arguments: give them to its boot loader."
)]
pub(crate) struct CustomizeArguments {
    /// An ISO, a ramdisk, or a directory that `landfall-image pxe` made
    #[arg(value_name = "BASE")]
    pub(crate) base: PathBuf,
    /// Remove all earlier customizations
    #[arg(long, help_heading = CHANGES)]
    pub(crate) reset: bool,
    #[command(flatten)]
    pub(crate) site: SiteChangeArguments,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    #[command(flatten)]
    pub(crate) coreos: CoreosImageArguments,
    #[command(flatten)]
    pub(crate) result: ChangedFileArguments,
}
