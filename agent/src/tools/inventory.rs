//! `inventory`: prints the hardware of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use landfall_devices::interface_names::{InterfaceName, Scheme};
use landfall_inventory::collect::{CollectOptions, collect};
use landfall_inventory::disks;
use landfall_inventory::report_types::Inventory;
use landfall_inventory::udev_properties::UdevProperties;
use landfall_report::failure::{Failure, Result};
use landfall_sys::system_path::SystemPath;
use serde_json::{Value, json};

use crate::tools::installed_names::installed_names;
use crate::tools::stdout;

/// `inventory`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Read the /sys, /proc and ioctl answers captured in this directory
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Naming scheme of NICs, overrides /proc/cmdline: v257, rhel-9.4
    #[arg(long, value_name = "SCHEME", value_parser = scheme)]
    naming_scheme: Option<Scheme>,
    /// Print the JSON that Ironic receives, with additional names
    #[arg(long)]
    json: bool,
}

/// Prints the inventory. Fails if the captured tree does not exist. A file of the tree
/// that cannot be read only causes a warning.
pub fn run(arguments: &Arguments) -> Result<()> {
    let root = match &arguments.root {
        None => SystemPath::live(),
        Some(directory) => SystemPath::captured(directory).map_err(|error| {
            Failure::other(format!(
                "cannot open the captured tree {}: {error}",
                directory.display()
            ))
        })?,
    };
    let options = CollectOptions {
        addresses: &BTreeMap::new(),
        bootif: None,
        hide_bmc_nics: false,
        service_nic: None,
        ask_drivers: root.is_live(),
    };
    let (mut inventory, warnings) = collect(&root, options);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let names = installed_names(&root, arguments.naming_scheme);
    for nic in &mut inventory.interfaces {
        if let Some(found) = names.get(&nic.name) {
            nic.name.clone_from(&found.name);
        }
    }
    if arguments.json {
        let mut document = serde_json::to_value(&inventory).unwrap_or_default();
        add_other_names(&mut document, &names);
        add_block_devices(&mut document, &root);
        return stdout::line(document);
    }
    lines(&inventory).iter().try_for_each(stdout::line)
}

/// The inventory as text for people.
fn lines(inventory: &Inventory) -> Vec<String> {
    let vendor = &inventory.system_vendor;
    let memory = &inventory.memory;
    let machine = format!(
        "{} {}, serial {}",
        vendor.manufacturer, vendor.product_name, vendor.serial_number
    );
    let processor = format!(
        "{} x {}, {} MiB, booted by {}",
        inventory.cpu.count,
        inventory.cpu.model_name,
        memory
            .physical_mb
            .or(memory.total.map(|bytes| bytes >> 20))
            .unwrap_or_default(),
        inventory.boot.current_boot_mode
    );
    let nics = inventory.interfaces.iter().map(|nic| {
        format!(
            "nic  {:12} {} {} {}",
            nic.name,
            nic.mac_address,
            if nic.has_carrier { "up" } else { "no carrier" },
            nic.driver.as_deref().unwrap_or("")
        )
    });
    let disks = inventory.disks.iter().map(|disk| {
        format!(
            "disk {:12} {:>10} {} {}",
            disk.name,
            landfall_report::mib(disk.size),
            disk.model.as_deref().unwrap_or("no model"),
            disk.serial.as_deref().unwrap_or("no serial")
        )
    });
    let machine = [machine, processor].into_iter();
    machine.chain(nics).chain(disks).collect()
}

fn scheme(name: &str) -> std::result::Result<Scheme, String> {
    Scheme::by_name(name)
        .ok_or_else(|| "expected v238 to v257, latest, or rhel-8.0 to rhel-10.1".to_owned())
}

/// Adds the kernel's name and the alternative names of each NIC. They are only for the
/// reader of the output: Ironic does not use them. For a NIC without a predictable name,
/// `name` and `kernel_name` are equal.
fn add_other_names(document: &mut Value, names: &BTreeMap<String, InterfaceName>) {
    let interfaces = document["interfaces"].as_array_mut();
    for nic in interfaces.into_iter().flatten() {
        let found = names.values().find(|found| nic["name"] == found.name);
        nic["kernel_name"] = found.map_or_else(|| nic["name"].clone(), |n| json!(n.kernel_name));
        nic["alternative_names"] = json!(found.map_or(&[][..], |n| &n.alternatives));
    }
}

/// Adds the properties that udev would set, for each disk and for each block device that
/// the inventory does not report as a disk. Also adds the reason why it does not.
fn add_block_devices(document: &mut Value, root: &SystemPath) {
    let mut others = Vec::new();
    for device in disks::devices(root) {
        let udev = json!(UdevProperties::of(&device.block, &device.name));
        let node = format!("/dev/{}", device.name);
        let reported = document["disks"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .find(|disk| disk["name"] == node);
        if let Some(disk) = reported {
            disk["kernel_name"] = json!(device.name);
            disk["udev"] = udev;
            continue;
        }
        let reason = match device.no_disk {
            Some(reason) => reason.to_string(),
            None => "nothing may be written to it".into(),
        };
        others.push(json!({
            "kernel_name": device.name,
            "size": device.size,
            "not_reported": reason,
            "udev": udev,
        }));
    }
    document["other_block_devices"] = others.into();
}
