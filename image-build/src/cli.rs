//! Defines the command line.

#[cfg(feature = "controller")]
mod controller;
mod coreos_live;
mod customize;
mod hosts;
mod inspect;
mod iso;
mod kargs;
mod pxe;
mod ramdisk;
mod release;
mod serve;
mod service;
#[cfg(test)]
mod tests;
mod uki;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use landfall_boot_params::digest::Digest;
use landfall_initramfs::arch::Arch;

use crate::boot_parts::Loaders;
use crate::image_digest::image_digest;

#[cfg(feature = "controller")]
pub(crate) use controller::ControllerArguments;
pub(crate) use coreos_live::CoreosLiveArguments;
pub(crate) use customize::CustomizeArguments;
pub(crate) use hosts::{HostArguments, HostsArguments};
pub(crate) use inspect::InspectArguments;
pub(crate) use iso::IsoArguments;
pub(crate) use kargs::KargsArguments;
pub(crate) use pxe::PxeArguments;
pub(crate) use ramdisk::{InitramfsArguments, RamdiskArguments};
pub(crate) use release::ReleaseArguments;
pub(crate) use serve::ServeArguments;
pub(crate) use service::ServiceArguments;
pub(crate) use uki::UkiArguments;

const COREOS: &str = "IMAGE IF IRONIC NAMES NONE";
const CHANGES: &str = "CHANGES";

/// Build the ramdisk that turns a bare server into a CoreOS node, and its media.
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
    Uki(UkiArguments),
    Hosts(HostsArguments),
    CoreosLive(CoreosLiveArguments),
    Kargs(KargsArguments),
    Customize(CustomizeArguments),
    Serve(ServeArguments),
    #[cfg(feature = "controller")]
    Controller(ControllerArguments),
    Inspect(InspectArguments),
    Release(ReleaseArguments),
}

impl Command {
    /// Whether the command runs a service. A service ends in its own way after a
    /// signal: it lets answers in progress finish.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            #[cfg(feature = "controller")]
            Self::Controller(_) => true,
            _ => false,
        }
    }
}

/// What the kernel is told.
#[derive(Debug, Args)]
pub(crate) struct KernelArgumentTexts {
    /// Add kernel arguments; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) karg: Vec<String>,
}

/// Where the boot loaders come from.
#[derive(Debug, Args)]
pub(crate) struct LoaderArguments {
    /// Look for boot loaders below DIR, not in /usr
    #[arg(long, value_name = "DIR")]
    loader_dir: Option<PathBuf>,
}

impl LoaderArguments {
    pub(crate) fn of(&self, arch: Arch) -> Loaders {
        Loaders::new(arch, self.loader_dir.as_deref())
    }
}

/// The image that `install_coreos` writes when Ironic names none.
#[derive(Debug, Default, Args)]
pub(crate) struct CoreosImageArguments {
    /// URL from which hosts download the image; repeat for mirrors
    #[arg(long, value_name = "URL", help_heading = COREOS)]
    pub(crate) coreos_image_url: Vec<String>,
    /// Expected digest: sha256:HEX or sha512:HEX
    #[arg(long, value_name = "ALGORITHM:HEX", help_heading = COREOS, value_parser = image_digest)]
    pub(crate) coreos_image_digest: Option<Digest>,
}

/// Where the result goes.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Output file or directory
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: PathBuf,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Print a summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a changed file goes.
#[derive(Debug, Args)]
pub(crate) struct ChangedFileArguments {
    /// Write the result to this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "in_place")]
    pub(crate) output: Option<PathBuf>,
    /// Change the given file itself
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Replace an existing output file
    #[arg(long)]
    pub(crate) force: bool,
    /// Print a summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Changes of a finished ISO or ramdisk that are the same for all hosts.
#[derive(Debug, Clone, Args)]
pub(crate) struct SiteChangeArguments {
    /// Append kernel arguments
    #[arg(long, value_name = "TEXT", visible_alias = "append-karg", help_heading = CHANGES)]
    pub(crate) karg: Vec<String>,
    /// Delete KEY=VALUE or KEY
    #[arg(long, value_name = "ARG", visible_alias = "delete-karg", help_heading = CHANGES)]
    pub(crate) karg_delete: Vec<String>,
    /// Trust these certificate authorities (a PEM file)
    #[arg(long, value_name = "FILE", help_heading = CHANGES)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Add a configuration file, *.conf; may be repeated
    #[arg(long, value_name = "FILE", help_heading = CHANGES)]
    pub(crate) config_file: Vec<PathBuf>,
}
