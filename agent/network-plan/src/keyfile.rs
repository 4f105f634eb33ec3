//! [`NetworkPlan`] → NetworkManager keyfiles, the form in which CoreOS takes
//! the network of its first boot (`coreos-firstboot-network/`).
//!
//! Identifiers for DHCP are those that OpenShift's images set, and that the
//! ramdisk has used: a lease that is reserved for the host fits both.

use std::fmt::Write as _;
use std::net::IpAddr;

use landfall_boot_params::MacAddr;

use crate::plan::{Ethtool, Interface, InterfaceKind, IpPlan, Method, NetworkPlan};

/// One file. It holds no secret, but NetworkManager takes none that others
/// than root can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyfile {
    /// The file's name, with its suffix.
    pub name: String,
    /// Its content.
    pub text: String,
}

impl NetworkPlan {
    /// A profile for each interface of the plan. NICs that no interface means
    /// in particular are left to NetworkManager, which asks their network.
    pub fn keyfiles(&self) -> Vec<Keyfile> {
        let particular = |interface: &&Interface| !interface.matches.is_any();
        let interfaces = self.interfaces.iter().filter(particular);
        interfaces
            .map(|interface| self.keyfile(interface))
            .collect()
    }

    fn keyfile(&self, interface: &Interface) -> Keyfile {
        let matches = &interface.matches;
        let id = match (&matches.name, matches.mac) {
            (Some(name), _) => name.clone(),
            (None, Some(mac)) => file_name(mac),
            (None, None) => "any".to_owned(),
        };
        let mut text = String::new();
        let mut sections = Sections(&mut text);
        sections.begin("connection");
        sections.add("id", &id);
        sections.add("type", type_name(&interface.kind));
        // A VLAN on a NIC that is known by MAC alone gets its name there.
        if let Some(name) = matches
            .name
            .as_ref()
            .filter(|_| parent_mac(interface).is_none())
        {
            sections.add("interface-name", name);
        }
        if let Some(controller) = &interface.controller {
            sections.add("master", controller);
            sections.add("slave-type", self.controller_type(controller));
        }
        sections.ethernet(interface);
        sections.kind(&interface.kind);
        if interface.controller.is_none() {
            sections.ip("ipv4", interface.ipv4.as_ref());
            sections.ip("ipv6", interface.ipv6.as_ref());
        }
        Keyfile {
            name: format!("{id}.nmconnection"),
            text,
        }
    }

    fn controller_type(&self, name: &str) -> &'static str {
        let mut interfaces = self.interfaces.iter();
        let controller = interfaces.find(|i| i.matches.name.as_deref() == Some(name));
        controller.map_or("bond", |controller| type_name(&controller.kind))
    }
}

/// `52-54-00-00-00-01`: a colon is no character for a file on a FAT.
fn file_name(mac: MacAddr) -> String {
    mac.to_string().replace(':', "-")
}

fn type_name(kind: &InterfaceKind) -> &'static str {
    match kind {
        InterfaceKind::Ethernet => "ethernet",
        InterfaceKind::Vlan { .. } => "vlan",
        InterfaceKind::Bond { .. } => "bond",
        InterfaceKind::Bridge { .. } => "bridge",
        InterfaceKind::Team { .. } => "team",
        InterfaceKind::Infiniband { .. } => "infiniband",
    }
}

fn parent_mac(interface: &Interface) -> Option<MacAddr> {
    match interface.kind {
        InterfaceKind::Vlan { parent_mac, .. } => parent_mac,
        _ => None,
    }
}

/// A keyfile in the making. Nothing of a plan holds a line break.
struct Sections<'a>(&'a mut String);

impl Sections<'_> {
    fn begin(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "[{name}]");
    }

    fn add(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{key}={value}");
    }

    fn ethernet(&mut self, interface: &Interface) {
        // For a VLAN: the address of the NIC that carries it.
        let mac = interface.matches.mac.or(parent_mac(interface));
        let is_plain = mac.is_none() && interface.set_mac.is_none() && interface.mtu.is_none();
        if is_plain && interface.ethtool.is_none() {
            return;
        }
        self.begin("ethernet");
        if let Some(mac) = mac {
            self.add("mac-address", mac);
        }
        if let Some(mac) = interface.set_mac {
            self.add("cloned-mac-address", mac);
        }
        if let Some(mtu) = interface.mtu {
            self.add("mtu", mtu);
        }
        if let Some(Ethtool { autoneg, speed }) = interface.ethtool {
            self.add("auto-negotiate", autoneg);
            if let Some(speed) = speed {
                self.add("speed", speed);
                self.add("duplex", "full");
            }
        }
    }

    fn kind(&mut self, kind: &InterfaceKind) {
        match kind {
            InterfaceKind::Ethernet => {}
            InterfaceKind::Vlan {
                id,
                parent,
                parent_mac,
            } => {
                self.begin("vlan");
                self.add("id", id);
                if let Some(parent) = parent.as_ref().filter(|_| parent_mac.is_none()) {
                    self.add("parent", parent);
                }
            }
            InterfaceKind::Bond { options } => {
                self.begin("bond");
                for (name, value) in options {
                    self.add(name, value);
                }
            }
            InterfaceKind::Bridge { stp } => {
                self.begin("bridge");
                self.add("stp", stp);
            }
            InterfaceKind::Team { .. } => self.begin("team"),
            InterfaceKind::Infiniband { mac, parent, p_key } => {
                self.begin("infiniband");
                if let Some(mac) = mac {
                    self.add("mac-address", mac);
                }
                if let (Some(parent), Some(key)) = (parent, p_key) {
                    self.add("p-key", key);
                    self.add("parent", parent);
                }
                self.add("transport-mode", "datagram");
            }
        }
    }

    fn ip(&mut self, family: &str, ip: Option<&IpPlan>) {
        self.begin(family);
        let Some(ip) = ip else {
            return self.add("method", "disabled");
        };
        let is_ipv4 = family == "ipv4";
        self.add("method", method_name(ip.method, is_ipv4));
        for (index, address) in (1..).zip(&ip.addresses) {
            self.add(&format!("address{index}"), address);
        }
        if let Some(gateway) = ip.gateway {
            self.add("gateway", gateway);
        }
        for (index, route) in (1..).zip(&ip.routes) {
            let destination = route.destination.network();
            let nobody = || match destination.address {
                IpAddr::V4(_) => "0.0.0.0".to_owned(),
                IpAddr::V6(_) => "::".to_owned(),
            };
            let via = route.via.map_or_else(nobody, |via| via.to_string());
            let key = format!("route{index}");
            match route.metric {
                Some(metric) => self.add(&key, format_args!("{destination},{via},{metric}")),
                None => self.add(&key, format_args!("{destination},{via}")),
            }
        }
        if !ip.dns.is_empty() {
            let servers: Vec<_> = ip.dns.iter().map(ToString::to_string).collect();
            self.add("dns", format_args!("{};", servers.join(";")));
        }
        if ip.required {
            self.add("may-fail", false);
        }
        if ip.method.is_automatic() {
            self.automatic(ip, is_ipv4);
        }
    }

    fn automatic(&mut self, ip: &IpPlan, is_ipv4: bool) {
        let automatic = &ip.automatic;
        if automatic.ignore_dns {
            self.add("ignore-auto-dns", true);
        }
        if let Some(seconds) = automatic.timeout {
            self.add("dhcp-timeout", seconds);
        }
        if let Some(name) = &automatic.host_name {
            self.add("dhcp-hostname", name);
        }
        match (is_ipv4, &automatic.client_id) {
            (true, None) => self.add("dhcp-client-id", "mac"),
            (true, Some(id)) => {
                let bytes: Vec<_> = id.iter().map(|byte| format!("{byte:02x}")).collect();
                self.add("dhcp-client-id", bytes.join(":"));
            }
            (false, _) => {
                self.add("dhcp-duid", "ll");
                self.add("dhcp-iaid", "mac");
            }
        }
        if let Some(class) = automatic.vendor_class.as_ref().filter(|_| is_ipv4) {
            self.add("dhcp-vendor-class-identifier", class);
        }
    }
}

fn method_name(method: Method, is_ipv4: bool) -> &'static str {
    match method {
        // Only IPv6 has DHCP without router advertisements.
        Method::Dhcp if !is_ipv4 => "dhcp",
        Method::Auto | Method::Dhcp => "auto",
        Method::Manual => "manual",
        Method::LinkLocal => "link-local",
        Method::Disabled => "disabled",
    }
}

#[cfg(test)]
mod tests;
