//! `inventory`: what this machine is made of.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::failure::{Class, Failure, Result};
use crate::inventory::collect::{CollectOptions, collect};
use crate::inventory::system_path::SystemPath;
use crate::report;

/// `inventory`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Read the /sys, /proc and ioctl answers captured in this directory
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the JSON that goes to Ironic's inspection
    #[arg(long)]
    json: bool,
}

/// Prints the inventory.
///
/// # Errors
/// If there is no captured tree. What cannot be read in it is a warning.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = match &arguments.root {
        None => SystemPath::live(),
        Some(directory) => SystemPath::captured(directory).map_err(|error| {
            Failure::new(
                Class::CommandExecutionError,
                format!("opening the captured tree {}: {error}", directory.display()),
            )
        })?,
    };
    let options = CollectOptions {
        addresses: &BTreeMap::new(),
        bootif: None,
        hide_bmc_nics: false,
        ask_drivers: root.is_live(),
    };
    let (inventory, warnings) = collect(&root, options);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if arguments.json {
        println!("{}", serde_json::to_value(&inventory).unwrap_or_default());
        return Ok(());
    }
    let vendor = &inventory.system_vendor;
    println!(
        "{} {}, serial {}",
        vendor.manufacturer, vendor.product_name, vendor.serial_number
    );
    let memory = &inventory.memory;
    println!(
        "{} x {}, {} MiB, booted by {}",
        inventory.cpu.count,
        inventory.cpu.model_name,
        memory
            .physical_mb
            .or(memory.total.map(|bytes| bytes >> 20))
            .unwrap_or_default(),
        inventory.boot.current_boot_mode
    );
    for nic in &inventory.interfaces {
        println!(
            "nic  {:12} {} {} {}",
            nic.name,
            nic.mac_address,
            if nic.has_carrier { "up" } else { "no carrier" },
            nic.driver.as_deref().unwrap_or("")
        );
    }
    for disk in &inventory.disks {
        println!(
            "disk {:12} {:>10} {} {}",
            disk.name,
            report::mib(disk.size),
            disk.model.as_deref().unwrap_or("no model"),
            disk.serial.as_deref().unwrap_or("no serial")
        );
    }
    Ok(())
}
