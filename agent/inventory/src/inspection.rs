//! Runs the collectors and builds the data for Ironic's inspection.

use std::time::Duration;

use landfall_network::NetworkState;
use landfall_network_plan::Embedded;
use landfall_report::failure::Failure;
use tokio::sync::watch;

use super::collect::{CollectOptions, collect};
use super::collectors::{self, Collector, numa_topology, pci_devices, usb_devices};
use super::disk_arrival::DiskArrival;
use super::driver_faults;
use super::given_hints::{GivenHints, Overrider};
use super::lldp;
use super::report_types::{Configuration, InspectionBody, Inventory, Manager};
use super::root_device::{choose, sets_below};
use super::root_device_hints::SkipList;
use super::system_path::SystemPath;

/// Inputs of the inspection that are not part of the inventory.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// The names of the collectors, in the operator's order.
    pub collectors: Vec<String>,
    /// The wait for the disks.
    pub disk_arrival: DiskArrival,
    /// How long to listen for LLDP neighbours.
    pub lldp_timeout: Duration,
    /// Whether to also add the LLDP data to each interface, which is the older format
    /// (`ipa-collect-lldp`).
    pub lldp_in_interfaces: bool,
    /// The state of the network. The agent reads the addresses of the NICs from it only
    /// after all waits, because a lease may arrive while the agent listens for
    /// neighbours.
    pub network: watch::Receiver<NetworkState>,
    /// The LLDP data, if the agent has already listened for neighbours.
    pub neighbours: Option<lldp::Neighbours>,
    /// The kernel argument `BOOTIF`, verbatim.
    pub bootif: Option<String>,
    /// Whether to leave out NICs that lead to the BMC.
    pub hide_bmc_nics: bool,
    /// The embedded host of this machine. Its hints choose the root disk until the node
    /// is known.
    pub embedded: Embedded,
    /// Names and versions of the hardware managers that this agent replaces.
    pub managers: &'static [(&'static str, &'static str)],
    /// Returns the logs in the form that Ironic stores: tar.gz in base64.
    pub logs: fn() -> String,
}

/// Waits for a disk for at most the configured time, then inspects the machine
/// below `root` on a separate thread. Returns the body of the inspection callback.
///
/// # Errors
/// If the thread panics, or if the result cannot be serialised as JSON. Both are bugs in
/// the agent.
pub async fn inspect(
    root: SystemPath,
    mut circumstances: Circumstances,
) -> Result<String, Failure> {
    let (chosen, faults) = collectors::by_names(&circumstances.collectors);
    for fault in &faults {
        tracing::warn!("{fault}");
    }
    let listens = chosen.contains(&Collector::Lldp) || circumstances.lldp_in_interfaces;
    let disk_arrival = circumstances.disk_arrival;
    let waited_below = root.clone();
    let disks = tokio::task::spawn_blocking(move || {
        let mut reported = false;
        // If the agent cannot receive the kernel's events, it continues with the current
        // list of disks.
        let _ = disk_arrival.wait(&waited_below, |disks| {
            let any = disks
                .iter()
                .any(|disk| disk.traits.why_untouchable().is_none());
            if !any && !std::mem::replace(&mut reported, true) {
                let seconds = disk_arrival.limit().as_secs();
                tracing::info!("no disk yet: waiting for one, at most {seconds} s");
            }
            any
        });
    });
    let known = circumstances.neighbours.take();
    let neighbours = if known.is_some() {
        known
    } else if listens {
        tracing::info!(
            "listening for LLDP, at most {} s",
            circumstances.lldp_timeout.as_secs()
        );
        Some(lldp::listen(&root, circumstances.lldp_timeout).await)
    } else {
        None
    };
    disks.await.map_err(|error| {
        Failure::other(format!("the thread that waits for a disk ended: {error}"))
    })?;
    tokio::task::spawn_blocking(move || {
        let body = gather(&root, &circumstances, &chosen, faults, neighbours);
        serde_json::to_string(&body)
            .map_err(|error| Failure::other(format!("cannot write the inventory as JSON: {error}")))
    })
    .await
    .map_err(|error| Failure::other(format!("the thread that inspects ended: {error}")))?
}

/// Runs the collectors below `root`. `faults` contains the errors of earlier steps. If
/// there are any, Ironic fails the inspection, but still receives all other data.
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
                // Ironic's agent also leaves this member out and reports no error,
                // because values that the kernel does not report are no fault of the
                // machine.
                Err(reason) => tracing::warn!("collector numa-topology: {reason}"),
            },
            Collector::Lldp => {
                body.lldp_raw = Some(neighbours.clone().unwrap_or_default());
            }
            Collector::Logs => body.logs = Some((circumstances.logs)()),
        }
    }
    // The text is that of Ironic's agent, so that operators can search for it.
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

/// Adds what the collector `default` reports in addition to the inventory.
fn default(
    body: &mut InspectionBody,
    root: &SystemPath,
    inventory: Inventory,
    circumstances: &Circumstances,
) {
    // Ironic's hints are unknown until the agent knows the node. A machine without a root
    // disk is inspected as well.
    let chosen = GivenHints::in_ramdisk(&circumstances.embedded, Overrider::Node);
    let chosen = chosen.and_then(|hints| {
        let sets = sets_below(root);
        let skip_list = SkipList::default();
        let choice = choose(&inventory.disks, hints.as_ref(), &skip_list, &sets)?;
        Ok(choice.disk.clone())
    });
    body.root_disk = chosen.ok();
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
    body.driver_faults = driver_faults::collect(root);
}
