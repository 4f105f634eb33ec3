//! Reports devices without a driver, and drivers without their firmware, as an
//! additional member of the inspection data. Ironic does not know this member, but
//! stores it with the node.

use landfall_devices::driver_faults::{self, Bus, DriverFault, Lack, Modules};
use landfall_sys::system_path::SystemPath;
use serde::Serialize;

/// A network card or disk controller that does not work, or does not work fully.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedFault {
    /// `pci` or `usb`.
    bus: &'static str,
    /// The name on its bus: `0000:03:00.0`.
    address: String,
    /// Vendor and device: `8086:1209`.
    id: String,
    /// Class, subclass and interface: `020000`.
    class: String,
    vendor: Option<String>,
    /// The driver that did not find its firmware; null if the device has no driver.
    driver: Option<String>,
    /// The modules that support a device without a driver. Empty if the kernel has none,
    /// if they are not known, or if the device has a driver.
    modules: Vec<String>,
    missing_firmware: Vec<ReportedFile>,
    /// A sentence that describes this fault.
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ReportedFile {
    /// The path below `/lib/firmware`.
    file: String,
    /// The Debian package that has the file, in words.
    package: Option<String>,
}

/// The faults of the running machine. A captured machine has none, because a capture
/// contains neither the kernel's log nor its modules.
pub(crate) fn collect(root: &SystemPath) -> Vec<ReportedFault> {
    if !root.is_live() {
        return Vec::new();
    }
    let faults = driver_faults::all(root).into_iter();
    faults.map(reported).collect()
}

fn reported(fault: DriverFault) -> ReportedFault {
    let text = fault.to_string();
    let (driver, modules, files) = match fault.lack {
        Lack::Driver(Modules::LeftOut(modules) | Modules::Refused(modules)) => {
            (None, modules, Vec::new())
        }
        Lack::Driver(Modules::None | Modules::Unknown) => (None, Vec::new(), Vec::new()),
        Lack::Firmware { driver, files, .. } => (Some(driver), Vec::new(), files),
    };
    let files = files.into_iter().map(|file| ReportedFile {
        file: file.path,
        package: file.package,
    });
    ReportedFault {
        bus: match fault.bus {
            Bus::Pci => "pci",
            Bus::Usb => "usb",
        },
        address: fault.address,
        id: fault.id,
        class: fault.class,
        vendor: fault.vendor,
        driver,
        modules,
        missing_firmware: files.collect(),
        text,
    }
}

#[cfg(test)]
mod tests {
    use landfall_devices::driver_faults::{Effect, MissingFile, Purpose};
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_have_the_same_members() {
        let fault = |lack| DriverFault {
            bus: Bus::Pci,
            purpose: Purpose::Network,
            address: "0000:00:03.0".to_owned(),
            id: "8086:1209".to_owned(),
            class: "020000".to_owned(),
            vendor: Some("Intel".to_owned()),
            lack,
        };
        let found = reported(fault(Lack::Driver(Modules::LeftOut(vec!["e100".into()]))));
        let mut expected = json!({
            "bus": "pci", "address": "0000:00:03.0", "id": "8086:1209", "class": "020000",
            "vendor": "Intel", "driver": null, "modules": ["e100"], "missing_firmware": [],
            "text": "no driver for network card 0000:00:03.0 (PCI ID 8086:1209, class 020000, Intel): the kernel's module e100 would drive it, and is not in this ramdisk",
        });
        assert_eq!(serde_json::to_value(found).unwrap(), expected);

        let file = MissingFile {
            path: "e100/a.bin".to_owned(),
            package: None,
        };
        let found = reported(fault(Lack::Firmware {
            driver: "e100".to_owned(),
            files: vec![file],
            effect: Effect::Off,
        }));
        expected["driver"] = json!("e100");
        expected["modules"] = json!([]);
        expected["missing_firmware"] = json!([{"file": "e100/a.bin", "package": null}]);
        expected["text"] = json!(
            "the driver e100 of network card 0000:00:03.0 (PCI ID 8086:1209, class 020000, Intel) did not find its firmware e100/a.bin (in no known package)"
        );
        assert_eq!(serde_json::to_value(found).unwrap(), expected);
    }
}
