//! What an inspection can collect, by the names that operators write into
//! `ipa-inspection-collectors`.

pub mod numa_topology;
pub mod pci_devices;
pub mod usb_devices;

/// One part of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collector {
    /// The inventory, the root disk, the boot NIC.
    Default,
    /// What the agent has logged.
    Logs,
    /// Every PCI device.
    PciDevices,
    /// USB devices that are neither disks nor keyboards.
    UsbDevices,
    /// Memory, cores and NICs by NUMA node.
    NumaTopology,
    /// What the neighbours on the network say of themselves.
    Lldp,
}

/// Every collector by its name, those of the original's entry points (its setup.cfg).
pub const NAMES: [(&str, Collector); 6] = [
    ("default", Collector::Default),
    ("logs", Collector::Logs),
    ("pci-devices", Collector::PciDevices),
    ("usb-devices", Collector::UsbDevices),
    ("numa-topology", Collector::NumaTopology),
    ("lldp", Collector::Lldp),
];

/// The collectors of these names, and a fault for each name that none has.
/// `logs` goes last, wherever it stands: it would miss what the others log.
pub fn by_names(names: &[String]) -> (Vec<Collector>, Vec<String>) {
    let mut collectors = Vec::new();
    let mut faults = Vec::new();
    for name in names {
        match NAMES.iter().find(|(known, _)| known == name) {
            Some((_, collector)) if collectors.contains(collector) => {}
            Some((_, collector)) => collectors.push(*collector),
            None => faults.push(format!(
                "collector {name} is not available: expected some of {}",
                NAMES.map(|(known, _)| known).join(", ")
            )),
        }
    }
    collectors.sort_by_key(|collector| *collector == Collector::Logs);
    (collectors, faults)
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
            let (found, told) = by_names(&names);
            assert_eq!((found, told.len()), (expected, faults), "{text}: {told:?}");
        }
    }
}
