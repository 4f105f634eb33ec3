//! `plan-network`: what a kernel command line, an NMState or a network_data.json
//! means for the network, in the normal form (`--json`) or as the console would
//! tell it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use landfall_boot_params::NetArgs;
use landfall_network_plan::{MacAddr, NetworkPlan, describe, from_network_data, from_nmstate};

use super::command_line_source::CommandLineSource;
use crate::failure::{Class, Failure, Result};
use crate::network::read_firmware_nics;
use crate::private_file;
use crate::system_path::SystemPath;
use crate::tools::stdout;

/// `plan-network`
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    source: CommandLineSource,
    /// OpenStack's network_data.json instead of kernel arguments
    #[arg(long, value_name = "FILE", conflicts_with = "cmdline")]
    network_data: Option<PathBuf>,
    /// NMState (YAML) instead of kernel arguments
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cmdline", "network_data"])]
    nmstate: Option<PathBuf>,
    /// Write the NetworkManager keyfiles of the installed system here
    #[arg(long, value_name = "DIR")]
    keyfiles: Option<PathBuf>,
    /// Look for NICs and for the firmware's table of them (iBFT) in this /sys
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print kernel arguments that say the same
    #[arg(long, conflicts_with = "json")]
    arguments: bool,
}

impl Arguments {
    /// The /sys whose firmware tables count: of a text, none but what is given.
    fn tables(&self) -> Option<SystemPath> {
        match &self.sysfs {
            Some(directory) => SystemPath::captured(directory).ok(),
            None => {
                let machine = SystemPath::live().join("sys");
                self.source.cmdline.is_none().then_some(machine)
            }
        }
    }
}

/// Prints the plan.
///
/// # Errors
/// If the file or the running kernel's command line cannot be read. What they
/// say is never an error but a warning in the plan.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut plan = match (&arguments.network_data, &arguments.nmstate) {
        (Some(file), _) => of_network_data(file)?,
        (None, Some(file)) => of_nmstate(file)?,
        (None, None) => {
            let settings = arguments.source.settings()?;
            let mut args = NetArgs::from_command_line(&settings.command_line);
            if let Some(sysfs) = arguments.tables() {
                read_firmware_nics(&mut args, &sysfs, &[]);
            }
            if arguments.json {
                NetworkPlan::from_boot_args(&args)
            } else {
                NetworkPlan::for_boot(&args)
            }
        }
    };
    // Before any VLAN is named after a NIC of this machine.
    if let Some(directory) = &arguments.keyfiles {
        write_keyfiles(&plan, directory)?;
    }
    if let Some(sysfs) = &arguments.sysfs {
        let nics = nics(sysfs);
        // The normal form of arguments is what they say, whatever the machine.
        let is_normal_form =
            arguments.json && arguments.network_data.is_none() && arguments.nmstate.is_none();
        for (name, macs) in nics.iter().filter(|_| !is_normal_form) {
            plan.name_vlans(name, macs);
        }
        plan.sort();
        let missing = plan.missing_nics(&nics);
        plan.warnings.extend(missing);
    }
    if arguments.json {
        return stdout::line(serde_json::to_value(&plan).unwrap_or_default());
    }
    if arguments.arguments {
        let written = plan.to_boot_args();
        stdout::line(written.arguments.join(" "))?;
        let unsaid = written.unsaid.into_iter();
        plan.warnings
            .extend(unsaid.map(|what| format!("not said: {what}")));
    } else {
        for line in describe::describe(&plan) {
            stdout::line(line)?;
        }
    }
    for warning in &plan.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// What a plan is that has nothing but faults.
fn nothing(faults: Vec<String>) -> NetworkPlan {
    NetworkPlan {
        warnings: faults,
        ..NetworkPlan::default()
    }
}

fn of_nmstate(file: &Path) -> Result<NetworkPlan> {
    let text = read(file, from_nmstate::LARGEST)?;
    Ok(NetworkPlan::from_nmstate(&text).unwrap_or_else(nothing))
}

fn of_network_data(file: &Path) -> Result<NetworkPlan> {
    let text = read(file, from_network_data::LARGEST)?;
    Ok(NetworkPlan::from_network_data(&text).unwrap_or_else(|error| nothing(error.lines())))
}

fn read(file: &Path, largest: usize) -> Result<String> {
    let mut bytes = Vec::new();
    // One byte beyond the limit, so that the parser can tell a cut document.
    File::open(file)
        .and_then(|file| file.take(largest as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| operator(file, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Makes the directory and the files, for root alone: NetworkManager takes no
/// others.
fn write_keyfiles(plan: &NetworkPlan, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(|error| operator(directory, &error))?;
    for file in plan.keyfiles() {
        let path = directory.join(&file.name);
        private_file::write(&path, file.text.as_bytes())
            .map_err(|error| operator(&path, &error))?;
    }
    Ok(())
}

fn operator(path: &Path, error: &io::Error) -> Failure {
    let text = format!("{}: {error}", path.display());
    Failure::new(Class::CommandExecutionError, text)
}

/// Name and hardware address of everything that has one.
fn nics(sysfs: &Path) -> Vec<(String, Vec<MacAddr>)> {
    let Ok(entries) = fs::read_dir(sysfs.join("class/net")) else {
        return Vec::new();
    };
    let mut nics: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let address = fs::read_to_string(entry.path().join("address")).ok()?;
            let mac = address.trim().parse().ok()?;
            let name = entry.file_name().into_string().ok()?;
            (mac != MacAddr([0; 6])).then(|| (name, vec![mac]))
        })
        .collect();
    nics.sort();
    nics
}
