//! The current state of the network, for code that waits for it or reports it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use landfall_network_plan::{IpPrefix, MacAddr, Source};
use tokio::sync::watch;

use super::resolv_conf::DnsServer;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkState {
    /// Source of the plan; `None` before there is a plan.
    pub source: Option<Source>,
    /// Faults of sources that are not used, and NICs of the plan that the machine does
    /// not have, one line each. The text after ` -- ` is the remedy.
    pub faults: Vec<String>,
    /// Why the machine has no network interface card, if the reason is known.
    pub no_nic: Option<String>,
    /// The NICs in the order of the kernel's indices.
    pub nics: Vec<NicState>,
    /// Index of the NIC whose routes take precedence, because the service has
    /// answered over it.
    pub preferred: Option<u32>,
    /// The DNS servers in the order in which the resolver asks them.
    pub dns: Vec<DnsServer>,
    pub search: Vec<String>,
    pub ntp: Vec<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicState {
    pub index: u32,
    pub name: String,
    /// The alternative names of the NIC in the kernel.
    pub alternative_names: Vec<String>,
    /// The current hardware address.
    pub mac: MacAddr,
    /// The factory hardware address, if it is known. `mac` differs from it if the plan
    /// sets another address, or while the NIC is a port of a bond and uses the bond's
    /// address.
    pub permanent_mac: Option<MacAddr>,
    /// The NIC is a VLAN, a bond or another virtual device.
    pub is_virtual: bool,
    /// The NIC leads to the BMC, and other hosts have the same hardware address.
    pub leads_to_bmc: bool,
    /// Index of the bond, bridge or VRF that the NIC is a port of.
    pub controller: Option<u32>,
    /// What a bond or a VLAN is made of.
    pub made_of: Option<MadeOf>,
    /// A cable is plugged in, and the other end is active.
    pub carrier: bool,
    /// The NIC has no carrier, but may still get one within the time limit.
    pub awaits_carrier: bool,
    /// The bond, bridge, team or VRF that has no port because the machine has none of the
    /// NICs that the plan gives it. It is this device, or a device below it.
    pub without_ports: Option<String>,
    /// The NIC should get an address that reaches further than its link: the plan
    /// contains such an address, or automatic configuration.
    pub shall_have_address: bool,
    /// The NIC asks for an IPv4 address, has none yet, and has reported no fault.
    pub awaits_ipv4: bool,
    /// All addresses, including link-local ones.
    pub addresses: Vec<AddressState>,
    /// What the NIC still waits for, or why it has failed.
    pub trouble: Option<String>,
}

/// What a virtual device is made of, as the kernel reports it (not the plan).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MadeOf {
    /// A bond. Its ports are the NICs with this device as their controller.
    Bond {
        /// The kernel's name of the mode: `802.3ad`.
        mode: String,
    },
    Vlan {
        id: u16,
        /// Index of the device that carries it.
        parent: Option<u32>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressState {
    pub prefix: IpPrefix,
    pub origin: AddressOrigin,
    /// Whether the host can use the address. False if another machine has the address,
    /// and during duplicate address detection unless the kernel already uses the address
    /// (see `ipv6_sysctl`).
    pub usable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrigin {
    /// From the plan; holds the plan's source.
    Plan(Source),
    /// Leased by the DHCP server with this address.
    Dhcp(IpAddr),
    /// Derived from a router advertisement.
    RouterAdvertisement,
    /// A link-local address, usually derived from the hardware address.
    LinkLocal,
    /// Added by another program.
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
    /// Whether some address reaches further than its own link.
    pub fn is_online(&self) -> bool {
        self.nics.iter().any(|nic| nic.is_online())
    }

    /// The hardware addresses of all NICs, by which Ironic looks up the node.
    ///
    /// NICs that lead to the BMC are left out, unless `with_bmc_nics` is set or there is
    /// no other NIC. An ordinary USB NIC may have the driver of a BMC's NIC too. So a NIC
    /// stays if the machine booted from it, or if the service answers over it.
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

    pub fn service_nic(&self) -> Option<&str> {
        let nic = { self.nics.iter() }.find(|nic| self.preferred == Some(nic.index));
        nic.map(|nic| nic.name.as_str())
    }

    /// The addresses of each NIC, by its name.
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
    // An error means that the network task has ended. Discovery then reports that
    // nothing can be reached.
    let _ = network.wait_for(NetworkState::is_online).await;
}

impl NicState {
    /// Whether the NIC has a carrier and an address that reaches further than its
    /// link.
    pub fn is_online(&self) -> bool {
        let far =
            |address: &AddressState| address.usable && address.origin != AddressOrigin::LinkLocal;
        self.carrier && self.addresses.iter().any(far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::nic;

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
