//! `san-boot`: prints the connections to disks in a storage network that a boot makes from
//! the firmware's tables.

use std::path::PathBuf;

use clap::Args;
use landfall_boot_params::NetArgs;
use landfall_network::NetworkState;
use landfall_nvme_boot::{FirmwareTable, connections, read_tables};
use landfall_report::failure::{Failure, Result};
use landfall_sys::system_path::SystemPath;

use super::command_line_source::CommandLineSource;
use crate::tools::stdout;

/// `san-boot`
#[derive(Debug, Args)]
#[command(after_help = "\
The options of a connection are those that the kernel gets. Without --sysfs
they have the address and the name of this machine's NIC, if it has one with
the MAC of the table. plan-network prints the network of the NICs.")]
pub struct Arguments {
    #[command(flatten)]
    source: CommandLineSource,
    /// Read the firmware's tables (NBFT) from this /sys
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
}

/// Prints each table and the connections that it asks for. Connects nothing.
///
/// # Errors
/// If the directory or the network of this machine cannot be read.
pub fn run(arguments: &Arguments) -> Result<()> {
    let settings = arguments.source.settings()?;
    let args = NetArgs::from_command_line(&settings.command_line);
    if args.ignores_nbft {
        return stdout::line("the tables are ignored: rd.nvmf.nonbft or rd.nonvmf is given");
    }
    let (sysfs, network) = match &arguments.sysfs {
        Some(directory) => {
            let sysfs = SystemPath::captured(directory).map_err(|error| {
                Failure::other(format!("cannot open {}: {error}", directory.display()))
            })?;
            (sysfs, NetworkState::default())
        }
        None => (SystemPath::live().join("sys"), network()?),
    };
    let (tables, faults) = read_tables(&sysfs);
    for table in &tables {
        print_table(table)?;
    }
    let (connections, more) = connections(&tables);
    for connection in &connections {
        let way = connection.way(&network).unwrap_or_default();
        stdout::line(format!("connect: {}", connection.options(&way)))?;
    }
    if tables.is_empty() {
        stdout::line("the firmware has no table of an NVMe boot (NBFT)")?;
    }
    for fault in faults.iter().chain(&more) {
        tracing::warn!("{fault}");
    }
    Ok(())
}

fn print_table(table: &FirmwareTable) -> Result<()> {
    let host = &table.content.host;
    stdout::line(format!("{}: host {}", table.name, host.nqn))?;
    for nic in &table.content.nics {
        let vlan = nic.vlan.map(|id| format!(", VLAN {id}"));
        let address = match (nic.address, nic.by_dhcp) {
            (_, true) => "DHCP".to_owned(),
            (Some(address), false) => format!("{address}/{}", nic.prefix),
            (None, false) => "no address".to_owned(),
        };
        stdout::line(format!(
            "{}: NIC {} {}{}, {address}",
            table.name,
            nic.index,
            nic.mac,
            vlan.unwrap_or_default()
        ))?;
    }
    for namespace in &table.content.namespaces {
        let name = match namespace.nid {
            Some(nid) => nid.to_string(),
            None => namespace.nsid.to_string(),
        };
        stdout::line(format!(
            "{}: namespace {name} of {}",
            table.name, namespace.subsystem
        ))?;
    }
    Ok(())
}

fn network() -> Result<NetworkState> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(error.to_string()))?;
    runtime
        .block_on(landfall_network::observe())
        .map_err(|error| {
            Failure::other(format!("cannot read the network of this machine: {error}"))
        })
}
