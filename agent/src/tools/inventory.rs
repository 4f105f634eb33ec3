//! `inventory`: what this machine is made of.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;

use crate::failure::Result;
use crate::inventory::collect::{CollectOptions, collect};
use crate::report;

/// `inventory`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Print the JSON that goes to Ironic's inspection
    #[arg(long)]
    json: bool,
}

/// Prints the inventory.
///
/// # Errors
/// None today; what cannot be read is a warning.
pub fn run(arguments: &Arguments) -> Result<()> {
    let options = CollectOptions {
        addresses: &BTreeMap::new(),
        bootif: None,
        hide_bmc_nics: false,
        ask_drivers: true,
    };
    let (inventory, warnings) = collect(Path::new("/"), options);
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
