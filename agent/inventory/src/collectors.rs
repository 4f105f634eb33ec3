//! Defines the collectors of an inspection, with the names that operators use in
//! `ipa-inspection-collectors`.

pub mod numa_topology;
pub mod pci_devices;
pub mod usb_devices;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collector {
    /// The inventory, the root disk and the boot NIC.
    Default,
    /// The agent's logs.
    Logs,
    PciDevices,
    /// USB devices of classes that lshw does not know; no disks or keyboards.
    UsbDevices,
    /// Memory, cores and NICs by NUMA node.
    NumaTopology,
    /// What the network neighbours report about themselves.
    Lldp,
}

/// The names by which operators request collectors. They are the names of the entry
/// points of Ironic's agent (its setup.cfg).
pub const NAMES: [(&str, Collector); 6] = [
    ("default", Collector::Default),
    ("logs", Collector::Logs),
    ("pci-devices", Collector::PciDevices),
    ("usb-devices", Collector::UsbDevices),
    ("numa-topology", Collector::NumaTopology),
    ("lldp", Collector::Lldp),
];

/// The collectors with these names, and a fault for each unknown name. `logs` always runs
/// last, so that the logs include the messages of the other collectors.
pub fn by_names(names: &[String]) -> (Vec<Collector>, Vec<String>) {
    let mut collectors = Vec::new();
    let mut faults = Vec::new();
    for name in names {
        match NAMES.iter().find(|(known, _)| known == name) {
            Some((_, collector)) if collectors.contains(collector) => {}
            Some((_, collector)) => collectors.push(*collector),
            None => faults.push(unavailable(name)),
        }
    }
    collectors.sort_by_key(|collector| *collector == Collector::Logs);
    (collectors, faults)
}

/// Collectors of Ironic's agent that this agent does not have, and what they need.
const NOT_OFFERED: [(&str, &str); 2] = [
    ("extra-hardware", "the Python program hardware-detect"),
    ("dmi-decode", "dmidecode"),
];

fn unavailable(name: &str) -> String {
    let expected = NAMES.map(|(known, _)| known).join(", ");
    match NOT_OFFERED.iter().find(|(known, _)| *known == name) {
        Some((_, needs)) => format!(
            "collector {name} is not available: it needs {needs}, which this ramdisk does not have; expected some of {expected} -- remove it from ipa-inspection-collectors, or inspect this machine with another ramdisk"
        ),
        None => format!(
            "collector {name} is not available: expected some of {expected} -- remove it from ipa-inspection-collectors"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_collectors() {
        for (text, expected, faults) in [
            ("default", vec![Collector::Default], 0),
            (
                "default,logs,pci-devices,default",
                vec![Collector::Default, Collector::PciDevices, Collector::Logs],
                0,
            ),
            ("lldp,extra-hardware,x", vec![Collector::Lldp], 2),
        ] {
            let names: Vec<String> = text.split(',').map(str::to_owned).collect();
            let (found, reported) = by_names(&names);
            assert_eq!(
                (found, reported.len()),
                (expected, faults),
                "{text}: {reported:?}"
            );
        }
    }
}
