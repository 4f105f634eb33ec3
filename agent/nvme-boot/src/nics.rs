//! Converts the NICs of the tables into the form from which the network plan is made.

use landfall_boot_params::firmware_nics::AddressOrigin;
use landfall_boot_params::{FirmwareNic, IpPrefix};

use crate::nbft::Hfi;
use crate::tables::FirmwareTable;

/// The NICs of all tables.
pub fn firmware_nics(tables: &[FirmwareTable]) -> Vec<FirmwareNic> {
    let nics = tables.iter().flat_map(|table| &table.content.nics);
    nics.map(firmware_nic).collect()
}

fn firmware_nic(nic: &Hfi) -> FirmwareNic {
    // "The IP address specified in this HFI should not be reused" if it came from DHCP
    // (NVM Express Boot Specification, IP Origin).
    let address = nic.address.filter(|_| !nic.by_dhcp);
    FirmwareNic {
        index: Some(nic.index.to_string()),
        mac: nic.mac,
        vlan: nic.vlan,
        origin: match (nic.by_dhcp, nic.is_ipv4) {
            (true, true) => AddressOrigin::Dhcp,
            // The router advertisements say whether there is DHCPv6.
            (true, false) => AddressOrigin::RouterAdvertisement,
            (false, _) => AddressOrigin::Static,
        },
        is_ipv4: nic.is_ipv4,
        address: address.map(|address| IpPrefix {
            address,
            length: nic.prefix,
        }),
        gateway: nic.gateway,
        dns: nic.dns.clone(),
        host_name: nic.host_name.clone(),
    }
}
