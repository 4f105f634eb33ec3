//! The interfaces of a plan that is still being read from the arguments.

use std::net::IpAddr;

use landfall_boot_params::dracut_net::DeviceSpec;
use landfall_boot_params::{InfinibandAddr, IpPrefix, MacAddr, NetArgs};

use crate::bond_rules;
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, IpPlan, LAST_CHOICE, Method};

/// What identifies an interface for later arguments. The key stays the same when the
/// interface's match changes: `ip=dhcp BOOTIF=...` binds the interface for any device to
/// one address, and later arguments for any device still apply to this interface.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Any,
    Name(String),
    Mac(MacAddr),
    Infiniband(InfinibandAddr),
    /// For a device text that is neither a name nor an address.
    Unnamed,
    BootInterface,
    Others,
}

/// Interfaces in the order in which the arguments first mention them.
pub(super) struct Profiles {
    list: Vec<(Key, Interface)>,
    /// Indexes of the interfaces that have an `ip=` argument.
    with_ip: Vec<usize>,
    /// The arguments about each interface, for messages: the index and the
    /// argument.
    arguments: Vec<(usize, String)>,
    parents: Vec<DeviceSpec>,
    /// The servers of `nameserver=`, which apply to every interface.
    common_dns: Vec<IpAddr>,
    /// The initial configuration of both families of a new interface.
    ipv4: IpPlan,
    ipv6: IpPlan,
}

/// The settings of a family that gets its addresses by DHCP or router advertisements and
/// is not required.
pub(crate) fn automatic() -> IpPlan {
    IpPlan::new(Method::Auto)
}

pub(super) fn add_once<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

impl Profiles {
    pub(super) fn new(args: &NetArgs) -> Profiles {
        let mut ipv6 = automatic();
        ipv6.automatic.ignore_dns = !args.accept_peer_dns;
        ipv6.automatic.timeout = Some(args.dhcp_timeout);
        let mut ipv4 = ipv6.clone();
        ipv4.automatic.vendor_class = args.dhcp_vendor_class.clone();
        ipv4.automatic.dscp = args.dhcp_dscp;
        // By default the boot waits for IPv4, until an argument sets a method.
        ipv4.required_timeout_ms = Some(args.ip_required_timeout_ms);
        Profiles {
            list: Vec::new(),
            with_ip: Vec::new(),
            arguments: Vec::new(),
            parents: Vec::new(),
            common_dns: args.nameservers.clone(),
            ipv4,
            ipv6,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn at(&mut self, index: usize) -> &mut Interface {
        &mut self.list[index].1
    }

    pub(super) fn for_each(&mut self, mut change: impl FnMut(&mut Interface)) {
        for (_, interface) in &mut self.list {
            change(interface);
        }
    }

    /// The index of the interface for a device. Adds the interface if there is none yet.
    /// An invalid device text means the first interface that is not a port.
    pub(super) fn of_device(&mut self, device: &DeviceSpec) -> usize {
        match device {
            DeviceSpec::Name(name) => {
                let known = self.find(&Key::Name(name.clone()));
                known.unwrap_or_else(|| self.add_named(name))
            }
            DeviceSpec::Mac(mac) => {
                let matches = InterfaceMatch::with_mac(*mac);
                self.find_or_add(Key::Mac(*mac), matches, false)
            }
            DeviceSpec::Infiniband(mac) => match self.find(&Key::Infiniband(*mac)) {
                Some(index) => index,
                None => {
                    let matches = InterfaceMatch::default();
                    let index = self.add(Key::Infiniband(*mac), matches, false);
                    self.at(index).kind = infiniband(Some(*mac));
                    index
                }
            },
            DeviceSpec::Invalid(_) => match self.first() {
                Some(index) => index,
                None => self.add(Key::Unnamed, InterfaceMatch::default(), false),
            },
        }
    }

    /// Like [`of_device`](Self::of_device), for a device that is Ethernet even if its
    /// name starts with `ib`.
    pub(super) fn of_ethernet_device(&mut self, device: &DeviceSpec) -> usize {
        match device {
            DeviceSpec::Name(name) if self.find(&Key::Name(name.clone())).is_none() => {
                let index = self.add_named(name);
                self.at(index).kind = InterfaceKind::Ethernet;
                index
            }
            DeviceSpec::Invalid(_) => {
                let mut list = self.list.iter();
                match list.position(|(_, i)| i.kind == InterfaceKind::Ethernet) {
                    Some(index) => index,
                    None => self.add(Key::Unnamed, InterfaceMatch::default(), false),
                }
            }
            device => {
                let index = self.of_device(device);
                // The kind InfiniBand came only from the name of the device, but the
                // argument requires Ethernet.
                if self.at(index).kind == infiniband(None) {
                    self.at(index).kind = InterfaceKind::Ethernet;
                }
                index
            }
        }
    }

    /// Adds an interface that the firmware describes. It replaces an earlier one
    /// with the same `name`; `ip=` can refer to it by that name.
    pub(super) fn put(&mut self, name: String, interface: Interface) {
        let key = Key::Name(name);
        match self.find(&key) {
            Some(index) => self.list[index].1 = interface,
            None => self.list.push((key, interface)),
        }
    }

    /// Whether an interface is for the NIC with this address.
    pub(super) fn has_nic(&self, mac: MacAddr) -> bool {
        self.list.iter().any(|(_, interface)| {
            interface.kind == InterfaceKind::Ethernet && interface.matches.mac == Some(mac)
        })
    }

    /// The interface for every NIC that has no interface of its own. An interface for any
    /// one NIC (`multi` is false) does not count, because it applies only to the first
    /// NIC with a carrier.
    pub(super) fn of_all_nics(&self) -> Option<&Interface> {
        let mut list = self.list.iter().map(|(_, interface)| interface);
        list.find(|interface| {
            let is_ethernet = interface.kind == InterfaceKind::Ethernet;
            is_ethernet && interface.multi && interface.matches.is_any()
        })
    }

    /// Notes an argument about this interface, so that a message can quote it.
    pub(super) fn note(&mut self, index: usize, argument: &str) {
        self.arguments.push((index, argument.to_owned()));
    }

    /// Notes that this interface has an `ip=` argument.
    pub(super) fn has_ip(&mut self, index: usize) {
        self.with_ip.push(index);
    }

    /// Notes that this device carries a VLAN.
    pub(super) fn is_parent(&mut self, device: &DeviceSpec) {
        self.parents.push(device.clone());
    }

    /// Switches off the addresses of interfaces that carry a VLAN, except those with an
    /// `ip=` argument.
    pub(super) fn disable_vlan_parents(&mut self) {
        for device in std::mem::take(&mut self.parents) {
            let index = self.of_device(&device);
            if self.with_ip.contains(&index) {
                continue;
            }
            let Interface { ipv4, ipv6, .. } = self.at(index);
            for ip in [ipv4, ipv6].into_iter().flatten() {
                ip.method = Method::Disabled;
                ip.required_timeout_ms = None;
            }
        }
    }

    /// The first interface in the list that is not a port.
    fn first(&self) -> Option<usize> {
        let mut list = self.list.iter();
        list.position(|(_, interface)| interface.controller.is_none())
    }

    /// The index of the interface for every device. Adds the interface if there is none
    /// yet.
    pub(super) fn of_any_device(&mut self) -> usize {
        self.find_or_add(Key::Any, InterfaceMatch::default(), true)
    }

    /// The index of the first interface that is not a port, or else of the interface for
    /// every device.
    pub(super) fn first_or_any(&mut self) -> usize {
        match self.first() {
            Some(index) => index,
            None => self.of_any_device(),
        }
    }

    /// Applies `BOOTIF=`: binds the first Ethernet interface to this address. If
    /// that interface is for another device, adds a separate one.
    pub(super) fn bind_to_boot_interface(&mut self, mac: MacAddr) {
        let is_ethernet = |(_, i): &(Key, Interface)| i.kind == InterfaceKind::Ethernet;
        let first = match self.list.iter().position(is_ethernet) {
            Some(index) => index,
            None => self.of_any_device(),
        };
        let matches = &mut self.list[first].1.matches;
        let bound_elsewhere = matches.name.is_some() || matches.mac.is_some_and(|m| m != mac);
        if bound_elsewhere {
            let matches = InterfaceMatch::with_mac(mac);
            let index = self.add(Key::BootInterface, matches, false);
            let interface = self.at(index);
            interface.priority = LAST_CHOICE;
            // The profile gets a name of its own, because another argument may identify
            // the same NIC by its address.
            interface.profile.id = Some("bootif_connection".to_owned());
        } else {
            matches.mac = Some(mac);
        }
    }

    /// Adds an interface that matches every NIC, unless the plan has one already.
    pub(super) fn cover_all(&mut self, needed: bool) {
        if !self
            .list
            .iter()
            .any(|(_, interface)| interface.matches.is_any())
        {
            let index = self.add(Key::Others, InterfaceMatch::default(), true);
            self.at(index).needed = needed;
        }
    }

    fn find(&self, key: &Key) -> Option<usize> {
        self.list.iter().position(|(known, _)| known == key)
    }

    fn find_or_add(&mut self, key: Key, matches: InterfaceMatch, multi: bool) -> usize {
        match self.find(&key) {
            Some(index) => index,
            None => self.add(key, matches, multi),
        }
    }

    fn add_named(&mut self, name: &str) -> usize {
        let matches = InterfaceMatch::named(name);
        let index = self.add(Key::Name(name.to_owned()), matches, false);
        // As in NetworkManager, the name decides on the kind, because the device may not
        // exist yet.
        if name.starts_with("ib") {
            self.at(index).kind = infiniband(None);
        }
        index
    }

    fn add(&mut self, key: Key, matches: InterfaceMatch, multi: bool) -> usize {
        let interface = Interface {
            multi,
            ipv4: Some(self.ipv4.clone()),
            ipv6: Some(self.ipv6.clone()),
            ..Interface::new(matches)
        };
        self.list.push((key, interface));
        self.list.len() - 1
    }

    /// Returns the interfaces, without the settings that have no effect in combination
    /// with other settings of the same interface. Adds a warning for each removed
    /// setting.
    pub(super) fn finish(mut self, warnings: &mut Vec<String>) -> Vec<Interface> {
        for index in 0..self.list.len() {
            let interface = &mut self.list[index].1;
            let mut lost = Vec::new();
            if let Some(controller) = &interface.controller {
                let families = [interface.ipv4.take(), interface.ipv6.take()];
                for ip in families.into_iter().flatten() {
                    let of_port = |what: &str, value: String| {
                        let why =
                            format!("expected no {what} on a port of {controller}, found {value}");
                        (value, why)
                    };
                    let addresses = ip.addresses.iter().map(IpPrefix::to_string);
                    let servers = ip
                        .dns
                        .iter()
                        .filter(|server| !self.common_dns.contains(server));
                    let routes = ip.routes.iter().map(|route| &route.destination);
                    lost.extend(addresses.map(|address| of_port("address", address)));
                    lost.extend(servers.map(|server| of_port("DNS server", server.to_string())));
                    lost.extend(routes.map(|route| of_port("route", route.to_string())));
                }
            }
            if let InterfaceKind::Bond { options } = &mut interface.kind {
                lost.extend(bond_rules::drop_conflicts(options));
            }
            for ip in interface.families_mut() {
                drop_unusable(ip, &mut lost);
            }
            for (what, why) in lost {
                warnings.push(format!("{}: {why}; ignored", self.quote(index, &what)));
            }
        }
        self.list.into_iter().map(|(_, i)| i).collect()
    }

    /// The last argument for this interface that contains `what`, for messages. If no
    /// argument contains it: the last argument for the interface, or else the NIC that it
    /// matches.
    fn quote(&self, index: usize, what: &str) -> String {
        let here = || self.arguments.iter().rev().filter(|(at, _)| *at == index);
        let (_, interface) = &self.list[index];
        here()
            .find(|(_, text)| text.contains(what))
            .or_else(|| here().next())
            .map_or_else(|| interface.matches.to_string(), |(_, text)| text.clone())
    }
}

fn infiniband(mac: Option<InfinibandAddr>) -> InterfaceKind {
    InterfaceKind::Infiniband {
        mac,
        parent: None,
        p_key: None,
        mode: Some("datagram"),
    }
}

/// Removes the settings that the family cannot use. For each, adds to `lost` the text by
/// which to find its argument, and a message.
fn drop_unusable(ip: &mut IpPlan, lost: &mut Vec<(String, String)>) {
    if let Some(gateway) = ip.gateway.take_if(|_| ip.addresses.is_empty()) {
        let why = format!("gateway {gateway} needs a static address of its family");
        lost.push((gateway.to_string(), why));
    }
    if ip.method == Method::Disabled {
        // A later argument may have switched off the family that an earlier one
        // required.
        ip.required = false;
    }
    if matches!(ip.method, Method::Disabled | Method::LinkLocal) {
        for server in ip.dns.drain(..) {
            let why = format!("DNS server {server} is of a family that is off");
            lost.push((server.to_string(), why));
        }
    }
}
