//! Collects the whole inventory in one call.

use std::collections::BTreeMap;
use std::net::IpAddr;

use landfall_boot_params::BootInterface;

use super::bmc::{self, BmcAddresses};
use super::nics::NicOptions;
use super::report_types::Inventory;
use super::system_path::SystemPath;
use super::{Warning, boot_mode, cpu, disks, firmware, memory, nics, sysfs};
use crate::host_name;

/// Inputs of the inventory that /sys does not have.
#[derive(Debug, Clone, Copy)]
pub struct CollectOptions<'a> {
    /// The addresses of each interface, in the kernel's order.
    pub addresses: &'a BTreeMap<String, Vec<IpAddr>>,
    /// The kernel argument `BOOTIF`, verbatim.
    pub bootif: Option<&'a str>,
    /// Leave out NICs that lead to the BMC, as OpenShift's ramdisk does.
    pub hide_bmc_nics: bool,
    /// The NIC that reaches the provisioning service; reported even if it leads to the
    /// BMC.
    pub service_nic: Option<&'a str>,
    /// Whether to ask the drivers of the running kernel for values that are not in /sys.
    /// False for a captured tree.
    pub ask_drivers: bool,
}

/// Collects everything below `root`: `/`, or a captured tree in tests.
pub fn collect(root: &SystemPath, options: CollectOptions<'_>) -> (Inventory, Vec<Warning>) {
    let mut warnings = Vec::new();
    let mut take = |found: Vec<Warning>| warnings.extend(found);
    let nic_options = NicOptions {
        addresses: options.addresses,
        hide_bmc_nics: options.hide_bmc_nics,
        boot_mac: options
            .bootif
            .and_then(|text| BootInterface::parse(text).ok())
            .map(|nic| nic.mac),
        service_nic: options.service_nic,
        ask_drivers: options.ask_drivers,
    };
    let (interfaces, found) = nics::collect(root, nic_options);
    take(found);
    let (cpu, found) = cpu::collect(root);
    take(found);
    let (memory, found) = memory::collect(root);
    take(found);
    let (system_vendor, found) = firmware::collect(root);
    take(found);
    let mut disks = disks::collect(root);
    take(disks::paths_to_one_disk(&disks));
    disks.retain(|disk| disk.traits.why_untouchable().is_none());
    let bmc = if options.ask_drivers {
        bmc::collect().unwrap_or_else(|error| {
            warnings.push(Warning::new(format!(
                "cannot ask the BMC for its address: {error}"
            )));
            BmcAddresses::default()
        })
    } else {
        BmcAddresses::default()
    };
    let host_name = sysfs::text(&root.join("proc/sys/kernel/hostname")).unwrap_or_default();
    let inventory = Inventory {
        interfaces,
        cpu,
        disks,
        memory,
        bmc_address: bmc.v4,
        bmc_v6address: bmc.v6,
        system_vendor,
        boot: boot_mode::collect(root, options.bootif),
        hostname: host_name::reported(&host_name).to_owned(),
        bmc_mac: bmc.mac,
    };
    (inventory, warnings)
}
