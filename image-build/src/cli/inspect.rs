//! The arguments of `landfall-image inspect`.

use std::path::PathBuf;

use clap::Args;

/// Show what a ramdisk or an ISO holds, and what is damaged in it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  landfall-image inspect --json landfall.iso | jq .ramdisk.kernel_release
  landfall-image inspect --verify /dev/sdX
  landfall-image inspect --host node37 site.iso
  landfall-image inspect --extract DIR node1.iso

--host takes the name of a host or one of its MAC addresses. The command then
shows the network of this host and the faults of the file, and nothing else.

--extract writes the kernel arguments to DIR/kernel-arguments.txt, kernel and
ramdisk of an ISO to DIR/vmlinuz and DIR/initrd.img, and the configuration of
the site and of its hosts to DIR/files.

Every file of an ISO is compared with SHA256SUMS in the ISO, except the
areas that may be replaced for a host. The exit code is 1 if there is any fault.")]
pub(crate) struct InspectArguments {
    /// A ramdisk, an ISO, a USB stick with an ISO, or a UKI
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Fail also if an ISO has no digests to compare with
    #[arg(long)]
    pub(crate) verify: bool,
    /// Show only the network of this host
    #[arg(long, value_name = "NAME", conflicts_with = "extract")]
    pub(crate) host: Option<String>,
    /// Write the content to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) extract: Option<PathBuf>,
    /// Print JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
