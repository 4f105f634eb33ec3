//! Reads each entry of `interfaces` separately.

use landfall_boot_params::dracut_net::is_interface_name;
use landfall_boot_params::{ClonedMac, InfinibandAddr, MacAddr};

use super::described::{Described, Interfaces, State};
use super::fields::Fields;
use super::ovs::{self, OvsBridge};
use super::yaml::Yaml;
use super::{
    bond, bridge, ethernet, ethtool, infiniband, ip, ipvlan, mac_vlan, refused, set_mac, veth,
    vlan, vrf,
};
use crate::plan::{InterfaceKind, InterfaceMatch};

/// The maximum number of interfaces; more are a fault. No chassis has as many.
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

/// Reads the list. The bridges of Open vSwitch are returned separately, because an
/// interface may have the same name as a bridge. If two entries describe one interface,
/// the later one takes effect, as in nmstate.
pub(super) fn read_all(top: &Fields) -> (Interfaces, Vec<OvsBridge>) {
    let mut all = Interfaces::default();
    let mut bridges = Vec::new();
    let list = top.list("interfaces").unwrap_or_default();
    if list.len() > MOST_INTERFACES {
        let found = list.len();
        top.expected("interfaces", format!("at most {MOST_INTERFACES}"), found);
        return (all, bridges);
    }
    for (path, entry) in list {
        let Some(fields) = Fields::unchecked(entry, path, top.findings) else {
            continue;
        };
        if fields.text("type") == Some("ovs-bridge") {
            let state = fields.word("state", STATES, false).unwrap_or(State::Up);
            bridges.extend(ovs::read_bridge(&fields, KEYS, state));
            continue;
        }
        let Some(described) = read(&fields) else {
            continue;
        };
        all.ignored.retain(|name| *name != described.name);
        let place = all.position(&described.name);
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
    ovs::check_names(&bridges, top.findings);
    (all, bridges)
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
        // The entry gets no profile, so the rest of it needs no check. The code that
        // looks for parents only has to know whether the entry is a NIC.
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
        fields.expected("mtu", format!("at least {LEAST_MTU_IPV6} with IPv6"), mtu);
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
                None => fields.expected("type", format!("one of {TYPES}"), kind),
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
        && (id.is_empty() || !is_file_name(id))
    {
        fields.expected("profile-name", "a valid file name", id);
    }
    described.interface.profile.id = id.map(str::to_owned);
    let name = described.name.clone();
    if !described.by_mac {
        if !name.is_empty() && !is_interface_name(&name) {
            fields.expected("name", "the name of an interface", &name);
        }
        let has_own = !matches!(described.interface.kind, InterfaceKind::Vrf { .. });
        let mac = mac.filter(|_| has_own && !bond::has_mac_of_port(described));
        described.interface.set_mac = mac.map(ClonedMac::Address);
        set_mac::check(mac, fields, described);
    } else {
        identify_by_mac(mac, fields, described);
    }
    if described.interface.profile.id.as_deref() != Some(&name) {
        described.interface.profile.label = Some(name);
    }
    described.copy_mac_from = fields.text("copy-mac-from").map(str::to_owned);
    let controller = fields.text("controller").filter(|name| !name.is_empty());
    described.controller = controller.map(str::to_owned);
}

/// Identifies the NIC by its hardware address. The name of the entry then becomes the
/// name of the profile; it is not the name of the device.
fn identify_by_mac(mac: Option<MacAddr>, fields: &Fields, described: &mut Described) {
    let Described {
        name, interface, ..
    } = described;
    if interface.kind != InterfaceKind::Ethernet {
        let words = "only a NIC can be identified by its hardware address";
        fields.fault("identifier", words);
    }
    if mac.is_none() && !fields.has("mac-address") {
        fields.fault("mac-address", format!("expected {MAC}, found nothing"));
    }
    if interface.profile.id.is_none() && !is_file_name(name) {
        fields.expected("name", "a valid file name", &name);
    }
    interface.matches = InterfaceMatch { name: None, mac };
    interface.profile.id.get_or_insert(name.clone());
}

fn is_file_name(name: &str) -> bool {
    !name.contains('/') && !name.starts_with('.')
}

fn read_link(fields: &Fields, described: &mut Described) {
    described.interface.mtu = fields.unsigned("mtu", u32::MAX);
    for key in ["min-mtu", "max-mtu"] {
        let _ = fields.unsigned(key, u32::MAX);
    }
    let _ = fields.text("driver");
    if let Some(text) = fields.text("description") {
        let settings = &mut described.interface.profile.settings;
        settings.entry("user").or_default();
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
    for item in fields.items("alt-names", &["name", "state"]) {
        let is_absent = item.word("state", &[("absent", true)], false) == Some(true);
        match item.text("name") {
            Some(name) if !is_absent && name == described.name => {
                item.fault("name", "expected a name other than the interface's own");
            }
            Some(name) if !is_absent => described.other_names.push(name.to_owned()),
            _ => {}
        }
    }
    ethtool::read(fields, described);
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
