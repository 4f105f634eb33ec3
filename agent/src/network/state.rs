//! What the network has become, for everybody who waits for it or reports it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use landfall_network_plan::{IpPrefix, MacAddr, Source};
use tokio::sync::watch;

use super::resolv_conf::DnsServer;

/// The machine's network at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkState {
    /// What the plan is from; `None` before there is one.
    pub source: Option<Source>,
    /// Faults of sources that would have come first, one line each.
    pub faults: Vec<String>,
    /// Why there is no network interface card, where that was found out.
    pub no_nic: Option<String>,
    /// Every network interface card, in the kernel's order.
    pub nics: Vec<NicState>,
    /// The NIC whose routes go before those of all others, by the kernel's
    /// index: the service has answered there.
    pub preferred: Option<u32>,
    /// DNS servers in the order in which they are asked.
    pub dns: Vec<DnsServer>,
    /// Domains to search.
    pub search: Vec<String>,
    /// NTP servers that the network offers.
    pub ntp: Vec<IpAddr>,
}

/// One network interface card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicState {
    /// The kernel's index.
    pub index: u32,
    /// The kernel's name.
    pub name: String,
    /// Its hardware address.
    pub mac: MacAddr,
    /// The one it came with, where that is known: the port of a bond has taken
    /// the bond's.
    pub permanent_mac: Option<MacAddr>,
    /// A VLAN, bond or bridge of the plan.
    pub is_virtual: bool,
    /// The BMC is at its other end, and other hosts have the same address.
    pub leads_to_bmc: bool,
    /// There is a cable, and somebody at its other end.
    pub carrier: bool,
    /// It has none and has not been on for as long as that may take.
    pub awaits_carrier: bool,
    /// The plan has, or asks for, an address that reaches further than the link.
    pub shall_have_address: bool,
    /// It has none of IPv4 yet, and DHCP has not failed so far.
    pub awaits_ipv4: bool,
    /// Its addresses, link-local ones included.
    pub addresses: Vec<AddressState>,
    /// What the interface still waits for or why it has failed.
    pub trouble: Option<String>,
}

/// One address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressState {
    /// The address with its prefix.
    pub prefix: IpPrefix,
    /// Where it came from.
    pub origin: AddressOrigin,
    /// False while duplicate address detection goes on, and when it has found
    /// somebody else.
    pub usable: bool,
}

/// Where an address came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrigin {
    /// The plan says so, and this is where the plan is from.
    Plan(Source),
    /// This server has given it.
    Dhcp(IpAddr),
    /// Made from a router advertisement.
    RouterAdvertisement,
    /// Made from the hardware address.
    LinkLocal,
    /// Somebody else has put it there.
    Foreign,
}

impl fmt::Display for AddressOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressOrigin::Plan(source) => f.write_str(source.of_address()),
            AddressOrigin::Dhcp(server) => write!(f, "DHCP server {server}"),
            AddressOrigin::RouterAdvertisement => f.write_str("router advertisement"),
            AddressOrigin::LinkLocal => f.write_str("link-local"),
            AddressOrigin::Foreign => f.write_str("elsewhere"),
        }
    }
}

impl NetworkState {
    /// True when some address reaches further than its own link.
    pub fn is_online(&self) -> bool {
        self.nics.iter().any(|nic| nic.is_online())
    }

    /// The hardware addresses of all NICs, by which Ironic looks for the node.
    /// Without those of NICs that lead to the BMC, unless they are wanted or there
    /// is no other NIC. A USB NIC may have such a driver without a BMC: it stays if
    /// the machine was booted over it, or the service answers there.
    pub fn macs(&self, with_bmc_nics: bool, boot_mac: Option<MacAddr>) -> Vec<String> {
        let nics = || self.nics.iter().filter(|nic| !nic.is_virtual);
        let all = with_bmc_nics || nics().all(|nic| nic.leads_to_bmc);
        let is_used = |nic: &NicState| {
            self.preferred == Some(nic.index)
                || [Some(nic.mac), nic.permanent_mac].contains(&boot_mac) && boot_mac.is_some()
        };
        nics()
            .filter(|nic| all || !nic.leads_to_bmc || is_used(nic))
            .map(|nic| nic.permanent_mac.unwrap_or(nic.mac).to_string())
            .collect()
    }

    /// The name of the NIC over which the service answers.
    pub fn service_nic(&self) -> Option<&str> {
        let nic = { self.nics.iter() }.find(|nic| self.preferred == Some(nic.index));
        nic.map(|nic| nic.name.as_str())
    }

    /// The addresses of each NIC by its name.
    pub fn addresses(&self) -> BTreeMap<String, Vec<IpAddr>> {
        self.nics
            .iter()
            .map(|nic| {
                let addresses = nic.addresses.iter().map(|known| known.prefix.address);
                (nic.name.clone(), addresses.collect())
            })
            .collect()
    }
}

/// Waits until some address reaches further than its own link.
pub async fn first_address(network: &mut watch::Receiver<NetworkState>) {
    // Fails only if the network's task has ended; discovery then says that
    // nothing can be reached.
    let _ = network.wait_for(NetworkState::is_online).await;
}

impl NicState {
    /// True when some address of it reaches further than its own link.
    pub fn is_online(&self) -> bool {
        let far =
            |address: &AddressState| address.usable && address.origin != AddressOrigin::LinkLocal;
        self.carrier && self.addresses.iter().any(far)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A NIC with a carrier and without an address.
    pub(crate) fn nic(index: u32, leads_to_bmc: bool) -> NicState {
        NicState {
            index,
            name: format!("eth{index}"),
            mac: MacAddr([0x52, 0x54, 0, 0, 0, index as u8]),
            permanent_mac: None,
            is_virtual: false,
            leads_to_bmc,
            carrier: true,
            awaits_carrier: false,
            shall_have_address: true,
            awaits_ipv4: false,
            addresses: Vec::new(),
            trouble: None,
        }
    }

    #[test]
    fn lookup_leaves_out_bmc_nics_unless_they_are_used_or_there_is_no_other() {
        let macs_of = |of_bmc: &[bool], with_bmc_nics, preferred, boot_mac| {
            let nics = (1..).zip(of_bmc).map(|(index, of_bmc)| nic(index, *of_bmc));
            let state = NetworkState {
                nics: nics.collect(),
                preferred,
                ..NetworkState::default()
            };
            let macs = state.macs(with_bmc_nics, boot_mac);
            macs.into_iter()
                .map(|mac| mac[15..].to_owned())
                .collect::<Vec<_>>()
        };
        let macs = |of_bmc: &[bool], with_bmc_nics| macs_of(of_bmc, with_bmc_nics, None, None);
        let boot_mac = Some(nic(2, true).mac);
        assert_eq!(macs_of(&[false, true], false, None, boot_mac), ["01", "02"]);
        assert_eq!(macs_of(&[false, true], false, Some(2), None), ["01", "02"]);
        assert_eq!(macs_of(&[false, true], false, Some(1), None), ["01"]);
        assert_eq!(macs(&[false, true, false], false), ["01", "03"]);
        assert_eq!(macs(&[false, true], true), ["01", "02"]);
        assert_eq!(macs(&[true], false), ["01"]);
    }
}
