//! What the firmware has set up for an iSCSI boot: the files below
//! `/sys/firmware/ibft/ethernet*` → [`FirmwareNic`].
//!
//! The meaning is that of NetworkManager's reader (`nmi-ibft-reader.c`, git of
//! 2026-08): `flags` (valid, boot NIC) are not looked at, and neither is
//! `subnet-mask`; a DNS server that is all zero stays.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::mac::MacAddr;

/// All that `ip=ibft` and `rd.iscsi.ibft` need from the machine, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareNics {
    /// One for each directory `ethernetN` of the table.
    pub records: Vec<FirmwareRecord>,
    /// The NICs that there are: `class/net/NAME` and its `address`.
    pub interfaces: Vec<(String, MacAddr)>,
}

/// The files of one directory, by name, without the line break at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirmwareRecord {
    /// The directory's name, for messages.
    pub name: String,
    /// Name and content of each file.
    pub files: BTreeMap<String, String>,
}

/// One usable record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirmwareNic {
    /// `index`, where there is one.
    pub index: Option<String>,
    /// The NIC.
    pub mac: MacAddr,
    /// The VLAN that the rest is for; 0 in the table stands for none.
    pub vlan: Option<u16>,
    /// How addresses are found. There is one family only.
    pub origin: AddressOrigin,
    /// True if the family is IPv4.
    pub is_ipv4: bool,
    /// The address and its prefix length. An address that came by DHCP is in
    /// the table, too.
    pub address: Option<(IpAddr, u8)>,
    /// The gateway; only together with an address, and never all zero.
    pub gateway: Option<IpAddr>,
    /// At most two DNS servers.
    pub dns: Vec<IpAddr>,
}

/// `origin` of the table (the ACPI's `NL_PREFIX_ORIGIN`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressOrigin {
    /// 3
    Dhcp,
    /// 4
    RouterAdvertisement,
    /// Anything else.
    Static,
}

impl FirmwareRecord {
    /// The NIC's address, which every record has to have.
    pub fn mac(&self) -> Option<MacAddr> {
        self.files.get("mac")?.parse().ok()
    }

    /// Reads the record. The error tells the first file that cannot be used.
    ///
    /// # Errors
    /// If an address cannot be read, is of another family than the rest, or
    /// has no length; and if a static record has no address.
    pub fn parse(&self) -> Result<FirmwareNic, String> {
        let file = |name: &str| self.files.get(name).map(String::as_str);
        let mac = self.mac().ok_or_else(|| self.fault("mac"))?;
        let vlan = match file("vlan").and_then(|text| text.trim().parse::<u16>().ok()) {
            Some(id @ 1..=4094) => Some(id),
            // Nobody has this VLAN, but NetworkManager tries.
            Some(4095) => return Err(self.fault("vlan")),
            _ => None,
        };
        let address = file("ip-addr").and_then(|text| text.parse::<IpAddr>().ok());
        let gateway = file("gateway").and_then(|text| text.parse::<IpAddr>().ok());
        let family = address.or(gateway).ok_or_else(|| self.fault("ip-addr"))?;
        let is_ipv4 = family.is_ipv4();
        let of_family = |name: &str| match file(name) {
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
                let longest = if is_ipv4 { 32 } else { 128 };
                let length = file("prefix-len").and_then(|text| text.trim().parse().ok());
                let length = length.filter(|length| *length <= longest);
                Some((address, length.ok_or_else(|| self.fault("prefix-len"))?))
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
        })
    }

    fn fault(&self, name: &str) -> String {
        let record = &self.name;
        match self.files.get(name) {
            Some(found) => format!("{record}: {name}: {found:?} cannot be used"),
            None => format!("{record}: {name} is missing"),
        }
    }
}

#[cfg(test)]
mod tests;
