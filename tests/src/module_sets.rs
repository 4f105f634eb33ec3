//! Checks the built-in module sets against the modules of a real kernel.

use std::collections::BTreeSet;

use landfall_initramfs::kernel_modules::{ModuleTree, Selection};
use landfall_initramfs::kernel_source::{Kernel, KernelSource};
use landfall_initramfs::modinfo::ModInfo;
use landfall_initramfs::module_set::ModuleSet;

use crate::artifacts;

/// Folders of drivers for hardware that a server may need before the image is on
/// its disk.
const HARDWARE: [&str; 11] = [
    "drivers/ata/",
    "drivers/block/",
    "drivers/infiniband/hw/",
    "drivers/message/",
    "drivers/mmc/host/",
    "drivers/net/ethernet/",
    "drivers/net/usb/",
    "drivers/nvme/",
    "drivers/scsi/",
    "drivers/usb/host/",
    "drivers/watchdog/",
];

/// Drivers in the folders [`HARDWARE`] that are left out on purpose, with the reason.
/// The `-` lines of the set leave out more.
const LEFT_OUT: [(&str, &str); 18] = [
    ("alim1535_wdt", "a chip set of 2001"),
    ("alim7101_wdt", "a chip set of 2002"),
    (
        "floppy",
        "no server has a floppy drive; BMCs emulate a USB disk",
    ),
    ("hfi1", "Omni-Path: 1.6 MB, and no host installs over it"),
    ("ib_mthca", "cards of 2003 to 2008"),
    ("ib_qib", "cards of 2008"),
    ("ni903x_wdt", "a laboratory controller"),
    ("nic7018_wdt", "a laboratory controller"),
    ("nv_tco", "a chip set of 2006"),
    ("pcwd_pci", "an extension card that firmware does not arm"),
    ("pcwd_usb", "an extension card that firmware does not arm"),
    ("toshsd", "laptops"),
    ("ushc", "a reader for cameras"),
    ("usnic_verbs", "MPI in user space, not a network interface"),
    ("via_sdmmc", "laptops"),
    ("vub300", "a reader for cameras"),
    ("wbsd", "laptops"),
    ("wdt_pci", "an extension card that firmware does not arm"),
];

/// Drivers that an earlier set lacked and operators needed. A wildcard in the set or a
/// renamed module must not lose them.
const WANTED: [&str; 31] = [
    "ax88179_178a",
    "asix",
    "bfa",
    "button",
    "cdc_ether",
    "cdc_ncm",
    "csiostor",
    "evdev",
    "hid_generic",
    "hpwdt",
    "i2c_piix4",
    "i6300esb",
    "iTCO_wdt",
    "ib_ipoib",
    "irdma",
    "lan78xx",
    "liquidio",
    "lpc_ich",
    "mlx4_ib",
    "mlx5_ib",
    "mmc_block",
    "nfp",
    "qla4xxx",
    "r8152",
    "rndis_host",
    "sdhci_acpi",
    "sdhci_pci",
    "sp5100_tco",
    "tulip",
    "usbhid",
    "wdat_wdt",
];

pub(crate) struct Debian {
    pub(crate) tree: ModuleTree,
    pub(crate) server: Selection,
    _kernel: Kernel,
}

impl Debian {
    pub(crate) fn new() -> Self {
        let deb = artifacts::generic_kernel_deb().unwrap();
        let kernel = KernelSource::Debs(vec![deb]).resolve().unwrap();
        let tree = ModuleTree::open(&kernel.modules).unwrap();
        let set = ModuleSet::built_in("server").unwrap();
        let server = tree.closure(set.select(&tree).unwrap()).unwrap();
        Self {
            tree,
            server,
            _kernel: kernel,
        }
    }
}

#[test]
fn the_server_set_has_a_driver_for_every_card_that_it_does_not_leave_out() {
    let debian = Debian::new();
    let set = ModuleSet::built_in("server").unwrap();
    let mut decided: BTreeSet<&str> = LEFT_OUT.iter().map(|(name, _)| *name).collect();
    decided.extend(debian.server.keys().map(String::as_str));
    let left_out = set.resolve(&debian.tree).left_out;
    decided.extend(left_out.iter().map(String::as_str));
    let forgotten: Vec<&str> = debian
        .tree
        .names()
        .filter(|name| !decided.contains(name))
        .filter(|name| {
            let path = debian.tree.path_of(name).unwrap();
            let below = path.strip_prefix("kernel/").unwrap_or(path);
            let of_hardware = HARDWARE.iter().any(|place| below.starts_with(place));
            of_hardware && is_asked_for_by_a_device(&debian.tree.directory().join(path))
        })
        .collect();
    assert!(
        forgotten.is_empty(),
        "neither in the set server nor left out with a reason: {}",
        forgotten.join(" ")
    );
    let missing: Vec<&str> = WANTED
        .into_iter()
        .filter(|name| !debian.server.contains_key(*name))
        .collect();
    assert!(missing.is_empty(), "not in the set: {}", missing.join(" "));
}

/// Whether the module has an alias for a device on a bus: a device that is plugged in,
/// soldered on or described by ACPI.
fn is_asked_for_by_a_device(module: &std::path::Path) -> bool {
    const BUSES: [&str; 6] = ["pci:", "usb:", "acpi", "auxiliary:", "virtio:", "vmbus:"];
    let aliases = ModInfo::of_file(module).unwrap().aliases;
    let on_a_bus = |alias: &String| BUSES.iter().any(|bus| alias.starts_with(bus));
    aliases.iter().any(on_a_bus)
}

#[test]
fn every_name_of_a_set_is_one_of_the_kernel() {
    let debian = Debian::new();
    for name in ["vm", "server"] {
        let set = ModuleSet::built_in(name).unwrap();
        let unknown: Vec<String> = set
            .resolve(&debian.tree)
            .unknown
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(unknown.is_empty(), "set {name}: {}", unknown.join(", "));
    }
}
