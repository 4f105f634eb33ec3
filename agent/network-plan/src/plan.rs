//! The plan: the interfaces of a machine and the configuration of each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use landfall_boot_params::{ClonedMac, MacAddr};

pub use crate::interface_kind::{InterfaceKind, IpVlanMode, MacVlanMode};
pub(crate) use crate::ip_plan::USUAL_DHCP_TIMEOUT;
pub use crate::ip_plan::{Automatic, IpPlan, Method, Route, RouteKind, Settings};
use crate::route_rule::RouteRule;

/// The priority of an interface that applies to a NIC only if no other interface of the
/// plan does. `BOOTIF=` adds such an interface if the other arguments name another
/// device. NetworkManager's own generator gives such a profile the priority -200 or -100.
pub(crate) const LAST_CHOICE: i32 = -100;
/// The priority of the interfaces that the ramdisk adds to keyfiles and network_data.
/// It is below all priorities that NetworkManager accepts (-999 to 999).
pub(crate) const ADDED: i32 = -1000;

/// The network of one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkPlan {
    /// The machine's host name, if a source gives one.
    pub host_name: Option<String>,
    /// Seconds to wait for a carrier, if a source gives them.
    pub carrier_timeout: Option<u32>,
    /// DNS servers for the whole machine (`rd.net.dns=`). If there are any, they
    /// replace the DNS servers of the interfaces.
    pub global_dns: Vec<IpAddr>,
    /// Sorted by name, address and `multi`.
    pub interfaces: Vec<Interface>,
    /// Rules that choose a routing table.
    pub rules: Vec<RouteRule>,
    /// Interfaces that only the installed system has, in addition to `interfaces`:
    /// a ramdisk has no Open vSwitch.
    pub installed: Vec<Interface>,
    /// What was ignored or repaired in the input, one line each.
    pub warnings: Vec<String>,
}

/// One interface, or one description that applies to several devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// The devices that the interface applies to.
    pub matches: InterfaceMatch,
    pub kind: InterfaceKind,
    /// True if the interface can apply to several devices at once.
    pub multi: bool,
    /// The controller of this interface, if the interface is a port: a bond, bridge, team
    /// or VRF. A port has no addresses, except for ports of a VRF and interfaces of Open
    /// vSwitch.
    pub controller: Option<String>,
    /// The interface's place in the controller's list of ports, from 0. A bond without
    /// a MAC takes the MAC of its first port.
    pub port_number: usize,
    pub mtu: Option<u32>,
    /// Hardware address to give to the device. The ramdisk applies only a fixed address:
    /// with a random or stable one, Ironic would not recognise the node.
    pub set_mac: Option<ClonedMac>,
    /// Speed and negotiation settings for the driver.
    pub ethtool: Option<Ethtool>,
    /// True if the boot should wait for the device.
    pub needed: bool,
    /// If several interfaces apply to a NIC, the one with the highest number takes
    /// precedence. The number is NetworkManager's autoconnect-priority (usually 0),
    /// [`LAST_CHOICE`] or [`ADDED`].
    pub priority: i32,
    /// True if the interface stays down: it is described but not brought up.
    pub down: bool,
    /// `None` for a port, except for ports of a VRF and interfaces of Open vSwitch.
    pub ipv4: Option<IpPlan>,
    /// `None` for a port, except for ports of a VRF and interfaces of Open vSwitch.
    pub ipv6: Option<IpPlan>,
    /// Settings for the installed system only.
    pub profile: Profile,
}

/// Settings of an interface for NetworkManager on the installed system, which the
/// ramdisk does not need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Name of the profile and of its file, if it differs from the interface's.
    pub id: Option<String>,
    /// The name of the interface in its source, from which the writer makes the profile's
    /// UUID. `None`: the name of the profile.
    pub label: Option<String>,
    /// The interface type from which nmstate makes the profile's UUID, if it is not the
    /// usual type: `veth` for an end of a veth pair that the document does not describe.
    pub uuid_type: Option<&'static str>,
    /// NetworkManager's type of the port's controller, if the controller is not an
    /// interface of the plan: `ovs-port` or `ovs-bridge`.
    pub port_type: Option<&'static str>,
    /// True if only the ramdisk has the interface: for the installed system,
    /// [`NetworkPlan::installed`] has another profile.
    pub is_ramdisk_only: bool,
    /// True if the interface is from the firmware's table of an NVMe boot (NBFT). The
    /// agent then reports the table as the origin of the interface's addresses.
    pub is_of_firmware: bool,
    /// NetworkManager's own settings, by section and key of a keyfile, such as `bridge`
    /// and `ageing-time`. They override the settings that the writer derives from the
    /// plan.
    pub settings: BTreeMap<&'static str, Settings>,
}

/// The devices that an [`Interface`] applies to. If neither name nor MAC is set: every
/// Ethernet device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceMatch {
    pub name: Option<String>,
    pub mac: Option<MacAddr>,
}

/// Speed and negotiation of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethtool {
    /// True: negotiate. False: force `speed`, or leave the driver's setting unchanged
    /// if `speed` is `None`.
    pub autoneg: bool,
    /// Mbit/s, full duplex.
    pub speed: Option<u32>,
}

impl Interface {
    /// A NIC with these matches and without any configuration. Like a port, it has
    /// neither address family.
    pub(crate) fn new(matches: InterfaceMatch) -> Interface {
        Interface {
            matches,
            kind: InterfaceKind::Ethernet,
            multi: false,
            controller: None,
            port_number: 0,
            mtu: None,
            set_mac: None,
            ethtool: None,
            needed: false,
            priority: 0,
            down: false,
            ipv4: None,
            ipv6: None,
            profile: Profile::default(),
        }
    }

    /// The address families that the interface has: IPv4, then IPv6.
    pub fn families(&self) -> impl Iterator<Item = &IpPlan> + Clone {
        [&self.ipv4, &self.ipv6].into_iter().flatten()
    }

    pub fn families_mut(&mut self) -> impl Iterator<Item = &mut IpPlan> {
        [&mut self.ipv4, &mut self.ipv6].into_iter().flatten()
    }

    pub(crate) fn family_mut(&mut self, is_ipv4: bool) -> &mut Option<IpPlan> {
        if is_ipv4 {
            &mut self.ipv4
        } else {
            &mut self.ipv6
        }
    }
}

impl InterfaceMatch {
    pub fn named(name: impl Into<String>) -> InterfaceMatch {
        InterfaceMatch {
            name: Some(name.into()),
            mac: None,
        }
    }

    pub fn with_mac(mac: MacAddr) -> InterfaceMatch {
        InterfaceMatch {
            name: None,
            mac: Some(mac),
        }
    }

    /// True if it applies to no particular device.
    pub fn is_any(&self) -> bool {
        self.name.is_none() && self.mac.is_none()
    }

    /// True if the device has the wanted name and one of its hardware addresses is the
    /// wanted one. `macs` has the current and the permanent address, if they differ.
    pub fn fits(&self, name: &str, macs: &[MacAddr]) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
            && self.mac.is_none_or(|wanted| macs.contains(&wanted))
    }
}

impl fmt::Display for InterfaceMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.mac) {
            (Some(name), Some(mac)) => write!(f, "{name} ({mac})"),
            (Some(name), None) => f.write_str(name),
            (None, Some(mac)) => write!(f, "the NIC with MAC {mac}"),
            (None, None) => f.write_str("any NIC"),
        }
    }
}

impl NetworkPlan {
    /// Sorts the interfaces, and numbers the ports of each controller without gaps.
    pub fn sort(&mut self) {
        self.interfaces.sort_by_cached_key(|interface| {
            let mac = match &interface.kind {
                InterfaceKind::Infiniband { mac, .. } => mac.map(|mac| mac.to_string()),
                _ => interface.matches.mac.map(|mac| mac.to_string()),
            };
            (interface.matches.name.clone(), mac, interface.multi)
        });
        let controllers: BTreeSet<String> = { self.interfaces.iter() }
            .filter_map(|interface| interface.controller.clone())
            .collect();
        for controller in controllers {
            for (number, port) in self.ports_of(&controller).into_iter().enumerate() {
                self.interfaces[port].port_number = number;
            }
        }
    }

    /// Indexes of the ports of a controller, in the order of its list.
    pub fn ports_of(&self, controller: &str) -> Vec<usize> {
        let is_port = |index: &usize| {
            let interface = &self.interfaces[*index];
            interface.controller.as_deref() == Some(controller)
        };
        let mut ports: Vec<_> = (0..self.interfaces.len()).filter(is_port).collect();
        ports.sort_by_key(|index| self.interfaces[*index].port_number);
        ports
    }

    /// Indexes of the interfaces that can apply to a device with these names and
    /// addresses. Interfaces with a higher priority come first, as in NetworkManager
    /// (nm_utils_cmp_connection_by_autoconnect_priority in nm-core-utils.c). Among
    /// interfaces of equal priority, the more specific ones come first: those with a
    /// name, those with a MAC, those for any one device, those for all devices.
    pub fn candidates(&self, names: &[&str], macs: &[MacAddr]) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.interfaces.len())
            .filter(|&index| {
                let interface = &self.interfaces[index];
                let fits = |name: &&str| interface.matches.fits(name, macs);
                // This crate treats an end of a virtual cable as a NIC.
                let is_nic = matches!(
                    interface.kind,
                    InterfaceKind::Ethernet | InterfaceKind::Veth { .. }
                );
                is_nic && names.iter().any(fits)
            })
            .collect();
        found.sort_by_key(|&index| {
            let interface = &self.interfaces[index];
            let InterfaceMatch { name, mac } = &interface.matches;
            let is_general = (name.is_none(), mac.is_none(), interface.multi);
            (Reverse(interface.priority), is_general)
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::NetArgs;

    use super::*;

    #[test]
    fn the_most_particular_interface_comes_first() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let other = MacAddr([2, 0, 0, 0, 0, 2]);
        let interface = |name: Option<&str>, mac, multi| Interface {
            multi,
            ..Interface::new(InterfaceMatch {
                name: name.map(str::to_owned),
                mac,
            })
        };
        let plan = NetworkPlan {
            interfaces: vec![
                interface(None, None, true),
                interface(None, None, false),
                interface(None, Some(mac), false),
                interface(Some("eth0"), None, false),
                interface(Some("eth0"), Some(other), false),
            ],
            ..NetworkPlan::default()
        };
        assert_eq!(plan.candidates(&["ens3", "eth0"], &[mac]), [3, 2, 1, 0]);
        assert_eq!(plan.candidates(&["eth1"], &[other, mac]), [2, 1, 0]);
        assert_eq!(plan.candidates(&["eth2"], &[]), [1, 0]);
        let mut plan = plan;
        plan.interfaces[2].priority = LAST_CHOICE;
        assert_eq!(plan.candidates(&["eth1"], &[mac]), [1, 0, 2]);
    }

    fn ports(plan: &NetworkPlan) -> Vec<String> {
        let ports = plan.ports_of("bond0").into_iter();
        ports
            .map(|index| plan.interfaces[index].matches.to_string())
            .collect()
    }

    #[test]
    fn the_ports_of_a_bond_keep_the_order_of_their_list() {
        let plan = |line: &str| NetworkPlan::for_boot(&NetArgs::parse(line));
        let of_line = plan("ip=eth1:off bond=bond0:eth2,52-54-00-00-00-09,eth1 ip=bond0:dhcp");
        let third = "the NIC with MAC 52:54:00:00:00:09";
        assert_eq!(ports(&of_line), ["eth2", third, "eth1"]);

        let document = "interfaces:\n- {name: eth1, type: ethernet, state: up}\n\
             - {name: bond0, type: bond, state: up, link-aggregation: {mode: active-backup, \
             port: [eth2, eth1]}}\n";
        let of_nmstate = NetworkPlan::from_nmstate(document).unwrap();
        assert_eq!(ports(&of_nmstate), ["eth2", "eth1"]);
    }
}
