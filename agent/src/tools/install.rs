//! `install`: all of an installation on the command line, by the options of
//! coreos-installer.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::disk::proven_image::WrittenImage;
use crate::failure::{Failure, Result};
use crate::http_client::{self, HttpOptions};
use crate::installation::{BootEntry, InstallOptions, Installation};
use crate::permission::WritePermission;

/// `install`
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    options: InstallOptions,
    /// YAML with long options as keys; the command line goes before it
    #[arg(short, long, value_name = "PATH")]
    config_file: Vec<PathBuf>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Allow it on a machine that does not run the landfall ramdisk
    #[arg(long)]
    allow_this_machine: bool,
    /// Make a boot entry in the firmware of this machine, too
    #[arg(long, requires = "allow_this_machine")]
    boot_entry: bool,
}

/// Installs, or shows what it would.
///
/// # Errors
/// If anything asked for cannot be had: before the disk is touched where that
/// can be known, else with a disk that does not boot.
pub fn run(arguments: Arguments) -> Result<()> {
    install(arguments).map_err(|failure| Failure {
        details: format!("install failed: {}", failure.details),
        ..failure
    })
}

fn install(arguments: Arguments) -> Result<()> {
    let permission = match (arguments.allow_this_machine, arguments.dry_run) {
        (true, _) => Some(WritePermission::by_operator()),
        (false, true) => None,
        (false, false) => Some(WritePermission::in_ramdisk()?),
    };
    let files = InstallOptions::from_config_files(&arguments.config_file)?;
    let client = http_client::image_client(&HttpOptions::default())?;
    let mut installation = arguments.options.over(files).prepare(&client)?;
    if arguments.allow_this_machine && !arguments.boot_entry {
        installation.boot_entry = BootEntry::Leave;
    }
    let Some(permission) = permission.filter(|_| !arguments.dry_run) else {
        return Ok(());
    };
    let written = installation.carry_out(&client, &permission)?;
    if arguments.json {
        println!("{}", result(&installation, &written));
    }
    Ok(())
}

fn result(installation: &Installation, written: &WrittenImage) -> serde_json::Value {
    json!({
        "disk": installation.disk,
        "image_bytes": written.image_bytes,
    })
}
