//! `install`: a whole installation from the command line, with the options of
//! coreos-installer.

use std::path::PathBuf;

use clap::Args;
use landfall_devices::permission::WritePermission;
use landfall_installation::{BootEntry, InstallOptions, Installation, Servers};
use landfall_report::failure::{Failure, Result};
use landfall_sys::mount::see_mounts_alone;

use crate::stages::own_image;
use crate::tools::install_report::{Plan, result};
use crate::tools::{machine_http, orderly_end, stdout};

/// `install`
#[derive(Debug, Args)]
#[command(after_help = "\
The options are those of coreos-installer. A link to this program with the
name coreos-installer accepts the same command lines. Errors that can be
detected in advance are detected before the disk is changed. The disk boots
only after every step has succeeded.

Without --stream, --image-url and --image-file, the image of the boot medium
is installed. If the medium has no image, the stream stable is installed.

Examples:
  Check everything and print the plan, without changes:
    landfall-agent install -s stable -i host.ign --dry-run /dev/sda
  A known image from two servers, with its digest:
    landfall-agent install -i host.ign --image-digest sha256:0123... \\
      -u https://a.example/coreos.raw.xz -u https://b.example/coreos.raw.xz \\
      /dev/disk/by-id/wwn-0x5000c500a1b2c3d4
  Options in a file, with the long options as keys:
    landfall-agent install -c install.yaml --append-karg nosmt

    # install.yaml
    image-url: https://a.example/coreos.raw.xz
    ignition-url: https://a.example/host.ign
    console: [tty0, 'ttyS0,115200n8']
    copy-network: true
    save-partlabel: ['data*']
    dest-device: /dev/sda")]
pub struct Arguments {
    #[command(flatten)]
    options: InstallOptions,
    /// YAML with long options as keys; later files override earlier ones
    #[arg(short, long, value_name = "PATH")]
    config_file: Vec<PathBuf>,
    /// Check everything, including the whole image, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result (or, with --dry-run, the plan) as JSON
    #[arg(long)]
    json: bool,
    /// Trust the CA certificates in this PEM file [default: the system's]
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Allow it on a machine that does not run the landfall ramdisk
    #[arg(long)]
    allow_this_machine: bool,
    /// Make a boot entry in this machine's firmware, as the ramdisk does
    #[arg(long, requires = "allow_this_machine")]
    boot_entry: bool,
}

/// Installs, or prints what it would do.
///
/// # Errors
/// If any part of the installation is not possible. An error that can be detected in
/// advance leaves the disk untouched. An error during the write leaves a disk that does
/// not boot. If only the boot entry fails, the disk is complete.
pub fn run(arguments: Arguments) -> Result<()> {
    install(arguments).map_err(|failure| Failure {
        details: format!("install failed: {}", failure.details),
        ..failure
    })
}

fn install(arguments: Arguments) -> Result<()> {
    let permission = match arguments.dry_run {
        true => None,
        false => Some(WritePermission::by_boot_or_operator(
            arguments.allow_this_machine,
        )?),
    };
    let files = InstallOptions::from_config_files(&arguments.config_file)?;
    let options = arguments.options.over(files);
    let servers = Servers::new(&machine_http::of_this_machine(arguments.cafile)?)?;
    let mut installation = Installation::prepare(&options, &servers, &own_image)?;
    // Do not change the boot entries of this machine: it may be a workstation with the
    // disk of another machine.
    if arguments.allow_this_machine && !arguments.boot_entry {
        installation.boot_entry = BootEntry::Leave;
    }
    let Some(permission) = permission else {
        installation.check(&servers.client)?;
        return Plan::of(&installation)?.print(arguments.json);
    };
    if arguments.allow_this_machine
        && let Err(error) = see_mounts_alone()
    {
        tracing::warn!("mounts of this installation are visible to other programs: {error}");
    }
    orderly_end::after_the_commit();
    let written = installation.carry_out(&servers.client, &permission)?;
    if arguments.json {
        stdout::line(result(&installation, &written))?;
    }
    tracing::info!("install complete: {}", installation.disk.path.display());
    Ok(())
}

#[cfg(test)]
mod tests;
