//! The arguments of `landfall-image customize`.

use std::path::PathBuf;

use clap::Args;
use landfall_boot_params::digest::Digest;

use super::{COREOS, HostArguments};
use crate::coreos_image::image_digest;

const CHANGES: &str = "CHANGES";

/// Put one host's settings into a finished ISO or ramdisk.
#[derive(Debug, Args)]
#[command(
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
    /// Write the result to this file
    #[arg(
        short,
        long,
        value_name = "OUT",
        required_unless_present = "in_place",
        conflicts_with = "in_place"
    )]
    pub(crate) output: Option<PathBuf>,
    /// Change BASE itself
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Remove all earlier customizations
    #[arg(long, help_heading = CHANGES)]
    pub(crate) reset: bool,
    /// Append kernel arguments; may be repeated
    #[arg(long, value_name = "TEXT", help_heading = CHANGES)]
    pub(crate) karg: Vec<String>,
    /// Delete KEY=VALUE, or all arguments KEY
    #[arg(long, value_name = "ARG", help_heading = CHANGES)]
    pub(crate) karg_delete: Vec<String>,
    /// Trust these certificate authorities (a PEM file)
    #[arg(long, value_name = "FILE", help_heading = CHANGES)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Add a configuration file, *.conf; may be repeated
    #[arg(long, value_name = "FILE", help_heading = CHANGES)]
    pub(crate) config_file: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    /// URL from which the host downloads the image; repeat for mirrors
    #[arg(long, value_name = "URL", alias = "coreos-image-url", help_heading = COREOS)]
    pub(crate) coreos_image: Vec<String>,
    /// Expected digest: sha256:HEX or sha512:HEX
    #[arg(long, value_name = "ALGORITHM:HEX", help_heading = COREOS, value_parser = image_digest)]
    pub(crate) coreos_image_digest: Option<Digest>,
    /// Replace an existing OUT
    #[arg(long)]
    pub(crate) force: bool,
    /// Print a summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
