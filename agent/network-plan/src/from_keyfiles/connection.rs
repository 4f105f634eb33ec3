//! Reads one file: the section `connection`, which decides how to read the other
//! sections.

use landfall_boot_params::dracut_net::is_interface_name;

use super::keys::Keys;
use super::{ip, kind, link};
use crate::plan::{Interface, InterfaceKind, InterfaceMatch};

/// The values of `multi-connect` with which a profile applies to several NICs at once:
/// NetworkManager's NM_CONNECTION_MULTI_CONNECT_MANUAL_MULTIPLE and
/// NM_CONNECTION_MULTI_CONNECT_MULTIPLE.
const MULTIPLE: &[&str] = &["2", "3"];
/// In bytes: a longer name of a profile does not become the name of its file.
const LONGEST_ID: usize = 200;
/// The sections for addresses. A port has no addresses.
const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

/// A file and the interface that it describes.
pub(super) struct Draft<'a> {
    pub(super) keys: Keys<'a>,
    /// The name and the UUID of the profile, by which other files refer to it.
    pub(super) id: Option<String>,
    pub(super) uuid: Option<String>,
    /// The interface of the profile. Its controller and its parent are the texts of the
    /// file until [`super::references`] resolves them.
    pub(super) interface: Interface,
}

/// Reads a file. `None` in two cases: the file is empty or has no type (a fault), or the
/// ramdisk has no such interface or cannot check which NICs the profile is for (a
/// warning).
pub(super) fn read(keys: Keys<'_>) -> Option<Draft<'_>> {
    if keys.is_empty() {
        let words = "expected the section [connection], found nothing";
        keys.findings.fault_of(keys.file, keys.file, words);
        return None;
    }
    let given = keys
        .text("connection", "type")
        .or_else(|| type_of_sections(&keys));
    let Some(given) = given else {
        let words = "expected the type of the interface, found nothing";
        keys.fault("connection", "type", words);
        return None;
    };
    let Some(kind) = kind::read(given, &keys) else {
        let words = format!(
            "the ramdisk has no interface of type {}; only the installed system uses this profile",
            super::keys::shown(given)
        );
        keys.warn("connection", "type", words);
        return None;
    };
    if has_other_match(&keys, &kind) {
        return None;
    }
    let id = keys.string("connection", "id");
    let mut interface = Interface::new(InterfaceMatch::default());
    interface.kind = kind;
    interface.matches.name = name(&keys, &interface.kind);
    link::read(&keys, &mut interface);
    name_vlan(id.as_deref(), &mut interface);
    needs_name(&keys, &interface);
    interface.multi =
        { keys.text("connection", "multi-connect") }.is_some_and(|text| MULTIPLE.contains(&text));
    interface.needed = keys.text("connection", "wait-device-timeout").is_some();
    interface.down = keys.flag("connection", "autoconnect") == Some(false);
    read_controller(&keys, &mut interface);
    read_families(&keys, &mut interface);
    interface.profile.id = id.clone().filter(|id| is_file_name(id));
    let priority = keys.number("connection", "autoconnect-priority", -999..=999);
    interface.priority = priority.and_then(|p| i32::try_from(p).ok()).unwrap_or(0);
    Some(Draft {
        id,
        uuid: keys.string("connection", "uuid"),
        interface,
        keys,
    })
}

/// Derives the type of a profile without the key `type` from its sections, as in
/// NetworkManager (_nm_connection_find_base_type_setting in nm-connection.c). The
/// section `ethernet` is used only if no other section gives the type, because a
/// virtual interface may have it too.
fn type_of_sections(keys: &Keys) -> Option<&'static str> {
    const TYPES: &[&str] = &[
        "bond",
        "bridge",
        "infiniband",
        "ipvlan",
        "loopback",
        "macvlan",
        "ovs-bridge",
        "ovs-interface",
        "ovs-port",
        "team",
        "veth",
        "vlan",
        "vrf",
        "wifi",
    ];
    let has = |name: &&&str| keys.all().contains_key(**name);
    let mut found = TYPES.iter().filter(has);
    match (found.next(), found.next()) {
        (Some(kind), None) => Some(kind),
        (None, _) => Some("ethernet").filter(|name| keys.all().contains_key(*name)),
        (Some(_), Some(_)) => None,
    }
}

/// Warns about a profile that identifies its NICs by properties that the ramdisk cannot
/// check, and returns true. Without these properties the profile would apply to other
/// NICs too.
fn has_other_match(keys: &Keys, kind: &InterfaceKind) -> bool {
    let given = keys.all().get("match").into_iter().flatten();
    let mut given = given.filter(|(_, value)| !value.is_empty());
    let matched = given.next().map(|(key, _)| ("match", key.as_str()));
    let found = matched.or_else(|| denylist(keys, kind).map(|key| ("ethernet", key)));
    let Some((section, key)) = found else {
        return false;
    };
    let words = "the ramdisk finds NICs only by interface-name and mac-address; only the \
                 installed system uses this profile";
    keys.warn(section, key, words);
    true
}

/// The key with the list of NICs to exclude, if the profile is for any NIC and has such a
/// key.
fn denylist(keys: &Keys, kind: &InterfaceKind) -> Option<&'static str> {
    let is_any = *kind == InterfaceKind::Ethernet
        && keys.text("connection", "interface-name").is_none()
        && keys.text("ethernet", "mac-address").is_none();
    let names = ["mac-address-denylist", "mac-address-blacklist"];
    { keys.first_of("ethernet", &names) }.filter(|_| is_any)
}

/// The name of the interface. Old versions of NetworkManager kept it in the section
/// of the type.
fn name(keys: &Keys, kind: &InterfaceKind) -> Option<String> {
    let sections = ["connection", "bond", "bridge", "team", "vlan"];
    let found = sections.iter().find_map(|section| {
        let text = keys.string(section, "interface-name")?;
        Some((section, text))
    });
    match found {
        Some((_, text)) if is_interface_name(&text) => Some(text),
        // Open vSwitch accepts longer names.
        Some((_, text)) if matches!(kind, InterfaceKind::OpenVswitch { .. }) => Some(text),
        Some((section, text)) => {
            let expected = "the name of an interface";
            keys.expected(section, "interface-name", expected, &text);
            None
        }
        None if *kind == InterfaceKind::Loopback => Some("lo".to_owned()),
        None => None,
    }
}

/// Names a VLAN without a name as NetworkManager does: after the interface that carries
/// it. If only the hardware address of that interface is known, the name is provisional
/// until the NIC appears.
fn name_vlan(profile: Option<&str>, interface: &mut Interface) {
    let InterfaceKind::Vlan {
        id,
        parent,
        parent_mac,
        ..
    } = &mut interface.kind
    else {
        return;
    };
    if interface.matches.name.is_some() {
        return;
    }
    let suffix = format!(".{id}");
    if let (None, Some(mac)) = (&parent, parent_mac) {
        let of_profile = profile.and_then(|name| name.strip_suffix(&suffix));
        let of_profile = of_profile.filter(|label| is_interface_name(&format!("{label}{suffix}")));
        let bytes = mac.to_string().replace(':', "");
        let label = of_profile.map_or_else(|| bytes[6..].to_owned(), str::to_owned);
        *parent = Some(label);
    }
    let name = parent.as_ref().map(|parent| format!("{parent}{suffix}"));
    interface.matches.name = name.filter(|name| is_interface_name(name));
}

/// Reports a virtual interface without a name: only a NIC can be found by other
/// properties.
fn needs_name(keys: &Keys, interface: &Interface) {
    let is_nic = matches!(
        interface.kind,
        InterfaceKind::Ethernet | InterfaceKind::Infiniband { .. }
    );
    if !is_nic && interface.matches.name.is_none() {
        let words = "expected the name of the interface, found nothing";
        keys.fault("connection", "interface-name", words);
    }
}

fn read_controller(keys: &Keys, interface: &mut Interface) {
    let Some(key) = keys.first_of("connection", &["controller", "master"]) else {
        return;
    };
    interface.controller = keys.string("connection", key);
    // For any other controller, the writer takes the type from the controller's interface
    // in the plan.
    interface.profile.port_type = match port_type(keys) {
        Some("ovs-port") => Some("ovs-port"),
        Some("ovs-bridge") => Some("ovs-bridge"),
        _ => None,
    };
}

/// The type of the controller, as written.
fn port_type<'a>(keys: &'a Keys) -> Option<&'a str> {
    let key = keys.first_of("connection", &["port-type", "slave-type"])?;
    keys.text("connection", key)
}

/// Reads the address families. A port has addresses only if it is a port of a VRF or an
/// interface of Open vSwitch.
fn read_families(keys: &Keys, interface: &mut Interface) {
    let is_inside = matches!(
        interface.kind,
        InterfaceKind::OpenVswitch {
            profile_type: "ovs-interface"
        }
    );
    let is_of_vrf = port_type(keys) == Some("vrf");
    if interface.controller.is_none() || is_inside || is_of_vrf {
        interface.ipv4 = Some(ip::read(keys, true, &interface.kind));
        interface.ipv6 = Some(ip::read(keys, false, &interface.kind));
        return;
    }
    for family in FAMILIES {
        if !keys.numbered(family, &["address", "addresses"]).is_empty() {
            let words = "a port cannot have addresses; ignored";
            keys.warn(family, "address", words);
        }
    }
}

fn is_file_name(id: &str) -> bool {
    let is_plain = |c: char| c != '/' && !c.is_control();
    !id.is_empty() && id.len() <= LONGEST_ID && !id.starts_with('.') && id.chars().all(is_plain)
}
