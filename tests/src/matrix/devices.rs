//! Rows whose guest has many disk controllers and NICs. The inventory must contain all
//! of them.
//!
//! Each NIC is on a network of its own, in which QEMU answers by DHCP. An address
//! proves that the driver of the NIC sends and receives.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::emulated::{Emulated, Placed, placed, usb_controller};
use super::{KERNELS, MODULE_SETS, value};
use crate::journal::{Event, Source};
use crate::known_hardware;
use crate::lab::Lab;
use crate::ramdisk_parts::{Kernel, ModuleSet};
use crate::site::{Network, Plan};
use crate::vm::Extra;

/// The time limit from power on to the inventory. Each driver needs some time under
/// emulation.
const INVENTORY: Duration = Duration::from_secs(480);

/// In bytes: the size of a disk. QEMU requires a power of two for an SD card.
const DISK: u64 = 1 << 30;

/// A guest with devices.
#[derive(Debug, Clone)]
pub struct Devices {
    kernel: Kernel,
    module_set: ModuleSet,
    /// The devices for which the ramdisk has a driver that works.
    pub driven: Vec<Emulated>,
    /// The devices that `driver_faults` of the inventory must name.
    pub faulty: Vec<Emulated>,
}

impl Devices {
    pub(super) fn parse(cells: &[&str]) -> Result<Self> {
        let [kernel, module_set, driven, faulty] = *cells else {
            anyhow::bail!("expected five cells, found {}", cells.len() + 1);
        };
        let named = |cell: &str| -> Result<Vec<Emulated>> {
            let names = cell.split(' ').filter(|name| *name != "-");
            names.map(Emulated::named).collect()
        };
        let driven = named(driven)?;
        ensure!(
            driven.iter().any(|device| device.is_nic()),
            "devices with a driver: expected a NIC, found none"
        );
        Ok(Self {
            kernel: value("kernel", kernel, &KERNELS)?,
            module_set: value("module set", module_set, &MODULE_SETS)?,
            driven,
            faulty: named(faulty)?,
        })
    }

    pub(super) async fn run(&self, lab: &Lab) -> Result<()> {
        let devices = placed(self.driven.iter().chain(&self.faulty).copied());
        let (driven, faulty) = devices.split_at(self.driven.len());
        let inventory = self.inventory(lab, &devices).await?;
        let mut wrong = Vec::new();
        for device in driven {
            wrong.extend(if device.is_nic() {
                let driver = known_hardware::driver_of(device.name())?;
                wrong_nic(device, driver, &inventory)
            } else {
                wrong_disk(device, &inventory)
            });
            let fault = fault_of(device, &inventory);
            wrong.extend(fault.map(|fault| format!("{}: {fault}", device.name())));
        }
        let silent = faulty.iter();
        let silent = silent.filter(|device| fault_of(device, &inventory).is_none());
        wrong.extend(silent.map(|device| {
            format!(
                "{}: expected an entry of driver_faults, found {}",
                device.name(),
                inventory["driver_faults"]
            )
        }));
        ensure!(
            wrong.is_empty(),
            "the inventory differs:\n{}",
            wrong.join("\n")
        );
        Ok(())
    }

    /// Boots a guest with these devices and returns its inventory.
    async fn inventory(&self, lab: &Lab, devices: &[Placed]) -> Result<Value> {
        let plan = Plan {
            kernel: self.kernel,
            module_set: self.module_set,
            network: Network::Given("ip=dhcp"),
            // The agent sends the inventory when all NICs have an address.
            // `landfall.bmc_nics=1` keeps the USB NIC in the inventory: its driver is
            // also the driver of a BMC's NIC to the host.
            more_arguments: "landfall.bmc_nics=1 ipa-inspection-dhcp-all-interfaces=1 \
                             ipa-inspection-dhcp-wait-timeout=180",
            ..Plan::default()
        };
        let mut site = plan.site(lab).await?;
        site.script.hold = true;
        let nics = devices.iter().filter(|device| device.is_nic());
        site.script.macs = nics.map(Placed::mac).collect();
        site.machine.disks.clear();
        site.machine.nics.clear();
        let mut options: Vec<_> = usb_controller(devices).into_iter().collect();
        for device in devices {
            let content = lab.path(&format!("{}.raw", device.serial()));
            std::fs::File::create(&content)?.set_len(DISK)?;
            options.extend(device.options(&content));
        }
        let options = options.into_iter();
        let options = options.map(|(option, value)| Extra::QemuOption(option, value));
        site.machine.extras.extend(options);
        let services = site.serve(lab).await?;
        let guest = site.power_on(lab).await?;
        let is_inventory = |event: &Event| {
            event.source == Source::Conductor && event.text.starts_with("continue_inspection 202")
        };
        let start = lab.journal.start();
        lab.journal
            .wait_for("the inventory", start, INVENTORY, is_inventory)
            .await?;
        guest.cut_power().await?;
        services.conductor.inventory().context("no inventory")
    }
}

/// The text of the entry for this device in `driver_faults` of the inventory, if there
/// is one.
fn fault_of<'a>(device: &Placed, inventory: &'a Value) -> Option<&'a Value> {
    let mut faults = items(&inventory["driver_faults"]);
    let found = faults.find(|fault| device.is_at_fault(fault));
    found.map(|fault| &fault["text"])
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Describes how the inventory differs from this NIC. `None` if the inventory is right.
fn wrong_nic(device: &Placed, driver: &str, inventory: &Value) -> Option<String> {
    let name = device.name();
    let nics = &inventory["inventory"]["interfaces"];
    let mac = device.mac();
    let Some(nic) = items(nics).find(|nic| nic["mac_address"] == mac) else {
        return Some(format!("{name}: expected a NIC with {mac}, found {nics}"));
    };
    let address = device.address();
    let is_right = nic["driver"] == driver && nic["ipv4_address"] == address;
    (!is_right).then(|| {
        format!("{name}: expected the driver {driver} and the address {address}, found {nic}")
    })
}

/// Describes how the inventory differs from this disk. `None` if the inventory is
/// right.
fn wrong_disk(device: &Placed, inventory: &Value) -> Option<String> {
    let name = device.name();
    let disks = &inventory["inventory"]["disks"];
    let serial = device.serial();
    let Some(disk) = items(disks).find(|disk| disk["serial"] == serial) else {
        return Some(format!(
            "{name}: expected a disk with the serial number {serial}, found {disks}"
        ));
    };
    // A disk without a path part has no by_path, so there is nothing more to check.
    let part = device.path_part()?;
    let by_path = disk["by_path"].as_str().unwrap_or_default();
    let is_right = by_path.contains(&part);
    (!is_right).then(|| format!("{name}: expected a by_path with {part}, found {disk}"))
}
