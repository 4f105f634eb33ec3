//! Reads each entry of `interfaces` separately.

use landfall_boot_params::dracut_net::is_interface_name;
use landfall_boot_params::{ClonedMac, InfinibandAddr, MacAddr};

use super::fields::Fields;
use super::ip::{self, Family};
use super::ovs::{self, OvsBridge};
use super::ports::Port;
use super::yaml::Yaml;
use super::{bond, bridge, ethernet, infiniband, ipvlan, mac_vlan, refused, veth, vlan, vrf};
use crate::plan::{Interface, InterfaceKind, InterfaceMatch, Settings};

/// More interfaces than any chassis has.
const MOST_INTERFACES: usize = 1024;
/// The kernel's smallest MTU for IPv6 (IPV6_MIN_MTU).
const LEAST_MTU_IPV6: u32 = 1280;
const INFINIBAND_MAC: &str = "a hardware address of 20 bytes";
const MAC: &str = "a hardware address such as 52:54:00:00:00:01";

/// Keys that every type of interface has.
const KEYS: &[&str] = &[
    "name",
    "profile-name",
    "description",
    "type",
    "driver",
    "state",
    "identifier",
    "mac-address",
    "permanent-mac-address",
    "mtu",
    "min-mtu",
    "max-mtu",
    "wait-ip",
    "ipv4",
    "ipv6",
    "controller",
    "accept-all-mac-addresses",
    "copy-mac-from",
    "lldp",
    "ethtool",
    "alt-names",
    "ovs-db",
];
const TYPES: &str = "ethernet, vlan, bond, linux-bridge, vrf, mac-vlan, mac-vtap, ipvlan, veth, \
                     infiniband, ovs-bridge, ovs-interface";

/// The state that an entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    Down,
    /// The entry is known, but gets no profile.
    Absent,
    /// As if the entry were not in the list.
    Ignore,
}

/// One entry of the list.
pub(super) struct Described {
    pub(super) path: String,
    /// The name that the rest of the document uses.
    pub(super) name: String,
    pub(super) other_names: Vec<String>,
    pub(super) state: State,
    /// True if the NIC is identified by its address, and the name is only a label.
    pub(super) by_mac: bool,
    /// The address that `copy-mac-from` of another interface copies.
    pub(super) mac: Option<MacAddr>,
    pub(super) copy_mac_from: Option<String>,
    pub(super) controller: Option<String>,
    /// `None` if the entry lists no ports.
    pub(super) ports: Option<Vec<Port>>,
    /// The interface below, and the path of the key that names it.
    pub(super) parent: Option<String>,
    pub(super) parent_path: String,
    /// The port of an Open vSwitch bridge that contains the interface.
    pub(super) ovs_port: Option<String>,
    /// Data that Open vSwitch stores about the interface.
    pub(super) ovs_db: Vec<(&'static str, Settings)>,
    /// The configuration in the ramdisk, if a bridge of Open vSwitch makes it
    /// differ.
    pub(super) in_ramdisk: InRamdisk,
    pub(super) ipv4: Family,
    pub(super) ipv6: Family,
    pub(super) interface: Interface,
}

/// The ramdisk's configuration of a port of an Open vSwitch bridge.
#[derive(Default)]
pub(super) struct InRamdisk {
    /// IPv4 and IPv6.
    pub(super) ip: Option<(Family, Family)>,
    pub(super) set_mac: Option<ClonedMac>,
    pub(super) controller: Option<String>,
}

#[derive(Default)]
pub(super) struct Interfaces {
    pub(super) list: Vec<Described>,
    pub(super) ovs_bridges: Vec<OvsBridge>,
    pub(super) ignored: Vec<String>,
}

impl Interfaces {
    /// Index of the interface with this name, or else with this name as an
    /// alternative name or as the name of its profile.
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

    /// True for the name of a VRF: ports of a VRF have addresses.
    pub(super) fn is_vrf(&self, name: &str) -> bool {
        let is =
            |d: &Described| d.name == name && matches!(d.interface.kind, InterfaceKind::Vrf { .. });
        self.list.iter().any(is)
    }
}

impl Described {
    /// True if the interface is up and its name is that of a device.
    fn is_named(&self) -> bool {
        self.state == State::Up && !self.by_mac
    }

    /// True for an interface of Open vSwitch, which the ramdisk does not have.
    pub(super) fn is_ovs_interface(&self) -> bool {
        matches!(self.interface.kind, InterfaceKind::OpenVswitch { .. })
    }

    /// A NIC that has a name and no configuration.
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
            interface: Interface::of(InterfaceMatch {
                name: Some(name.to_owned()),
                mac: None,
            }),
        }
    }

    /// Adds a setting that only NetworkManager needs.
    pub(super) fn set(&mut self, section: &'static str, key: &str, value: impl ToString) {
        let settings = &mut self.interface.profile.settings;
        let keys = settings.entry(section).or_default();
        keys.insert(key.to_owned(), value.to_string());
    }
}

/// Reads the list. If two entries describe one interface, the second one takes
/// effect, as in nmstate.
pub(super) fn read_all(top: &Fields) -> Interfaces {
    let mut all = Interfaces::default();
    let list = top.list("interfaces").unwrap_or_default();
    if list.len() > MOST_INTERFACES {
        let found = list.len();
        top.fault(
            "interfaces",
            format!("expected at most {MOST_INTERFACES}, found {found}"),
        );
        return all;
    }
    for (path, entry) in list {
        let Some(fields) = Fields::unchecked(entry, path, top.findings) else {
            continue;
        };
        if fields.text("type") == Some("ovs-bridge") {
            let state = fields.word("state", STATES, false).unwrap_or(State::Up);
            all.ovs_bridges
                .extend(ovs::read_bridge(&fields, KEYS, state));
            continue;
        }
        let Some(described) = read(&fields) else {
            continue;
        };
        all.ignored.retain(|name| *name != described.name);
        let place = all.list.iter().position(|d| d.name == described.name);
        if described.state == State::Ignore {
            all.ignored.push(described.name);
            if let Some(place) = place {
                all.list.remove(place);
            }
            continue;
        }
        match place {
            Some(place) => {
                let words = format!("replaces {}", all.list[place].path);
                top.findings.warn(&described.path, words);
                all.list[place] = described;
            }
            None => all.list.push(described),
        }
    }
    ovs::check_names(&all.ovs_bridges, top.findings);
    all
}

const STATES: &[(&str, State)] = &[
    ("up", State::Up),
    ("down", State::Down),
    ("absent", State::Absent),
    ("ignore", State::Ignore),
    ("unknown", State::Ignore),
];

fn read(fields: &Fields) -> Option<Described> {
    if !fields.has("name") {
        fields.fault("name", "expected the name of the interface, found nothing");
    }
    let name = fields.text("name").map_or(String::new(), str::to_owned);
    let state = fields.word("state", STATES, false).unwrap_or(State::Up);
    let mut described = Described::plain(&name, fields.path.clone());
    described.state = state;
    described.interface.down = state == State::Down;
    let kind = fields.text("type").unwrap_or("ethernet");
    if matches!(state, State::Absent | State::Ignore) {
        // The entry gets no profile, so the rest of it is not checked.
        if kind != "ethernet" {
            described.interface.kind = InterfaceKind::Bridge { stp: None };
        }
        return (!name.is_empty()).then_some(described);
    }
    read_kind(kind, fields, &mut described);
    read_identity(fields, &mut described);
    read_link(fields, &mut described);
    described.ipv4 = ip::read(fields, true);
    described.ipv6 = ip::read(fields, false);
    described.ovs_db = ovs::database(fields);
    wait_ip(fields, &mut described);
    if let Some(mtu) = described.interface.mtu
        && mtu < LEAST_MTU_IPV6
        && described.ipv6.enabled
    {
        fields.fault(
            "mtu",
            format!("expected at least {LEAST_MTU_IPV6} with IPv6, found {mtu}"),
        );
    }
    (!name.is_empty()).then_some(described)
}

fn read_kind(kind: &str, fields: &Fields, described: &mut Described) {
    let own: &[&str] = match kind {
        "vlan" => vlan::read(fields, described),
        "bond" => bond::read(fields, described),
        "linux-bridge" => bridge::read(fields, described),
        "vrf" => vrf::read(fields, described),
        "mac-vlan" => mac_vlan::read(false, fields, described),
        "mac-vtap" => mac_vlan::read(true, fields, described),
        "ipvlan" => ipvlan::read(fields, described),
        "infiniband" => infiniband::read(fields, described),
        "ovs-interface" => ovs::read_interface(fields, described),
        "ethernet" | "veth" | "unknown" => {
            let own = ethernet::read(fields, described);
            veth::read(fields, described);
            own
        }
        _ => {
            match refused::kind(kind) {
                Some(instead) => fields.fault("type", instead),
                None => fields.fault("type", format!("expected one of {TYPES}, found {kind:?}")),
            }
            return;
        }
    };
    fields.expect_keys(&[KEYS, own]);
}

fn read_identity(fields: &Fields, described: &mut Described) {
    let mac: Option<MacAddr> = match described.interface.kind {
        // The address of an InfiniBand port cannot be changed; nmstate ignores it
        // too.
        InterfaceKind::Infiniband { .. } => {
            let _: Option<InfinibandAddr> = fields.parsed("mac-address", INFINIBAND_MAC);
            None
        }
        _ => fields.parsed("mac-address", MAC),
    };
    let permanent: Option<MacAddr> = fields.parsed("permanent-mac-address", MAC);
    described.mac = permanent.or(mac);
    let identifiers = [("name", false), ("mac-address", true)];
    described.by_mac = match fields.get("identifier") {
        Some(Yaml::Text(text)) if text == "pci-address" => {
            let words = refused::key("pci-address").unwrap_or_default();
            fields.fault("identifier", words);
            false
        }
        _ => fields.word("identifier", &identifiers, false) == Some(true),
    };
    let id = fields.text("profile-name");
    if let Some(id) = id
        && (id.is_empty() || id.contains('/') || id.starts_with('.'))
    {
        fields.fault(
            "profile-name",
            format!("expected a valid file name, found {id:?}"),
        );
    }
    described.interface.profile.id = id.map(str::to_owned);
    let name = described.name.clone();
    if !described.by_mac {
        if !name.is_empty() && !is_interface_name(&name) {
            fields.fault(
                "name",
                format!("expected the name of an interface, found {name:?}"),
            );
        }
        let has_own = !matches!(described.interface.kind, InterfaceKind::Vrf { .. });
        let mac = mac.filter(|_| has_own && !bond::has_mac_of_port(described));
        described.interface.set_mac = mac.map(ClonedMac::Address);
    } else {
        if described.interface.kind != InterfaceKind::Ethernet {
            fields.fault(
                "identifier",
                "only a NIC can be identified by its hardware address",
            );
        }
        if mac.is_none() && !fields.has("mac-address") {
            fields.fault("mac-address", format!("expected {MAC}, found nothing"));
        }
        let has_file = !name.contains('/') && !name.starts_with('.');
        if id.is_none() && !has_file {
            fields.fault(
                "name",
                format!("expected a valid file name, found {name:?}"),
            );
        }
        described.interface.matches = InterfaceMatch { name: None, mac };
        described.interface.profile.id.get_or_insert(name.clone());
    }
    if described.interface.profile.id.as_deref() != Some(&name) {
        described.interface.profile.label = Some(name);
    }
    described.copy_mac_from = fields.text("copy-mac-from").map(str::to_owned);
    described.controller = fields
        .text("controller")
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
}

fn read_link(fields: &Fields, described: &mut Described) {
    described.interface.mtu = fields.unsigned("mtu", u32::MAX);
    for key in ["min-mtu", "max-mtu"] {
        let _ = fields.unsigned(key, u32::MAX);
    }
    let _ = fields.text("driver");
    if let Some(text) = fields.text("description") {
        let _ = described
            .interface
            .profile
            .settings
            .entry("user")
            .or_default();
        if !text.is_empty() {
            described.set("user", "nmstate.interface.description", text);
        }
    }
    if let Some(on) = fields.flag("accept-all-mac-addresses") {
        described.set("ethernet", "accept-all-mac-addresses", u8::from(on));
    }
    if let Some(lldp) = fields.child("lldp", &["enabled", "neighbors"]) {
        match lldp.flag("enabled") {
            Some(on) => described.set("connection", "lldp", u8::from(on)),
            None if !lldp.has("enabled") => {
                lldp.fault("enabled", "expected true or false, found nothing")
            }
            None => {}
        }
    }
    for (path, item) in fields.list("alt-names").unwrap_or_default() {
        let Some(item) = Fields::of(item, path, &["name", "state"], fields.findings) else {
            continue;
        };
        let is_absent = item.word("state", &[("absent", true)], false) == Some(true);
        match item.text("name") {
            Some(name) if !is_absent && name == described.name => {
                item.fault("name", "expected a name other than the interface's own");
            }
            Some(name) if !is_absent => described.other_names.push(name.to_owned()),
            _ => {}
        }
    }
    ethernet::read_ethtool(fields, described);
}

fn wait_ip(fields: &Fields, described: &mut Described) {
    let words = [
        ("any", (false, false)),
        ("ipv4", (true, false)),
        ("ipv6", (false, true)),
        ("ipv4+ipv6", (true, true)),
    ];
    let Some((ipv4, ipv6)) = fields.word("wait-ip", &words, false) else {
        return;
    };
    for (family, required) in [(&mut described.ipv4, ipv4), (&mut described.ipv6, ipv6)] {
        family.plan.required = required && family.enabled;
        let settings = &mut family.plan.settings;
        settings.insert("may-fail".to_owned(), (!required).to_string());
    }
}
