//! Defines the options of `landfall-image kargs`.

use std::path::PathBuf;

use clap::Args;
use landfall_handover::console::Console;

use super::{CHANGES, ChangedFileArguments};

/// Change kernel arguments and network of a CoreOS disk image.
#[derive(Debug, Args)]
#[command(
    next_line_help = true,
    override_usage = "landfall-image kargs IMAGE [CHANGES] -o FILE|--in-place\n       landfall-image kargs IMAGE",
    after_help = "\
Examples:
  landfall-image kargs rhcos-qemu.qcow2.gz \\
      --append ip=192.0.2.10::192.0.2.1:24::ens3:none -o bootstrap.qcow2.gz
  landfall-image kargs fcos-metal.raw.xz --platform qemu --in-place
  landfall-image kargs rhcos-qemu.qcow2.gz

IMAGE is the disk image of RHCOS or FCOS: raw or qcow2; plain or in gzip, xz or
zstd. The result has the same format and packing. Without a change the command
shows the settings of the image.
--append and --delete may be repeated.
The builder needs no root, mount or libguestfs. It changes a copy next to the
output; after an error the image and the output are as they were. The copy
needs as much space as the unpacked image.
The command prints the SHA-256 of the new file and of its unpacked content.
OpenShift's bootstrapOSImage takes that of the unpacked content."
)]
pub(crate) struct KargsArguments {
    /// The disk image
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// Add a permanent kernel argument
    #[arg(long, value_name = "ARGUMENT", visible_aliases = ["karg", "append-karg"], help_heading = CHANGES)]
    pub(crate) append: Vec<String>,
    /// Delete a kernel argument
    #[arg(long, value_name = "ARGUMENT", visible_aliases = ["karg-delete", "delete-karg"], help_heading = CHANGES)]
    pub(crate) delete: Vec<String>,
    /// Change the Ignition platform from metal to this, with its consoles
    #[arg(long, value_name = "NAME", help_heading = CHANGES)]
    pub(crate) platform: Option<String>,
    /// Use this console, as in ttyS0,115200n8; may be repeated
    #[arg(long, value_name = "CONSOLE", help_heading = CHANGES)]
    pub(crate) console: Vec<Console>,
    /// Add kernel arguments for the first boot only
    #[arg(long, value_name = "TEXT", help_heading = CHANGES)]
    pub(crate) firstboot_args: Option<String>,
    /// Add a NetworkManager keyfile for the first boot; may be repeated
    #[arg(long, value_name = "FILE", help_heading = CHANGES)]
    pub(crate) network_keyfile: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) result: ChangedFileArguments,
}
