//! Parses the settings of the firmware for an iSCSI boot: the files below
//! `/sys/firmware/ibft/ethernet*`, into [`FirmwareNic`].
//!
//! The fields have the same meaning as in NetworkManager's reader (`nmi-ibft-reader.c`,
//! git of 2026-08), which ignores `flags` (valid, boot NIC) and `subnet-mask`, and
//! keeps a DNS server that is all zero.
//!
//! The firmware's table for an NVMe boot (NBFT) has its own parser, in `agent/nvme-boot`,
//! which produces a [`FirmwareNic`] as well.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::ip_prefix::{IpPrefix, longest_prefix};
use crate::mac::MacAddr;

/// What the firmware says about the NICs of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareNics {
    /// One record for each directory `ethernetN` of the firmware's table (iBFT), for
    /// `ip=ibft` and `rd.iscsi.ibft`.
    pub records: Vec<FirmwareRecord>,
    /// The NICs of the machine: the name and the `address` of each
    /// `class/net/NAME`.
    pub interfaces: Vec<(String, MacAddr)>,
    /// The NICs of the firmware's tables for an NVMe boot (NBFT).
    pub nvme: Vec<FirmwareNic>,
}

/// The files of one directory `ethernetN`, each without its final line break.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareRecord {
    /// The directory's name, for messages.
    pub name: String,
    /// The content of each file, by the file's name.
    pub files: BTreeMap<String, String>,
}

/// The network settings of one NIC: a valid record of the iBFT, or an entry of the NBFT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirmwareNic {
    /// The file `index`, if present, or the index of the NIC in the NBFT.
    pub index: Option<String>,
    pub mac: MacAddr,
    /// The VLAN that the configuration applies to. `None` also for 0, which means no
    /// VLAN.
    pub vlan: Option<u16>,
    /// How the NIC gets its address.
    pub origin: AddressOrigin,
    /// True if all addresses are IPv4, false if all are IPv6.
    pub is_ipv4: bool,
    /// The static address. In the iBFT also the address that the firmware got from DHCP.
    pub address: Option<IpPrefix>,
    /// The gateway: only together with an address, and never all zero.
    pub gateway: Option<IpAddr>,
    /// At most two DNS servers.
    pub dns: Vec<IpAddr>,
    /// The host name of the machine, from the NBFT. [`FirmwareRecord::parse`] does not
    /// read the one of the iBFT.
    pub host_name: Option<String>,
}

/// How the NIC gets its address: in the iBFT the file `origin` (ACPI's
/// `NL_PREFIX_ORIGIN`), in the NBFT the fields for DHCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOrigin {
    /// Value 3.
    Dhcp,
    /// Value 4.
    RouterAdvertisement,
    /// Any other value, or no such file.
    Static,
}

/// Why a record cannot be used: the first file that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecord {
    #[error("{record}: {file} is missing")]
    Missing { record: String, file: &'static str },
    #[error("{record}: {file}: {found:?} cannot be used")]
    Content {
        record: String,
        file: &'static str,
        found: String,
    },
}

impl FirmwareRecord {
    /// The NIC's address, which every valid record contains.
    pub fn mac(&self) -> Option<MacAddr> {
        self.files.get("mac")?.parse().ok()
    }

    /// Parses the record.
    ///
    /// # Errors
    /// - The MAC address is missing or not valid, or the VLAN id is 4095.
    /// - There is neither an address nor a gateway, or a static record has no
    ///   address.
    /// - An address cannot be parsed or is not of the record's family.
    /// - The address has no valid prefix length.
    pub fn parse(&self) -> Result<FirmwareNic, InvalidRecord> {
        let file = |name: &str| self.files.get(name).map(String::as_str);
        let mac = self.mac().ok_or_else(|| self.fault("mac"))?;
        let vlan = match file("vlan").and_then(|text| text.trim().parse::<u16>().ok()) {
            Some(id @ 1..=4094) => Some(id),
            // IEEE 802.1Q reserves 4095, but NetworkManager tries to use it.
            Some(4095) => return Err(self.fault("vlan")),
            _ => None,
        };
        let address = file("ip-addr").and_then(|text| text.parse::<IpAddr>().ok());
        let gateway = file("gateway").and_then(|text| text.parse::<IpAddr>().ok());
        let family = address.or(gateway).ok_or_else(|| self.fault("ip-addr"))?;
        let is_ipv4 = family.is_ipv4();
        let of_family = |name: &'static str| match file(name) {
            None => Ok(None),
            Some(text) => match text.parse::<IpAddr>() {
                Ok(address) if address.is_ipv4() == is_ipv4 => Ok(Some(address)),
                _ => Err(self.fault(name)),
            },
        };
        let gateway = of_family("gateway")?;
        let dns = [of_family("primary-dns")?, of_family("secondary-dns")?];
        let address = match of_family("ip-addr")? {
            None => None,
            Some(address) => {
                let longest = longest_prefix(is_ipv4);
                let length = file("prefix-len").and_then(|text| text.trim().parse().ok());
                let length = length.filter(|length| *length <= longest);
                let length = length.ok_or_else(|| self.fault("prefix-len"))?;
                Some(IpPrefix { address, length })
            }
        };
        let origin = match file("origin") {
            Some("3") => AddressOrigin::Dhcp,
            Some("4") => AddressOrigin::RouterAdvertisement,
            _ if address.is_none() => return Err(self.fault("ip-addr")),
            _ => AddressOrigin::Static,
        };
        Ok(FirmwareNic {
            index: file("index").map(str::to_owned),
            mac,
            vlan,
            origin,
            is_ipv4,
            address,
            gateway: gateway.filter(|gateway| address.is_some() && !gateway.is_unspecified()),
            dns: dns.into_iter().flatten().collect(),
            host_name: None,
        })
    }

    fn fault(&self, file: &'static str) -> InvalidRecord {
        let record = self.name.clone();
        match self.files.get(file).cloned() {
            Some(found) => InvalidRecord::Content {
                record,
                file,
                found,
            },
            None => InvalidRecord::Missing { record, file },
        }
    }
}

#[cfg(test)]
mod tests;
