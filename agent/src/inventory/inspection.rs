//! What the collector `default` sends to Ironic's inspection.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use super::collect::{CollectOptions, collect};
use super::report_types::{Configuration, InspectionBody, Inventory, Manager};
use super::root_device::choose;
use super::root_device_hints::SkipList;
use super::wait_for_disk::{Patience, wait_for_disk};

/// The collector that this module is.
const COLLECTOR: &str = "default";

/// What the inspection needs and the inventory does not know by itself.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// How long a disk is waited for.
    pub patience: Patience,
    /// The addresses of each NIC by its name.
    pub addresses: BTreeMap<String, Vec<IpAddr>>,
    /// The kernel argument `BOOTIF`, verbatim.
    pub bootif: Option<String>,
    /// Names and versions of the hardware managers that we stand for.
    pub managers: &'static [(&'static str, &'static str)],
}

/// Inspects this machine on a thread of its own, once a disk is there or has
/// been waited for long enough. Returns the body of the inspection callback.
///
/// # Errors
/// If the thread ends early or JSON cannot hold what was found: bugs of ours.
pub async fn inspect(circumstances: Circumstances) -> Result<String, String> {
    tokio::task::spawn_blocking(move || {
        let root = Path::new("/");
        // Without events the list as it is now has to do.
        let _ = wait_for_disk(root, circumstances.patience, |disks| !disks.is_empty());
        let options = CollectOptions {
            addresses: &circumstances.addresses,
            bootif: circumstances.bootif.as_deref(),
            hide_bmc_nics: true,
            ask_drivers: true,
        };
        let (inventory, warnings) = collect(root, options);
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        serde_json::to_string(&body(&inventory, circumstances.managers, &[]))
            .map_err(|error| format!("the inventory as JSON: {error}"))
    })
    .await
    .map_err(|error| format!("the thread that inspects ended: {error}"))?
}

/// The body of the inspection callback. `managers` are names and versions of
/// the hardware managers that we stand for; `errors` is what went wrong on the
/// way, and anything in it makes Ironic fail the inspection.
pub fn body<'a>(
    inventory: &'a Inventory,
    managers: &[(&'a str, &'a str)],
    errors: &[String],
) -> InspectionBody<'a> {
    InspectionBody {
        inventory,
        // Hints are not known before the node is, so the default rule it is. A
        // machine without a disk is inspected all the same.
        root_disk: choose(&inventory.disks, None, &SkipList::default()).ok(),
        boot_interface: inventory.boot.pxe_interface.as_deref(),
        configuration: Configuration {
            collectors: vec![COLLECTOR],
            managers: managers
                .iter()
                .map(|&(name, version)| Manager { name, version })
                .collect(),
        },
        error: (!errors.is_empty())
            .then(|| format!("the inspection met errors:\n* {}", errors.join("\n* "))),
    }
}
