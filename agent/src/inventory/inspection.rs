//! What the collector `default` sends to Ironic's inspection.

use super::report_types::{Configuration, InspectionBody, Inventory, Manager};
use super::root_device::choose;
use super::root_device_hints::SkipList;

/// The collector that this module is.
const COLLECTOR: &str = "default";

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
