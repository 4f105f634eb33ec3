//! The interfaces of the document while they are read and connected.

use landfall_boot_params::dracut_net::is_interface_name;
use landfall_boot_params::{ClonedMac, MacAddr};

use super::family::Family;
use super::fields::{Fields, Findings};
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, Settings};

/// The `state` of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    Down,
    /// The entry is known, but gets no profile.
    Absent,
    /// The entry is treated as if it were not in the list.
    Ignore,
}

/// One entry of the list.
pub(super) struct Described {
    pub(super) path: String,
    /// The name by which the rest of the document refers to the entry.
    pub(super) name: String,
    pub(super) other_names: Vec<String>,
    pub(super) state: State,
    /// True if the NIC is identified by its MAC address, and the name is only a label.
    pub(super) by_mac: bool,
    /// The MAC address that `copy-mac-from` of another interface copies.
    pub(super) mac: Option<MacAddr>,
    pub(super) copy_mac_from: Option<String>,
    pub(super) controller: Option<String>,
    /// `None` if the entry lists no ports.
    pub(super) ports: Option<Vec<Port>>,
    /// The name of the parent interface, and the path of the key that contains the name.
    pub(super) parent: Option<String>,
    pub(super) parent_path: String,
    /// The port of an Open vSwitch bridge that contains the interface.
    pub(super) ovs_port: Option<String>,
    /// Data that Open vSwitch stores about the interface.
    pub(super) ovs_db: Vec<(&'static str, Settings)>,
    /// The configuration in the ramdisk, where it differs because of an Open vSwitch
    /// bridge.
    pub(super) in_ramdisk: InRamdisk,
    pub(super) ipv4: Family,
    pub(super) ipv6: Family,
    pub(super) interface: Interface,
}

/// The ramdisk's configuration of a port of an Open vSwitch bridge.
#[derive(Default)]
pub(super) struct InRamdisk {
    /// The configuration of IPv4 and IPv6.
    pub(super) ip: Option<(Family, Family)>,
    pub(super) set_mac: Option<ClonedMac>,
    pub(super) controller: Option<String>,
}

/// A port in the list of its controller.
#[derive(Clone)]
pub(super) struct Port {
    pub(super) path: String,
    pub(super) name: String,
    /// The section of the port's profile, and the settings in it.
    pub(super) section: Option<&'static str>,
    pub(super) settings: Settings,
    /// The queue id of a bond's port.
    pub(super) queue: Option<u32>,
    /// True if the bridge filters the VLANs of this port.
    pub(super) has_vlans: bool,
}

#[derive(Default)]
pub(super) struct Interfaces {
    pub(super) list: Vec<Described>,
    /// The names of the entries with `state: ignore`.
    pub(super) ignored: Vec<String>,
}

impl Port {
    pub(super) fn new(name: &str, path: String) -> Port {
        Port {
            path,
            name: name.to_owned(),
            section: None,
            settings: Settings::new(),
            queue: None,
            has_vlans: false,
        }
    }
}

impl Interfaces {
    /// Index of the interface that is up and whose device has this name. If there is
    /// none: of the interface that has this name as an alternative name or as the name of
    /// its profile.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let by_name = |d: &Described| d.name == name && d.is_named();
        let by_other =
            |d: &Described| d.state == State::Up && d.other_names.iter().any(|other| other == name);
        let by_profile = |d: &Described| match &d.interface.profile.id {
            Some(id) => id == name,
            None => false,
        };
        let position = |is: &dyn Fn(&Described) -> bool| self.list.iter().position(is);
        position(&by_name)
            .or_else(|| position(&by_other))
            .or_else(|| position(&by_profile))
    }

    /// Index of the entry with this name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|d| d.name == name)
    }

    /// Index of the entry of a port. If the document does not describe the port, adds a
    /// NIC with its name.
    pub(super) fn port(&mut self, name: &str, path: &str, findings: &Findings) -> usize {
        self.position(name).unwrap_or_else(|| {
            if !is_interface_name(name) {
                let words = format!("expected the name of an interface, found {name:?}");
                findings.fault(path, words);
            }
            self.list.push(Described::plain(name, path.to_owned()));
            self.list.len() - 1
        })
    }

    /// True for the name of a VRF. Unlike other ports, the ports of a VRF have
    /// addresses.
    pub(super) fn is_vrf(&self, name: &str) -> bool {
        let is =
            |d: &Described| d.name == name && matches!(d.interface.kind, InterfaceKind::Vrf { .. });
        self.list.iter().any(is)
    }
}

impl Described {
    /// True if the interface is up and its name is the name of the device.
    fn is_named(&self) -> bool {
        self.state == State::Up && !self.by_mac
    }

    /// True for an interface of Open vSwitch, which the ramdisk does not have.
    pub(super) fn is_ovs_interface(&self) -> bool {
        matches!(self.interface.kind, InterfaceKind::OpenVswitch { .. })
    }

    /// A NIC that the document names but does not describe.
    pub(super) fn plain(name: &str, path: String) -> Described {
        Described {
            path,
            name: name.to_owned(),
            other_names: Vec::new(),
            state: State::Up,
            by_mac: false,
            mac: None,
            copy_mac_from: None,
            controller: None,
            ports: None,
            parent: None,
            parent_path: String::new(),
            ovs_port: None,
            ovs_db: Vec::new(),
            in_ramdisk: InRamdisk::default(),
            ipv4: Family::default(),
            ipv6: Family::default(),
            interface: Interface::new(InterfaceMatch::named(name)),
        }
    }

    pub(super) fn family(&self, is_ipv4: bool) -> &Family {
        if is_ipv4 { &self.ipv4 } else { &self.ipv6 }
    }

    pub(super) fn family_mut(&mut self, is_ipv4: bool) -> &mut Family {
        if is_ipv4 {
            &mut self.ipv4
        } else {
            &mut self.ipv6
        }
    }

    /// Reports the addresses of an interface that cannot have any.
    pub(super) fn reject_addresses(&self, words: &str, findings: &Findings) {
        for (key, family) in [("ipv4", &self.ipv4), ("ipv6", &self.ipv6)] {
            if family.enabled && self.state == State::Up {
                findings.fault(&format!("{}.{key}", self.path), words);
            }
        }
    }

    /// Reads the name of the parent interface.
    pub(super) fn read_parent(&mut self, fields: &Fields) {
        self.parent = fields.text("base-iface").map(str::to_owned);
        self.parent_path = fields.at("base-iface");
    }

    /// Adds a setting that only NetworkManager needs.
    pub(super) fn set(&mut self, section: &'static str, key: &str, value: impl ToString) {
        let settings = &mut self.interface.profile.settings;
        let keys = settings.entry(section).or_default();
        keys.insert(key.to_owned(), value.to_string());
    }
}
