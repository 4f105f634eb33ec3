//! [`NetworkPlan`] → NetworkManager keyfiles. CoreOS reads the network configuration of
//! its first boot in this form (`coreos-firstboot-network/`).
//!
//! For the same NMState, the files have the same names, sections, keys and values as
//! those of `nmstatectl gc`. So a host gets the same profiles from either program
//! (`tests/nmstate-oracle`). This module adds the settings of other inputs that NMState
//! cannot express.

mod ip;
mod sections;

use std::collections::BTreeSet;
use std::iter;

use landfall_boot_params::MacAddr;
pub(crate) use sections::{Sections, section_name};
use uuid::Uuid;

use crate::plan::{Interface, InterfaceKind, NetworkPlan};

/// One keyfile. NetworkManager rejects files that users other than root can read, because
/// a keyfile may contain passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyfile {
    /// The file's name with its suffix.
    pub name: String,
    pub text: String,
}

impl NetworkPlan {
    /// One profile for each interface of the installed system that applies to a
    /// particular device. NetworkManager configures the other NICs automatically.
    pub fn keyfiles(&self) -> Vec<Keyfile> {
        let both = self
            .interfaces
            .iter()
            .filter(|i| !i.profile.is_ramdisk_only);
        let particular = both.chain(&self.installed).filter(|i| is_particular(i));
        let mut names = BTreeSet::new();
        particular
            .map(|interface| {
                let id = id(interface);
                // The plan may have two interfaces for one NIC (`ip=` with its MAC and
                // `ip=ibft`). Each needs a file name of its own.
                let numbers = (2..).map(|number| format!("{id}-{number}"));
                let mut ids = iter::once(id.clone()).chain(numbers);
                let id = ids.find(|id| names.insert(id.clone())).unwrap_or(id);
                self.keyfile(interface, &id)
            })
            .collect()
    }

    fn keyfile(&self, interface: &Interface, id: &str) -> Keyfile {
        Keyfile {
            name: format!("{id}.nmconnection"),
            text: self.sections(interface, id).to_string(),
        }
    }

    /// The sections of a profile with this name.
    pub(crate) fn sections(&self, interface: &Interface, id: &str) -> Sections {
        let mut sections = Sections::default();
        self.connection(interface, id, &mut sections);
        sections.kind(&interface.kind);
        // A port has no addresses, except for ports of a VRF and interfaces of Open
        // vSwitch.
        if interface.controller.is_none() || interface.ipv4.is_some() {
            sections.ip("ipv4", interface.ipv4.as_ref());
            sections.ip("ipv6", interface.ipv6.as_ref());
        }
        sections.ethernet(interface);
        self.parent(&interface.kind, &mut sections);
        for (section, settings) in &interface.profile.settings {
            sections.begin(section);
            for (key, value) in settings {
                sections.add(section, key, value);
            }
        }
        sections
    }

    fn connection(&self, interface: &Interface, id: &str, sections: &mut Sections) {
        let mut add = |key, value: &str| sections.add("connection", key, value);
        add("id", id);
        add("uuid", &uuid(interface, id));
        add("type", type_name(&interface.kind));
        if interface.priority != 0 {
            add("autoconnect-priority", &interface.priority.to_string());
        }
        add("autoconnect", if interface.down { "false" } else { "true" });
        let is_controller = matches!(
            interface.kind,
            InterfaceKind::Bond { .. }
                | InterfaceKind::Bridge { .. }
                | InterfaceKind::Team { .. }
                | InterfaceKind::Vrf { .. }
                | InterfaceKind::OpenVswitch {
                    profile_type: "ovs-bridge" | "ovs-port"
                }
        );
        add("autoconnect-slaves", if is_controller { "1" } else { "-1" });
        if let Some(name) = &interface.matches.name
            && !has_label(interface)
        {
            add("interface-name", name);
        }
        if let Some(controller) = &interface.controller {
            add("master", controller);
            let given = interface.profile.port_type;
            add(
                "slave-type",
                given.unwrap_or_else(|| self.controller_type(controller)),
            );
        }
    }

    /// Writes the key that refers to the parent interface.
    fn parent(&self, kind: &InterfaceKind, sections: &mut Sections) {
        match kind {
            InterfaceKind::Vlan {
                parent, parent_mac, ..
            } => match (parent, parent_mac) {
                (Some(parent), None) => sections.add("vlan", "parent", parent),
                (_, Some(mac)) => self.parent_by_mac(*mac, parent.is_some(), sections),
                (None, None) => {}
            },
            InterfaceKind::MacVlan {
                parent, parent_mac, ..
            } => {
                let by_mac = parent_mac.and_then(|mac| self.nic_with(mac));
                let uuid = by_mac.map(|nic| uuid(nic, &id(nic)));
                if let Some(parent) = uuid.or(parent.clone()) {
                    sections.add("macvlan", "parent", parent);
                }
            }
            // nmstate writes no section for an IPVLAN.
            _ => {}
        }
    }

    fn nic_with(&self, mac: MacAddr) -> Option<&Interface> {
        let mut interfaces = self.interfaces.iter();
        interfaces.find(|i| i.kind == InterfaceKind::Ethernet && i.matches.mac == Some(mac))
    }

    /// Writes the parent of a VLAN whose NIC the plan identifies only by hardware
    /// address. NetworkManager accepts the UUID of the NIC's profile instead of a name.
    /// A VLAN that must be named after its NIC gets the NIC's address instead of the
    /// UUID, because NetworkManager names the VLAN after its NIC only in that case.
    fn parent_by_mac(&self, mac: MacAddr, has_label: bool, sections: &mut Sections) {
        match self.nic_with(mac).filter(|_| !has_label) {
            Some(parent) => sections.add("vlan", "parent", uuid(parent, &id(parent))),
            None => sections.add("ethernet", "mac-address", sections::mac(mac)),
        }
    }

    fn controller_type(&self, name: &str) -> &'static str {
        let mut interfaces = self.interfaces.iter();
        let controller = interfaces.find(|i| i.matches.name.as_deref() == Some(name));
        controller.map_or("bond", |controller| type_name(&controller.kind))
    }
}

/// True unless the interface is for any device.
fn is_particular(interface: &Interface) -> bool {
    let is_port = matches!(
        interface.kind,
        InterfaceKind::Infiniband { mac: Some(_), .. }
    );
    is_port || !interface.matches.is_any()
}

/// The name of the profile and of its file, without the suffix.
pub(crate) fn id(interface: &Interface) -> String {
    let mac = match interface.kind {
        InterfaceKind::Infiniband { mac, .. } => mac.map(|mac| mac.to_string()),
        _ => interface.matches.mac.map(|mac| mac.to_string()),
    };
    match (&interface.profile.id, &interface.matches.name, mac) {
        (Some(name), _, _) | (None, Some(name), _) => name.clone(),
        // FAT does not allow a colon in a file name.
        (None, None, Some(mac)) => mac.replace(':', "-"),
        (None, None, None) => "any".to_owned(),
    }
}

/// The UUID of the profile (RFC 9562, 5.5; name space of URLs), made from NMState's
/// type and name of the interface. So the same interface always gets the same UUID,
/// whichever program writes the profile.
pub(crate) fn uuid(interface: &Interface, id: &str) -> String {
    let kind = match interface.kind {
        InterfaceKind::Ethernet | InterfaceKind::Veth { .. } => "ethernet",
        InterfaceKind::Vlan { .. } => "vlan",
        InterfaceKind::Bond { .. } => "bond",
        InterfaceKind::Bridge { .. } => "linux-bridge",
        InterfaceKind::Team { .. } => "team",
        InterfaceKind::Infiniband { .. } => "infiniband",
        InterfaceKind::Vrf { .. } => "vrf",
        InterfaceKind::MacVlan { tap: false, .. } => "mac-vlan",
        InterfaceKind::MacVlan { tap: true, .. } => "mac-vtap",
        InterfaceKind::IpVlan { .. } => "ipvlan",
        InterfaceKind::Loopback => "loopback",
        InterfaceKind::OpenVswitch { profile_type } => profile_type,
    };
    let kind = interface.profile.uuid_type.unwrap_or(kind);
    let name = interface.profile.label.as_deref().unwrap_or(id);
    let name = format!("{kind}://{name}");
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
}

/// True for a VLAN whose name is provisional until its NIC is known.
fn has_label(interface: &Interface) -> bool {
    matches!(
        interface.kind,
        InterfaceKind::Vlan {
            parent: Some(_),
            parent_mac: Some(_),
            ..
        }
    )
}

fn type_name(kind: &InterfaceKind) -> &'static str {
    match kind {
        InterfaceKind::Ethernet => "802-3-ethernet",
        InterfaceKind::Vlan { .. } => "vlan",
        InterfaceKind::Bond { .. } => "bond",
        InterfaceKind::Bridge { .. } => "bridge",
        InterfaceKind::Team { .. } => "team",
        InterfaceKind::Infiniband { .. } => "infiniband",
        InterfaceKind::Vrf { .. } => "vrf",
        InterfaceKind::MacVlan { .. } => "macvlan",
        InterfaceKind::IpVlan { .. } => "ipvlan",
        InterfaceKind::Veth { .. } => "veth",
        InterfaceKind::Loopback => "loopback",
        InterfaceKind::OpenVswitch { profile_type } => profile_type,
    }
}

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;
