//! `plan-network`: prints what a kernel command line, an NMState document, a
//! network_data.json or keyfiles mean for the network. Every form of the output (text,
//! `--json`, `--arguments`, `--keyfiles`) is made from the same plan.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use landfall_boot_params::NetArgs;
use landfall_network::read_firmware_nics;
use landfall_network_plan::{
    Keyfile, MacAddr, NetworkPlan, describe, from_keyfiles, from_network_data, from_nmstate,
};
use landfall_report::failure::{Failure, Result};
use landfall_settings::keyfile_paths;
use landfall_sys::private_file;
use landfall_sys::system_path::SystemPath;

use super::command_line_source::CommandLineSource;
use crate::tools::installed_names::installed_names;
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
    /// NetworkManager keyfile, or a directory of them; can be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["cmdline", "network_data", "nmstate"])]
    network_keyfile: Vec<PathBuf>,
    /// Write the NetworkManager keyfiles of the installed system here
    #[arg(long, value_name = "DIR")]
    keyfiles: Option<PathBuf>,
    /// Read the NICs and the firmware's tables (iBFT, NBFT) from this /sys
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the equivalent kernel arguments
    #[arg(long, conflicts_with = "json")]
    arguments: bool,
    /// Continue as a boot does if the document cannot be used
    ///
    /// A boot reports the faults as warnings and uses the next source.
    #[arg(long)]
    lenient: bool,
    /// Fail on any warning: on everything that is ignored or repaired
    #[arg(long, conflicts_with = "lenient")]
    strict: bool,
}

impl Arguments {
    /// The /sys from which to read the firmware's network tables (iBFT, NBFT). With
    /// `--cmdline` no table is read unless `--sysfs` is given. `None` also if the
    /// directory of `--sysfs` cannot be opened.
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

/// Prints the plan that a boot with this source applies. Every form of the output shows
/// the same plan.
///
/// # Errors
/// If a file or the running kernel's command line cannot be read, or a keyfile cannot be
/// written. Without `--lenient`, also if a document cannot be used. With `--strict`, also
/// on any warning.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut plan = plan(arguments)?;
    // Write the keyfiles before any VLAN gets the name of a NIC of this machine.
    if let Some(directory) = &arguments.keyfiles {
        write_keyfiles(&plan, directory)?;
    }
    if let Some(sysfs) = &arguments.sysfs {
        let nics = nics(sysfs);
        for (name, macs) in &nics {
            plan.name_vlans(name, macs);
        }
        plan.sort();
        let missing = plan.missing_nics(&nics);
        plan.warnings.extend(missing);
    }
    if arguments.json {
        stdout::line(serde_json::to_value(&plan).unwrap_or_default())?;
    } else {
        print_lines(arguments, &mut plan)?;
        for warning in &plan.warnings {
            tracing::warn!("{warning}");
        }
    }
    match plan.warnings.len() {
        count if arguments.strict && count > 0 => Err(Failure::other(format!(
            "expected no warning because of --strict, found {count}"
        ))),
        _ => Ok(()),
    }
}

fn print_lines(arguments: &Arguments, plan: &mut NetworkPlan) -> Result<()> {
    if !arguments.arguments {
        for line in describe::describe(plan) {
            stdout::line(line)?;
        }
        return Ok(());
    }
    let written = plan.to_boot_args();
    stdout::line(written.arguments.join(" "))?;
    let lost = written.lost.into_iter();
    plan.warnings
        .extend(lost.map(|what| format!("no kernel argument for: {what}")));
    Ok(())
}

fn plan(arguments: &Arguments) -> Result<NetworkPlan> {
    let first = arguments.network_keyfile.first();
    let (file, read) = match (&arguments.network_data, &arguments.nmstate, first) {
        (Some(file), ..) => (file, of_network_data(file)?),
        (None, Some(file), _) => (file, of_nmstate(file)?),
        (None, None, Some(file)) => (file, of_keyfiles(&arguments.network_keyfile)?),
        (None, None, None) => return of_kernel_arguments(arguments),
    };
    let faults = match read {
        Ok(plan) => return Ok(plan),
        Err(faults) => faults,
    };
    if arguments.lenient {
        let mut plan = NetworkPlan::for_boot(&NetArgs::default());
        plan.warnings = faults;
        plan.warnings.push(format!(
            "{}: it is ignored; without kernel arguments the boot uses this plan instead",
            file.display()
        ));
        return Ok(plan);
    }
    for fault in &faults {
        tracing::error!("{fault}");
    }
    let count = match faults.len() {
        1 => "1 fault".to_owned(),
        count => format!("{count} faults"),
    };
    Err(Failure::other(format!(
        "{}: {count} -- correct the document, or use --lenient to see what a boot does with it",
        file.display()
    )))
}

fn of_kernel_arguments(arguments: &Arguments) -> Result<NetworkPlan> {
    let settings = arguments.source.settings()?;
    let mut args = NetArgs::from_command_line(&settings.command_line);
    if let Some(sysfs) = arguments.tables() {
        read_firmware_nics(&mut args, &sysfs, &[]);
        if args.uses_nbft_network() {
            let (tables, faults) = landfall_nvme_boot::read_tables(&sysfs);
            args.firmware.nvme = landfall_nvme_boot::firmware_nics(&tables);
            args.warnings.extend(faults);
        }
    }
    Ok(NetworkPlan::for_boot(&args))
}

/// The plan, or the faults of the document, one line each.
type Document = std::result::Result<NetworkPlan, Vec<String>>;

fn of_nmstate(file: &Path) -> Result<Document> {
    let text = read(file, from_nmstate::LARGEST)?;
    Ok(NetworkPlan::from_nmstate(&text).map_err(|error| error.lines()))
}

fn of_network_data(file: &Path) -> Result<Document> {
    let text = read(file, from_network_data::LARGEST)?;
    Ok(NetworkPlan::from_network_data(&text).map_err(|error| error.lines()))
}

/// Reads these files, and from each directory the keyfiles that a boot would read.
fn of_keyfiles(paths: &[PathBuf]) -> Result<Document> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        files.extend(keyfile_paths(path).map_err(|error| of_path("read", path, &error))?);
    }
    let keyfile = |path: &PathBuf| -> Result<Keyfile> {
        Ok(Keyfile {
            name: path.file_name().unwrap_or_default().display().to_string(),
            text: read(path, from_keyfiles::LARGEST)?,
        })
    };
    let files: Vec<Keyfile> = files.iter().map(keyfile).collect::<Result<_>>()?;
    Ok(NetworkPlan::from_keyfiles(&files).map_err(|error| error.lines()))
}

fn read(file: &Path, largest: usize) -> Result<String> {
    let mut bytes = Vec::new();
    // Read one byte more than the limit, so that the parser notices a document that
    // is too long.
    File::open(file)
        .and_then(|file| file.take(largest as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| of_path("read", file, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Creates the directory and the files. Only the owner can access the files, because
/// NetworkManager rejects files that other users can read.
fn write_keyfiles(plan: &NetworkPlan, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(|error| of_path("create", directory, &error))?;
    for file in plan.keyfiles() {
        let path = directory.join(&file.name);
        private_file::write(&path, file.text.as_bytes())
            .map_err(|error| of_path("write", &path, &error))?;
    }
    Ok(())
}

fn of_path(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::other(format!("cannot {verb} {}: {error}", path.display()))
}

/// Name and hardware address of every NIC that has a hardware address. The names are
/// those that the agent gives the NICs before it configures them (`landfall-agent
/// inventory` shows them). If the directory is not called `sys`, the names are the
/// kernel's.
fn nics(sysfs: &Path) -> Vec<(String, Vec<MacAddr>)> {
    let machine = sysfs
        .ends_with("sys")
        .then(|| sysfs.parent())
        .flatten()
        .and_then(|root| SystemPath::captured(root).ok());
    let names = machine.map(|root| installed_names(&root, None));
    let names = names.unwrap_or_default();
    let Ok(entries) = fs::read_dir(sysfs.join("class/net")) else {
        return Vec::new();
    };
    let mut nics: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let address = fs::read_to_string(entry.path().join("address")).ok()?;
            let mac = address.trim().parse().ok()?;
            let name = entry.file_name().into_string().ok()?;
            let name = names.get(&name).map_or(name, |found| found.name.clone());
            (mac != MacAddr([0; 6])).then(|| (name, vec![mac]))
        })
        .collect();
    nics.sort();
    nics
}
