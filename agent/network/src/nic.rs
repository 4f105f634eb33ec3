//! One network device that the agent treats as a NIC: its planned and its current
//! configuration.

use std::net::IpAddr;
use std::time::Duration;

use landfall_network_plan::{
    Interface, InterfaceKind, IpPlan, IpPrefix, Method, NetworkPlan, Source,
};
use landfall_sys::backoff::Backoff;
use landfall_sys::system_path::SystemPath;
use tokio::task::{JoinHandle, JoinSet};

use super::automatic_ipv6::AutomaticIpv6;
use super::bmc_nic::leads_to_bmc;
use super::client_tag::ClientTag;
use super::device_route::DeviceRoute;
use super::dhcp::Lease;
use super::links::{Link, LinkAddress, LinkKind};
use super::state::{AddressOrigin, AddressState, NicState};

/// Base metrics of the routes over a NIC that the plan names, and over all other NICs. So
/// the default route of the boot NIC takes precedence over that of another NIC that also
/// gets a lease. The NIC's index is added, because the kernel requires distinct metrics
/// for routes to the same destination.
const METRIC_PARTICULAR: u32 = 100;
const METRIC_OTHER: u32 = 1100;

/// The pauses between attempts to bring a link into its planned state. For a moment after
/// a link is switched on, the kernel reports it as off, so the first pause must not be
/// shorter than that.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Nic {
    pub(super) link: Link,
    /// Index of the plan's interface that this NIC was matched to.
    pub(super) interface: Option<usize>,
    pub(super) leads_to_bmc: bool,
    /// The NIC had no carrier at the end of the time limit.
    pub(super) missed_carrier: bool,
    /// The NIC has its planned configuration.
    pub(super) configured: bool,
    pub(super) addresses: Vec<LinkAddress>,
    /// Addresses that the agent has already logged.
    pub(super) logged_addresses: Vec<IpAddr>,
    pub(super) client: Option<DhcpClient>,
    pub(super) lease: Option<Lease>,
    /// The address of the last lease, even if that has ended.
    pub(super) leased_before: Option<IpPrefix>,
    pub(super) lease_routes: Vec<DeviceRoute>,
    /// The tasks for conflict detection, one for each static address, and the tag of
    /// their results.
    pub(super) questions: JoinSet<()>,
    pub(super) question: ClientTag,
    pub(super) ipv6: AutomaticIpv6,
    pub(super) trouble: Option<String>,
    /// Pauses between the attempts to bring the link into its planned state.
    pub(super) retries: Backoff,
    /// Complaints that the agent has already logged.
    complaints: Vec<String>,
}

/// A running DHCPv4 client. It ends when this is dropped.
pub(super) struct DhcpClient {
    /// Distinguishes the events of this client from those of an earlier client of the
    /// NIC.
    pub(super) generation: u64,
    pub(super) task: JoinHandle<()>,
}

impl Drop for DhcpClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Nic {
    pub(super) fn new(link: Link) -> Nic {
        Nic {
            leads_to_bmc: leads_to_bmc(&SystemPath::live(), &link.name),
            link,
            interface: None,
            missed_carrier: false,
            configured: false,
            addresses: Vec::new(),
            logged_addresses: Vec::new(),
            client: None,
            lease: None,
            leased_before: None,
            lease_routes: Vec::new(),
            questions: JoinSet::new(),
            question: (0, 0),
            ipv6: AutomaticIpv6::default(),
            trouble: None,
            retries: Backoff::new(FIRST_RETRY_PAUSE, LONGEST_RETRY_PAUSE),
            complaints: Vec::new(),
        }
    }

    /// The NIC's name and hardware address, for the console.
    pub(super) fn title(&self) -> String {
        format!("{} ({})", self.link.name, self.link.mac)
    }

    /// The plan's interface that this NIC was matched to.
    pub(super) fn interface_of<'p>(&self, plan: &'p NetworkPlan) -> Option<&'p Interface> {
        self.interface.map(|index| &plan.interfaces[index])
    }

    /// Logs a fault and keeps it for the state report.
    pub(super) fn complain(&mut self, trouble: String) {
        tracing::warn!("{trouble}");
        self.trouble = Some(trouble);
    }

    /// Like [`Nic::complain`], for actions that are retried: logs a warning only the
    /// first time, and repetitions as debug messages.
    pub(super) fn complain_once(&mut self, trouble: String) {
        if self.complaints.contains(&trouble) {
            tracing::debug!("{trouble}");
        } else {
            tracing::warn!("{trouble}");
            self.complaints.push(trouble.clone());
        }
        self.trouble = Some(trouble);
    }

    /// Adds or updates an address that the kernel reports.
    pub(super) fn note_address(&mut self, address: LinkAddress) {
        let known = self.addresses.iter_mut();
        match known.into_iter().find(|a| a.prefix == address.prefix) {
            Some(known) => *known = address,
            None => self.addresses.push(address),
        }
    }

    pub(super) fn forget_address(&mut self, address: IpAddr) {
        self.addresses.retain(|a| a.prefix.address != address);
        self.logged_addresses.retain(|logged| *logged != address);
    }

    pub(super) fn origin(
        &self,
        address: &LinkAddress,
        interface: Option<&Interface>,
        source: Source,
    ) -> AddressOrigin {
        let planned = interface
            .iter()
            .flat_map(|interface| [&interface.ipv4, &interface.ipv6])
            .flatten()
            .any(|ip| ip.addresses.contains(&address.prefix));
        let leased = self.lease.as_ref().filter(|l| l.address == address.prefix);
        let link_local = match address.prefix.address {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        let is_of_firmware = interface.is_some_and(|found| found.profile.is_of_firmware);
        if planned && is_of_firmware {
            AddressOrigin::Plan(Source::Firmware)
        } else if planned {
            AddressOrigin::Plan(source)
        } else if let Some(lease) = leased {
            AddressOrigin::Dhcp(lease.server.into())
        } else if let Some(server) = self.ipv6.server_of(address.prefix.address) {
            AddressOrigin::Dhcp(server.into())
        } else if link_local {
            AddressOrigin::LinkLocal
        } else if address.advertised {
            AddressOrigin::RouterAdvertisement
        } else {
            AddressOrigin::Foreign
        }
    }

    pub(super) fn state(&self, interface: Option<&Interface>, source: Source) -> NicState {
        let address_state = |address: &LinkAddress| AddressState {
            prefix: address.prefix,
            origin: self.origin(address, interface, source),
            usable: !address.tentative && !address.duplicate,
        };
        NicState {
            index: self.link.index,
            name: self.link.name.clone(),
            alternative_names: self.link.alternative_names.clone(),
            mac: self.link.mac,
            permanent_mac: self.link.permanent_mac,
            is_virtual: self.link.kind == LinkKind::Virtual,
            leads_to_bmc: self.leads_to_bmc,
            controller: self.link.controller,
            made_of: self.link.made_of.clone(),
            carrier: self.link.carrier,
            awaits_carrier: !self.link.carrier && !self.missed_carrier,
            without_ports: None,
            shall_have_address: interface.is_some_and(shall_have_address),
            awaits_ipv4: self.trouble.is_none()
                && interface.is_some_and(asks_for_ipv4)
                && !self.addresses.iter().any(|a| a.prefix.address.is_ipv4()),
            addresses: self.addresses.iter().map(address_state).collect(),
            trouble: self.trouble.clone(),
        }
    }
}

fn shall_have_address(interface: &Interface) -> bool {
    let families = [&interface.ipv4, &interface.ipv6];
    let is_off = |ip: &IpPlan| matches!(ip.method, Method::Disabled | Method::LinkLocal);
    families.into_iter().flatten().any(|ip| !is_off(ip))
}

fn asks_for_ipv4(interface: &Interface) -> bool {
    let ip = interface.ipv4.as_ref();
    ip.is_some_and(|ip| ip.method.is_automatic())
}

/// Finds the plan's interface for a device. Of the interfaces that are free or apply to
/// several devices (`multi`), it is the one with the highest priority, then the most
/// specific one. An interface that matches any NIC, but only one, applies to the first
/// NIC with a carrier. A virtual device matches only by name.
pub(super) fn choose(
    plan: &NetworkPlan,
    link: &Link,
    is_taken: impl Fn(usize) -> bool,
) -> Option<usize> {
    if link.kind == LinkKind::Virtual {
        return plan.interfaces.iter().position(|interface| {
            interface.kind != InterfaceKind::Ethernet
                && interface.matches.name.as_ref() == Some(&link.name)
        });
    }
    for index in plan.candidates(&link.names(), &link.macs()) {
        let interface = &plan.interfaces[index];
        if interface.multi {
            return Some(index);
        }
        if !is_taken(index) {
            let wait = interface.matches.is_any() && !link.carrier;
            return (!wait).then_some(index);
        }
    }
    None
}

pub(super) fn metric(index: u32, interface: &Interface) -> u32 {
    let base = if interface.matches.is_any() {
        METRIC_OTHER
    } else {
        METRIC_PARTICULAR
    };
    base.saturating_add(index)
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::{CommandLine, NetArgs};
    use landfall_network_plan::MacAddr;

    use super::*;

    fn plan(text: &str) -> NetworkPlan {
        NetworkPlan::for_boot(&NetArgs::from_command_line(&CommandLine::parse(text)))
    }

    fn link(index: u32, carrier: bool) -> Link {
        Link {
            index,
            name: format!("eth{index}"),
            alternative_names: Vec::new(),
            kind: LinkKind::Nic,
            mac: MacAddr([0x52, 0x54, 0, 0, 0, index as u8]),
            permanent_mac: None,
            up: true,
            carrier,
            mtu: 1500,
            controller: None,
            made_of: None,
        }
    }

    #[test]
    fn a_device_becomes_the_most_particular_free_interface() {
        let free = |_| false;
        let taken = |_| true;
        let by_name = plan("ip=192.0.2.10:::24::eth1:none");
        assert_eq!(choose(&by_name, &link(1, false), free), Some(0));
        assert_eq!(choose(&by_name, &link(2, true), free), None);
        assert_eq!(choose(&by_name, &link(1, true), taken), None);

        let by_mac = plan("ip=52-54-00-00-00-02:dhcp");
        assert_eq!(choose(&by_mac, &link(2, false), free), Some(0));
        let mut renamed = link(3, true);
        renamed.permanent_mac = Some(MacAddr([0x52, 0x54, 0, 0, 0, 2]));
        assert_eq!(choose(&by_mac, &renamed, free), Some(0));

        // Only one NIC gets the interface: the first NIC with a carrier.
        let single = plan("ip=192.0.2.10:::24:::none");
        assert_eq!(choose(&single, &link(1, false), free), None);
        assert_eq!(choose(&single, &link(1, true), free), Some(0));
        assert_eq!(choose(&single, &link(2, true), taken), None);

        let all = plan("BOOTIF=52:54:00:00:00:02");
        assert_eq!(choose(&all, &link(1, false), taken), Some(0));
        assert_eq!(choose(&all, &link(2, false), taken), Some(1));
        assert!(metric(9, &all.interfaces[1]) < metric(1, &all.interfaces[0]));
    }
}
