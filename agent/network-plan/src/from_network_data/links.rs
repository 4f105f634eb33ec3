//! Turns `links` into interfaces without addresses.

use std::collections::BTreeMap;

use landfall_boot_params::dracut_net::is_interface_name;
use landfall_boot_params::{ClonedMac, MacAddr};
use serde_json::Value;

use super::fields::{Fields, Warnings, as_text, shortened};
use crate::bond_option;
use crate::plan::{
    Automatic, Interface, InterfaceKind, InterfaceMatch, IpPlan, Method, USUAL_DHCP_TIMEOUT,
};

/// At most this many links are read: more than any chassis has.
const MOST_LINKS: usize = 512;
/// The highest VLAN id in IEEE 802.1Q, which reserves 4095, and in NetworkManager.
const LAST_VLAN: u32 = 4094;

/// Types that all mean an existing NIC (from the schemas of Nova and Ironic, and
/// from cloud-init).
const NICS: &[&str] = &[
    "bridge",
    "cascading",
    "dvs",
    "ethernet",
    "hw_veb",
    "hyperv",
    "ovs",
    "phy",
    "tap",
    "vhostuser",
    "vif",
];

/// A link of the document, and its interface.
pub(super) struct Link {
    /// The id in the document. It is never the name of a NIC.
    id: String,
    /// The ids of other links with the same NIC.
    other_ids: Vec<String>,
    pub(super) interface: Interface,
}

impl Link {
    fn new(id: String, interface: Interface) -> Link {
        Link {
            id,
            other_ids: Vec::new(),
            interface,
        }
    }

    /// True if this is an id of the link.
    pub(super) fn is_called(&self, id: &str) -> bool {
        self.id == id || self.other_ids.iter().any(|other| other == id)
    }
}

/// Reads the list. A link that cannot be used becomes a warning; the others stay.
pub(super) fn read(value: Option<&Value>, warnings: &Warnings) -> Vec<Link> {
    let mut entries = Fields::list(value, "link", MOST_LINKS, warnings);
    drop_repeated(&mut entries);
    let is = |entry: &&Fields, wanted: &str| entry.quiet_text("type").as_deref() == Some(wanted);
    let mut links = Vec::new();
    for entry in &entries {
        if !is(&entry, "bond") && !is(&entry, "vlan") {
            nic(entry, &mut links);
        }
    }
    for entry in entries.iter().filter(|entry| is(entry, "bond")) {
        bond(entry, &mut links);
    }
    let mut waiting: Vec<_> = entries.iter().filter(|entry| is(entry, "vlan")).collect();
    // Retry as long as there is progress: a VLAN may come before the VLAN that is its
    // parent.
    loop {
        let before = waiting.len();
        waiting.retain(|entry| !vlan(entry, &mut links));
        if waiting.len() == before {
            break;
        }
    }
    for entry in waiting {
        let parent = entry.quiet_text("vlan_link").unwrap_or_default();
        entry.expected("vlan_link", "the id of a usable link", &parent);
    }
    links
}

fn drop_repeated(entries: &mut Vec<Fields>) {
    let mut known = Vec::new();
    entries.retain(|entry| {
        let id = entry.quiet_text("id");
        let is_new = match &id {
            None => {
                entry.has_no("id");
                false
            }
            Some(id) if known.contains(id) => {
                let words = format!("{} is listed twice; the second one is ignored", entry.title);
                entry.warnings.add(words);
                false
            }
            Some(_) => true,
        };
        known.extend(id);
        is_new
    });
}

fn interface(matches: InterfaceMatch, kind: InterfaceKind, mtu: Option<u32>) -> Interface {
    Interface {
        kind,
        mtu,
        ipv4: Some(off()),
        ipv6: Some(off()),
        ..Interface::new(matches)
    }
}

/// The plan of a family that no network has configured yet.
fn off() -> IpPlan {
    IpPlan {
        automatic: Automatic {
            timeout: Some(USUAL_DHCP_TIMEOUT),
            ..Automatic::default()
        },
        ..IpPlan::new(Method::Disabled)
    }
}

fn mtu(entry: &Fields) -> Option<u32> {
    entry.number("mtu", 1..=65535)
}

fn mac(entry: &Fields, key: &str) -> Option<MacAddr> {
    entry.parsed(key, "a hardware address such as 52:54:00:00:00:01")
}

/// Reads a NIC. Some documents have one link per address family of a NIC. These
/// become one interface: two profiles for one device would conflict and have the
/// same file name.
fn nic(entry: &Fields, links: &mut Vec<Link>) {
    let Some(id) = entry.quiet_text("id") else {
        return;
    };
    if let Some(kind) = entry.text("type")
        && !NICS.contains(&kind.as_str())
    {
        let kind = shortened(&kind);
        entry.warn(format_args!("type {kind:?} is not known; treated as a NIC"));
    }
    let Some(mac) = mac(entry, "ethernet_mac_address") else {
        return entry.has_no("usable ethernet_mac_address");
    };
    let matches = InterfaceMatch::with_mac(mac);
    let mtu = mtu(entry);
    let mut known = links.iter_mut();
    if let Some(known) = known.find(|known| known.interface.matches == matches) {
        let other = shortened(&known.id);
        entry.warn(format_args!(
            "ethernet_mac_address is that of link {other}; treated as the same link"
        ));
        known.interface.mtu = known.interface.mtu.or(mtu);
        known.other_ids.push(id);
        return;
    }
    let interface = interface(matches, InterfaceKind::Ethernet, mtu);
    links.push(Link::new(id, interface));
}

fn bond(entry: &Fields, links: &mut Vec<Link>) {
    let Some(id) = entry.quiet_text("id") else {
        return;
    };
    let name = if is_interface_name(&id) && !is_taken(links, &id) {
        id.clone()
    } else {
        let name = first_free(links, |n| format!("bond{n}"));
        entry.warn(format_args!(
            "the id is not a valid interface name; the interface is called {name}"
        ));
        name
    };
    let mut found = false;
    for (number, port) in ports(entry).into_iter().enumerate() {
        let link = links.iter_mut().find(|link| link.is_called(&port));
        let is_free = |link: &&mut Link| {
            let interface = &link.interface;
            interface.kind == InterfaceKind::Ethernet && interface.controller.is_none()
        };
        match link.filter(is_free) {
            Some(link) => {
                link.interface.controller = Some(name.clone());
                link.interface.port_number = number;
                (link.interface.ipv4, link.interface.ipv6) = (None, None);
                found = true;
            }
            None => entry.expected("bond_links", "the id of a free NIC", &port),
        }
    }
    if !found {
        entry.warnings.add(format!("{} has no port", entry.title));
    }
    let matches = InterfaceMatch::named(name);
    let options = options(entry);
    let mtu = mtu(entry);
    let mut interface = interface(matches, InterfaceKind::Bond { options }, mtu);
    interface.set_mac = mac(entry, "ethernet_mac_address").map(ClonedMac::Address);
    links.push(Link::new(id, interface));
}

fn ports(entry: &Fields) -> Vec<String> {
    match entry.get("bond_links") {
        Some(Value::Array(ids)) => {
            let ids = ids.iter().take(MOST_LINKS);
            ids.filter_map(as_text).collect()
        }
        Some(_) => {
            entry.warn("bond_links: expected a list of ids");
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Reads the options of a bond. The name of a key is `bond_` and the kernel's name of the
/// option, such as `bond_miimon`.
fn options(entry: &Fields) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    for key in entry.keys() {
        let Some(option) = key.strip_prefix("bond_") else {
            continue;
        };
        if matches!(option, "links" | "mode") {
            continue;
        }
        let value = match entry.get(key) {
            Some(Value::Array(items)) => {
                let items: Option<Vec<_>> = items.iter().map(as_text).collect();
                items.map(|items| items.join(","))
            }
            Some(Value::Bool(switch)) => Some(u8::from(*switch).to_string()),
            Some(value) => as_text(value),
            None => continue,
        };
        let value = value.unwrap_or_default();
        match bond_option::normal(option, &value) {
            Ok(value) => drop(options.insert(option.to_owned(), value)),
            Err(expected) => entry.expected(key, expected, &value),
        }
    }
    options.insert("mode".to_owned(), mode(entry));
    options
}

fn mode(entry: &Fields) -> String {
    let default = bond_option::DEFAULT_MODE;
    let given = entry.text("bond_mode");
    let mode = match given.as_deref() {
        None => default,
        // Ironic's schema has 802.1ad where it means 802.3ad, and rejects 802.3ad.
        Some("802.1ad") => "802.3ad",
        Some(mode) => mode,
    };
    bond_option::normal("mode", mode).unwrap_or_else(|expected| {
        let mode = shortened(mode);
        entry.warn(format_args!(
            "bond_mode: expected {expected}, found {mode:?}; {default} is used"
        ));
        default.to_owned()
    })
}

/// Reads a VLAN. Returns false if its parent is not known yet, so that the caller tries
/// again, and true if the VLAN has been added or has a fault.
fn vlan(entry: &Fields, links: &mut Vec<Link>) -> bool {
    let Some(id) = entry.quiet_text("id") else {
        return true;
    };
    let parent = entry.quiet_text("vlan_link");
    let parent = parent.and_then(|id| links.iter().find(|link| link.is_called(&id)));
    let Some(parent) = parent else {
        return false;
    };
    if parent.interface.controller.is_some() {
        entry.warn("vlan_link is a port of a bond; ignored");
        return true;
    }
    // A physical NIC has no name in the plan, only a MAC address. In that case the id
    // of its link is used as the name.
    let matches = &parent.interface.matches;
    let label = matches.name.as_ref().unwrap_or(&parent.id).clone();
    let parent_mac = matches.mac.filter(|_| matches.name.is_none());
    let Some(tag) = entry.number("vlan_id", 0..=LAST_VLAN) else {
        if entry.get("vlan_id").is_none() {
            entry.has_no("vlan_id");
        }
        return true;
    };
    let mut name = format!("{label}.{tag}");
    if !is_interface_name(&name) || is_taken(links, &name) {
        name = first_free(links, |n| match n {
            0 => format!("vlan{tag}"),
            n => format!("vlan{tag}.{n}"),
        });
    }
    let matches = InterfaceMatch::named(name);
    let kind = InterfaceKind::Vlan {
        // The cast is lossless: at most LAST_VLAN.
        id: tag as u16,
        parent: Some(label),
        parent_mac,
        service: false,
    };
    let mtu = mtu(entry);
    let mut interface = interface(matches, kind, mtu);
    interface.set_mac = mac(entry, "vlan_mac_address").map(ClonedMac::Address);
    links.push(Link::new(id, interface));
    true
}

fn is_taken(links: &[Link], name: &str) -> bool {
    let mut names = links.iter().map(|link| &link.interface.matches.name);
    names.any(|known| known.as_deref() == Some(name))
}

fn first_free(links: &[Link], name: impl Fn(usize) -> String) -> String {
    let mut names = (0..=links.len()).map(name);
    // The loop tries one more name than there are links, so one of the names is free.
    names
        .find(|name| !is_taken(links, name))
        .unwrap_or_default()
}
