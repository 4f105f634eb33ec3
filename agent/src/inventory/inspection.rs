//! What the collectors send to Ironic's inspection.

use std::time::Duration;

use tokio::sync::watch;

use super::collect::{CollectOptions, collect};
use super::collectors::{self, Collector, numa_topology, pci_devices, usb_devices};
use super::lldp;
use super::report_types::{Configuration, InspectionBody, Inventory, Manager};
use super::root_device::{choose, sets_below};
use super::root_device_hints::SkipList;
use super::system_path::SystemPath;
use super::wait_for_disk::{Patience, wait_for_disk};
use crate::network::NetworkState;

/// What the inspection needs and the inventory does not know by itself.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// The names of the collectors, in the operator's order.
    pub collectors: Vec<String>,
    /// How long a disk is waited for.
    pub patience: Patience,
    /// How long neighbours are listened for.
    pub lldp_timeout: Duration,
    /// Put what the neighbours said into each interface, the older way
    /// (`ipa-collect-lldp`).
    pub lldp_in_interfaces: bool,
    /// The network, for the addresses of the NICs at the end of all waits: a
    /// lease may arrive while the agent listens for neighbours.
    pub network: watch::Receiver<NetworkState>,
    /// What the neighbours said, where they have been listened to already.
    pub neighbours: Option<lldp::Neighbours>,
    /// The kernel argument `BOOTIF`, verbatim.
    pub bootif: Option<String>,
    /// Leave NICs that lead to the BMC out.
    pub hide_bmc_nics: bool,
    /// Names and versions of the hardware managers that we stand for.
    pub managers: &'static [(&'static str, &'static str)],
    /// The logs as Ironic stores them: tar.gz in base64.
    pub logs: fn() -> String,
}

/// Inspects the machine below `root` on a thread of its own, once a disk is
/// there or has been waited for long enough. Returns the body of the inspection
/// callback.
///
/// # Errors
/// If the thread ends early or JSON cannot hold what was found: bugs of ours.
pub async fn inspect(root: SystemPath, mut circumstances: Circumstances) -> Result<String, String> {
    let (chosen, faults) = collectors::by_names(&circumstances.collectors);
    for fault in &faults {
        tracing::warn!("{fault}");
    }
    let listens = chosen.contains(&Collector::Lldp) || circumstances.lldp_in_interfaces;
    let patience = circumstances.patience;
    let waited_below = root.clone();
    let disks = tokio::task::spawn_blocking(move || {
        let mut said = false;
        // Without events the list as it is now has to do.
        let _ = wait_for_disk(&waited_below, patience, |disks| {
            let any = disks
                .iter()
                .any(|disk| disk.traits.why_untouchable().is_none());
            if !any && !std::mem::replace(&mut said, true) {
                let seconds = patience.timeout.as_secs();
                tracing::info!("no disk yet: waiting for one, at most {seconds} s");
            }
            any
        });
    });
    let heard = circumstances.neighbours.take();
    let neighbours = if heard.is_some() {
        heard
    } else if listens {
        tracing::info!(
            "listening for LLDP, at most {} s",
            circumstances.lldp_timeout.as_secs()
        );
        Some(lldp::listen(&root, circumstances.lldp_timeout).await)
    } else {
        None
    };
    disks
        .await
        .map_err(|error| format!("the thread that waits for a disk ended: {error}"))?;
    tokio::task::spawn_blocking(move || {
        let body = gather(&root, &circumstances, &chosen, faults, neighbours);
        serde_json::to_string(&body).map_err(|error| format!("the inventory as JSON: {error}"))
    })
    .await
    .map_err(|error| format!("the thread that inspects ended: {error}"))?
}

/// Runs the collectors below `root`. `faults` is what went wrong before, and
/// anything in it makes Ironic fail the inspection, with the rest to look at.
pub fn gather(
    root: &SystemPath,
    circumstances: &Circumstances,
    chosen: &[Collector],
    mut faults: Vec<String>,
    neighbours: Option<lldp::Neighbours>,
) -> InspectionBody {
    let mut body = InspectionBody::default();
    for collector in chosen {
        match collector {
            Collector::Default => {
                let mut inventory = inventory(root, circumstances);
                if circumstances.lldp_in_interfaces {
                    for interface in &mut inventory.interfaces {
                        interface.lldp = neighbours
                            .as_ref()
                            .and_then(|all| all.get(&interface.name).cloned());
                    }
                }
                default(&mut body, root, inventory, circumstances);
            }
            Collector::PciDevices => body.pci_devices = Some(pci_devices::collect(root)),
            Collector::UsbDevices => body.usb_devices = Some(usb_devices::collect(root)),
            Collector::NumaTopology => match numa_topology::collect(root) {
                Ok(topology) => body.numa_topology = Some(topology),
                // The original leaves the member out and is content, too: a
                // kernel without NUMA is no fault of the machine.
                Err(reason) => tracing::warn!("collector numa-topology: {reason}"),
            },
            Collector::Lldp => {
                body.lldp_raw = Some(neighbours.clone().unwrap_or_default());
            }
            Collector::Logs => body.logs = Some((circumstances.logs)()),
        }
    }
    // In the original's words, by which operators find the list.
    faults.retain(|fault| !fault.is_empty());
    body.error = (!faults.is_empty()).then(|| {
        format!(
            "The following errors were encountered:\n* {}",
            faults.join("\n* ")
        )
    });
    body
}

fn inventory(root: &SystemPath, circumstances: &Circumstances) -> Inventory {
    let network = circumstances.network.borrow().clone();
    let options = CollectOptions {
        addresses: &network.addresses(),
        bootif: circumstances.bootif.as_deref(),
        hide_bmc_nics: circumstances.hide_bmc_nics,
        service_nic: network.service_nic(),
        ask_drivers: root.is_live(),
    };
    let (inventory, warnings) = collect(root, options);
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    inventory
}

/// What the collector `default` tells beside the inventory.
fn default(
    body: &mut InspectionBody,
    root: &SystemPath,
    inventory: Inventory,
    circumstances: &Circumstances,
) {
    // Hints are not known before the node is, so the default rule it is. A
    // machine without a disk is inspected all the same.
    let chosen = choose(
        &inventory.disks,
        None,
        &SkipList::default(),
        &sets_below(root),
    );
    body.root_disk = chosen.ok().cloned();
    body.boot_interface = Some(inventory.boot.pxe_interface.clone());
    body.configuration = Some(Configuration {
        collectors: circumstances.collectors.clone(),
        managers: circumstances
            .managers
            .iter()
            .map(|&(name, version)| Manager { name, version })
            .collect(),
    });
    body.inventory = Some(inventory);
}
