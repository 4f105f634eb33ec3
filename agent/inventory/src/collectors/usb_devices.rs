//! The collector `usb-devices`, which lists dongles and similar devices.
//!
//! Ironic's agent lists the devices that lshw calls `generic`: lshw knows neither their
//! device class nor any of their interface classes (its usb.cc: audio, communication,
//! input, printer, storage, hub, wireless). The names come from the device's own strings.
//! If a device has no strings, lshw uses its database, which the ramdisk does not have;
//! this collector then reports empty names.

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use serde::Serialize;

/// Classes to which lshw assigns a type other than `generic` (usb.org, "defined class
/// codes").
const CLASSIFIED: [&str; 7] = ["01", "02", "03", "07", "08", "09", "e0"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsbDevice {
    product: String,
    vendor: String,
    /// `USB:bus:device`, in the form of lshw.
    handle: String,
}

/// Reads /sys/bus/usb/devices.
pub fn collect(root: &SystemPath) -> Vec<UsbDevice> {
    let directory = root.join("sys/bus/usb/devices");
    let names = sysfs::names(&directory);
    names
        .iter()
        // Interfaces have a colon in their names: `1-2:1.0` belongs to `1-2`.
        .filter(|name| !name.contains(':'))
        .filter_map(|name| {
            let device = directory.join(name);
            let text = |attribute: &str| sysfs::text(&device.join(attribute));
            let interfaces = names
                .iter()
                .filter(|other| other.split_once(':').is_some_and(|(of, _)| of == name))
                .filter_map(|other| sysfs::text(&directory.join(other).join("bInterfaceClass")));
            let mut classes = interfaces.chain(text("bDeviceClass"));
            if classes.any(|class| CLASSIFIED.contains(&class.as_str())) {
                return None;
            }
            Some(UsbDevice {
                product: text("product").unwrap_or_default(),
                vendor: text("manufacturer").unwrap_or_default(),
                handle: format!("USB:{}:{}", text("busnum")?, text("devnum")?),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_devices_without_a_class_are_listed() {
        let device = |name: &str, class: &str, interface: &str| {
            format!(
                "sys/bus/usb/devices/{name}/bDeviceClass = {class}\\n\n\
                 sys/bus/usb/devices/{name}/busnum = 1\\n\n\
                 sys/bus/usb/devices/{name}/devnum = 4\\n\n\
                 sys/bus/usb/devices/{name}/product = Key of {name}\\n\n\
                 sys/bus/usb/devices/{name}/manufacturer = ACME\\n\n\
                 sys/bus/usb/devices/{name}:1.0/bInterfaceClass = {interface}\\n\n"
            )
        };
        let root = plant(
            &[
                device("usb1", "09", "09"),
                device("1-1", "00", "08"),
                device("1-2", "00", "ff"),
                device("1-2.1", "00", "03"),
            ]
            .concat(),
        );
        assert_eq!(
            serde_json::to_value(collect(root.path())).unwrap(),
            json!([{"product": "Key of 1-2", "vendor": "ACME", "handle": "USB:1:4"}])
        );
    }
}
