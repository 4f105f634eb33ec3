//! The plan: which interfaces there shall be, and what each shall have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use landfall_boot_params::dracut_net::VendorClass;
use landfall_boot_params::{ClonedMac, MacAddr};

pub use crate::interface_kind::{InterfaceKind, MacVlanMode, RoutesOfIpVlan};
use crate::route_rule::RouteRule;

/// Seconds that DHCP has where nobody says otherwise: NetworkManager's time for
/// one transaction.
pub(crate) const USUAL_DHCP_TIMEOUT: u32 = 90;

/// What a machine's network shall be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkPlan {
    /// The machine's name, where one was given.
    pub host_name: Option<String>,
    /// Seconds to wait for a carrier, where given.
    pub carrier_timeout: Option<u32>,
    /// DNS servers for the whole machine (`rd.net.dns=`). Where there are any,
    /// those of the interfaces are not asked.
    pub global_dns: Vec<IpAddr>,
    /// In a fixed order: by name, address and `multi`.
    pub interfaces: Vec<Interface>,
    /// Rules that choose a routing table.
    pub rules: Vec<RouteRule>,
    /// What only the installed system has, beside the interfaces: a ramdisk has no
    /// Open vSwitch.
    pub installed: Vec<Interface>,
    /// What of the input was ignored or repaired, one line each.
    pub warnings: Vec<String>,
}

/// One interface, or one description that several devices share.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Which devices are meant.
    pub matches: InterfaceMatch,
    /// What it is.
    pub kind: InterfaceKind,
    /// True when it may be used for several devices at once.
    pub multi: bool,
    /// The bond, bridge, team or VRF that it is a port of. Only a port of a VRF
    /// has addresses.
    pub controller: Option<String>,
    /// Its place in the list of the controller's ports, from 0: a bond without
    /// a MAC takes that of its first port.
    pub port_number: usize,
    /// MTU of the link.
    pub mtu: Option<u32>,
    /// Hardware address to give to the device. The ramdisk applies an address
    /// only: a new one would hide the node from Ironic.
    pub set_mac: Option<ClonedMac>,
    /// What to tell the driver about the cable.
    pub ethtool: Option<Ethtool>,
    /// True when the device is worth waiting for.
    pub needed: bool,
    /// True when a device gets it only if nothing else is for that device: what
    /// `BOOTIF=` adds to other instructions.
    pub last_choice: bool,
    /// True when it shall stay down: it is described and not brought up.
    pub down: bool,
    /// `None` for a port.
    pub ipv4: Option<IpPlan>,
    /// `None` for a port.
    pub ipv6: Option<IpPlan>,
    /// What only the installed system is told.
    pub profile: Profile,
}

/// What NetworkManager on the installed system is told of an interface and the
/// ramdisk does without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Name of the profile and its file, where it is not the interface's.
    pub id: Option<String>,
    /// What its source calls the interface, where that is neither its name nor
    /// the profile's.
    pub label: Option<String>,
    /// nmstate's name of its type in the identifier of its profile, where that is
    /// another than usual: `veth` for an end that the document does not describe.
    pub uuid_type: Option<&'static str>,
    /// What its controller is to NetworkManager, where no interface of the plan
    /// says that: `ovs-port`.
    pub port_type: Option<&'static str>,
    /// True for what only the ramdisk has: the installed system has a profile of
    /// [`NetworkPlan::installed`] instead.
    pub is_ramdisk_only: bool,
    /// NetworkManager's own settings, by section and key of a keyfile, such as
    /// `bridge` and `ageing-time`. They go before what the plan says besides.
    pub settings: BTreeMap<&'static str, Settings>,
}

/// Keys of one section of a keyfile, with their values as they are written.
pub type Settings = BTreeMap<String, String>;

/// Which devices an [`Interface`] is for. With neither: every Ethernet device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceMatch {
    /// The kernel's name of the interface.
    pub name: Option<String>,
    /// Its hardware address.
    pub mac: Option<MacAddr>,
}

/// How the ends of a cable agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethtool {
    /// Negotiate. Without it, `speed` is forced; without both the driver
    /// decides.
    pub autoneg: bool,
    /// Mbit/s, full duplex.
    pub speed: Option<u32>,
}

/// What one address family of an interface shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpPlan {
    /// Where addresses come from.
    pub method: Method,
    /// Static addresses.
    pub addresses: Vec<IpPrefix>,
    /// Default gateway.
    pub gateway: Option<IpAddr>,
    /// DNS servers, in order.
    pub dns: Vec<IpAddr>,
    /// Domains in which short names are looked up.
    pub search: Vec<String>,
    /// Static routes.
    pub routes: Vec<Route>,
    /// True when the interface has failed if this family has.
    pub required: bool,
    /// Milliseconds that this family is waited for although it is not required.
    pub required_timeout_ms: Option<u32>,
    /// Means something only where [`Method::is_automatic`].
    pub automatic: Automatic,
    /// NetworkManager's own settings of this family, as [`Profile::settings`].
    pub settings: Settings,
}

/// Where addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// IPv4: DHCP. IPv6: router advertisements, and DHCP as they say.
    Auto,
    /// The static addresses alone.
    Manual,
    /// A link-local address alone.
    LinkLocal,
    /// The family is off.
    Disabled,
    /// DHCP without router advertisements.
    Dhcp,
}

/// How automatic configuration is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Automatic {
    /// Do not take the DNS servers that the network offers.
    pub ignore_dns: bool,
    /// Do not take the routes that the network offers, its gateway among them.
    pub ignore_routes: bool,
    /// Take no default route over this interface.
    pub never_default: bool,
    /// Metric of the routes that the network offers.
    pub metric: Option<u32>,
    /// Routing table of the routes that DHCP offers; `None`: the main one.
    pub table: Option<u32>,
    /// Seconds that DHCP may take.
    pub timeout: Option<u32>,
    /// Host name to send.
    pub host_name: Option<String>,
    /// Client identifier to send, type byte first.
    pub client_id: Option<Vec<u8>>,
    /// Vendor class to send (IPv4).
    pub vendor_class: Option<VendorClass>,
    /// Differentiated services code point of what the client sends (IPv4).
    pub dscp: Option<u8>,
    /// What network_data says of IPv6: `dhcp`, `slaac`, `stateless` or
    /// `stateful`. The routers have the last word.
    pub mode: Option<&'static str>,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination as it was given; bits behind the prefix may be set.
    pub destination: IpPrefix,
    /// Next hop; `None`: on the link.
    pub via: Option<IpAddr>,
    /// What happens to a packet.
    pub kind: RouteKind,
    /// Metric, where given.
    pub metric: Option<u32>,
    /// Routing table, where given.
    pub table: Option<u32>,
    /// What NMState says of it besides, by NetworkManager's names and in the
    /// order in which they are written: `weight`, `mtu`, ...
    pub options: Vec<(&'static str, String)>,
}

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteKind {
    /// Sends it on.
    #[default]
    Unicast,
    /// Drops it.
    Blackhole,
    /// Drops it, and reports that there is no way.
    Unreachable,
    /// Drops it, and reports that it is forbidden.
    Prohibit,
}

/// An address or network with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPrefix {
    /// The address.
    pub address: IpAddr,
    /// Length of the prefix, at most 32 or 128.
    pub length: u8,
}

impl Interface {
    /// A NIC of which nothing is said but which one is meant. Like a port it has
    /// neither family.
    pub(crate) fn of(matches: InterfaceMatch) -> Interface {
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
            last_choice: false,
            down: false,
            ipv4: None,
            ipv6: None,
            profile: Profile::default(),
        }
    }
}

impl IpPlan {
    /// A family of which nothing is said but its method.
    pub(crate) fn of(method: Method) -> IpPlan {
        IpPlan {
            method,
            addresses: Vec::new(),
            gateway: None,
            dns: Vec::new(),
            search: Vec::new(),
            routes: Vec::new(),
            required: false,
            required_timeout_ms: None,
            automatic: Automatic::default(),
            settings: Settings::new(),
        }
    }
}

impl Automatic {
    /// The client identifier as people write it: `00:61:62`.
    pub(crate) fn client_id_text(&self) -> Option<String> {
        let bytes = self.client_id.as_ref()?.iter();
        let bytes: Vec<_> = bytes.map(|byte| format!("{byte:02x}")).collect();
        Some(bytes.join(":"))
    }
}

impl IpPrefix {
    /// The network: the same with every bit behind the prefix zero, which is
    /// the only form of a destination that the kernel takes.
    pub fn network(self) -> IpPrefix {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !host))
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !host))
            }
        };
        IpPrefix { address, ..self }
    }
}

impl Route {
    /// Table and options as a keyfile has them: `table=254`, `mtu=1400`.
    pub fn option_words(&self) -> Vec<String> {
        let table = self.table.map(|table| format!("table={table}"));
        let options = self.options.iter();
        let options = options.map(|(name, value)| format!("{name}={value}"));
        table.into_iter().chain(options).collect()
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Method {
    /// True when the network is asked.
    pub fn is_automatic(self) -> bool {
        matches!(self, Method::Auto | Method::Dhcp)
    }
}

impl InterfaceMatch {
    /// True when no particular device is meant.
    pub fn is_any(&self) -> bool {
        self.name.is_none() && self.mac.is_none()
    }

    /// True for a device of this name with one of these hardware addresses
    /// (its own and the one it came with, where they differ).
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
    /// Puts the interfaces into their order, and numbers the ports of each
    /// controller without a gap.
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

    /// The ports of a bond, bridge or team, in the order of its list.
    pub fn ports_of(&self, controller: &str) -> Vec<usize> {
        let is_port = |index: &usize| {
            let interface = &self.interfaces[*index];
            interface.controller.as_deref() == Some(controller)
        };
        let mut ports: Vec<_> = (0..self.interfaces.len()).filter(is_port).collect();
        ports.sort_by_key(|index| self.interfaces[*index].port_number);
        ports
    }

    /// The interfaces a device with these names and addresses is for, the most
    /// particular first: what names it, then what knows its address, then what takes one device whatever it
    /// is, then what takes all, and at the end what is a last choice.
    pub fn candidates(&self, names: &[&str], macs: &[MacAddr]) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.interfaces.len())
            .filter(|&index| {
                let interface = &self.interfaces[index];
                let fits = |name: &&str| interface.matches.fits(name, macs);
                // An end of a virtual cable is a NIC to everybody.
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
            (interface.last_choice, is_general)
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str, length: u8) -> IpPrefix {
        let address = address.parse().unwrap();
        IpPrefix { address, length }
    }

    #[test]
    fn a_network_has_no_host_bits() {
        for (address, length, network) in [
            ("10.1.2.3", 8, "10.0.0.0/8"),
            ("10.1.2.3", 0, "0.0.0.0/0"),
            ("10.1.2.3", 32, "10.1.2.3/32"),
            ("2001:db8::1", 64, "2001:db8::/64"),
            ("2001:db8::1", 0, "::/0"),
            ("2001:db8::1", 128, "2001:db8::1/128"),
        ] {
            assert_eq!(prefix(address, length).network().to_string(), network);
        }
    }

    #[test]
    fn the_most_particular_interface_comes_first() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let other = MacAddr([2, 0, 0, 0, 0, 2]);
        let interface = |name: Option<&str>, mac, multi| Interface {
            multi,
            ..Interface::of(InterfaceMatch {
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
        plan.interfaces[2].last_choice = true;
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
        let plan = |line: &str| {
            let line = landfall_boot_params::CommandLine::parse(line);
            NetworkPlan::for_boot(&landfall_boot_params::NetArgs::from_command_line(&line))
        };
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
