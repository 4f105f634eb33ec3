//! [`NetworkPlan`] → NetworkManager keyfiles, the form in which CoreOS takes
//! the network of its first boot (`coreos-firstboot-network/`).
//!
//! The files are those that `nmstatectl gc` writes: the same names, sections,
//! keys and values for the same NMState, so that a host has the same profiles
//! whoever made them (`tests/nmstate-oracle`). What another input says and
//! NMState cannot is written besides.

mod ip;
mod sections;

use crate::plan::{Interface, InterfaceKind, NetworkPlan};
use landfall_boot_params::MacAddr;
use sections::Sections;
use uuid::Uuid;

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
        let mut sections = Sections::default();
        self.connection(interface, &mut sections);
        sections.kind(&interface.kind);
        if interface.controller.is_none() {
            sections.ip("ipv4", interface.ipv4.as_ref());
            sections.ip("ipv6", interface.ipv6.as_ref());
        }
        sections.ethernet(interface);
        if let InterfaceKind::Vlan {
            parent, parent_mac, ..
        } = &interface.kind
        {
            match (parent, parent_mac) {
                (Some(parent), None) => sections.add("vlan", "parent", parent),
                (_, Some(mac)) => self.parent_by_mac(*mac, parent.is_some(), &mut sections),
                (None, None) => {}
            }
        }
        for (section, settings) in &interface.profile.settings {
            sections.begin(section);
            for (key, value) in settings {
                sections.add(section, key, value);
            }
        }
        Keyfile {
            name: format!("{}.nmconnection", id(interface)),
            text: sections.to_string(),
        }
    }

    fn connection(&self, interface: &Interface, sections: &mut Sections) {
        let mut add = |key, value: &str| sections.add("connection", key, value);
        add("id", &id(interface));
        add("uuid", &uuid(interface));
        add("type", type_name(&interface.kind));
        add("autoconnect", if interface.down { "false" } else { "true" });
        let is_controller = matches!(
            interface.kind,
            InterfaceKind::Bond { .. } | InterfaceKind::Bridge { .. } | InterfaceKind::Team { .. }
        );
        add("autoconnect-slaves", if is_controller { "1" } else { "-1" });
        if let Some(name) = &interface.matches.name
            && !has_label(interface)
        {
            add("interface-name", name);
        }
        if let Some(controller) = &interface.controller {
            add("master", controller);
            add("slave-type", self.controller_type(controller));
        }
    }

    /// A VLAN on a NIC that is known by hardware address alone: NetworkManager
    /// takes the profile of that NIC for its name. Where the VLAN has no name
    /// of its own it is called after its NIC there, which only the address of
    /// the NIC makes it do.
    fn parent_by_mac(&self, mac: MacAddr, has_label: bool, sections: &mut Sections) {
        let mut interfaces = self.interfaces.iter();
        let parent =
            interfaces.find(|i| i.kind == InterfaceKind::Ethernet && i.matches.mac == Some(mac));
        match parent.filter(|_| !has_label) {
            Some(parent) => sections.add("vlan", "parent", uuid(parent)),
            None => sections.add("ethernet", "mac-address", sections::mac(mac)),
        }
    }

    fn controller_type(&self, name: &str) -> &'static str {
        let mut interfaces = self.interfaces.iter();
        let controller = interfaces.find(|i| i.matches.name.as_deref() == Some(name));
        controller.map_or("bond", |controller| type_name(&controller.kind))
    }
}

/// The profile's name, and the file's.
fn id(interface: &Interface) -> String {
    match (&interface.profile.id, &interface.matches.name) {
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => match interface.matches.mac {
            // A colon is no character for a file on a FAT.
            Some(mac) => mac.to_string().replace(':', "-"),
            None => "any".to_owned(),
        },
    }
}

/// The same for the same interface, whenever and by whomever it is made: of
/// what NMState calls its type and it (RFC 9562, 5.5; name space of URLs).
fn uuid(interface: &Interface) -> String {
    let kind = match interface.kind {
        InterfaceKind::Ethernet => "ethernet",
        InterfaceKind::Vlan { .. } => "vlan",
        InterfaceKind::Bond { .. } => "bond",
        InterfaceKind::Bridge { .. } => "linux-bridge",
        InterfaceKind::Team { .. } => "team",
        InterfaceKind::Infiniband { .. } => "infiniband",
    };
    let name = match &interface.profile.label {
        Some(label) => label.clone(),
        None => id(interface),
    };
    let name = format!("{kind}://{name}");
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
}

/// True for a VLAN whose name is only made up until its NIC is known.
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
    }
}

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;
