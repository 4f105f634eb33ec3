//! Finds the controller and the parent interface of a profile. A profile refers to them
//! by the name of an interface, or by the UUID or the name of another profile.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use landfall_boot_params::MacAddr;
use landfall_boot_params::dracut_net::is_interface_name;

use super::connection::Draft;
use crate::findings::Findings;
use crate::plan::InterfaceKind;

/// The values by which other profiles can refer to a profile, and its kind.
struct Known {
    id: Option<String>,
    uuid: Option<String>,
    name: Option<String>,
    mac: Option<MacAddr>,
    kind: InterfaceKind,
}

pub(super) fn resolve(drafts: &mut [Draft], findings: &Findings) {
    let known: Vec<Known> = drafts.iter().map(Known::of).collect();
    check_names(drafts, findings);
    for draft in drafts.iter_mut() {
        find_controller(draft, &known);
        find_parent(draft, &known);
    }
    check_circles(drafts);
    for draft in drafts.iter_mut() {
        let table = draft.interface.controller.as_ref();
        let table = table.and_then(|name| table_of_vrf(name, &known));
        for family in draft.interface.families_mut() {
            let own = &mut family.automatic.table;
            *own = own.or(table);
        }
    }
}

impl Known {
    fn of(draft: &Draft) -> Known {
        Known {
            id: draft.id.clone(),
            uuid: draft.uuid.clone(),
            name: draft.interface.matches.name.clone(),
            mac: draft.interface.matches.mac,
            kind: draft.interface.kind.clone(),
        }
    }

    /// True if the text is the UUID or the name of the profile.
    fn is_called(&self, text: &str) -> bool {
        let is_it = |name: &Option<String>| name.as_deref() == Some(text);
        is_it(&self.uuid) || is_it(&self.id)
    }

    /// True if this interface can be the controller of a port. `port_type` is the type of
    /// the controller if that belongs to Open vSwitch, which gives the same name to a
    /// bridge and to its parts; otherwise `None`.
    fn is_controller(&self, port_type: Option<&str>) -> bool {
        match &self.kind {
            InterfaceKind::OpenVswitch { profile_type } => Some(*profile_type) == port_type,
            InterfaceKind::Bond { .. }
            | InterfaceKind::Bridge { .. }
            | InterfaceKind::Team { .. }
            | InterfaceKind::Vrf { .. } => port_type.is_none(),
            _ => false,
        }
    }
}

/// Reports two profiles for one interface. For an Ethernet NIC this is a warning, because
/// NetworkManager chooses one of them. For any other interface it is a fault, because the
/// profiles contradict each other. Skips Open vSwitch, where names repeat.
fn check_names(drafts: &[Draft], findings: &Findings) {
    let mut files: BTreeMap<&str, (&str, bool, i32)> = BTreeMap::new();
    for draft in drafts {
        let Some(name) = draft.interface.matches.name.as_deref() else {
            continue;
        };
        let is_nic = match draft.interface.kind {
            InterfaceKind::OpenVswitch { .. } => continue,
            InterfaceKind::Ethernet => true,
            _ => false,
        };
        let path = format!("{}: [connection] interface-name", draft.keys.file);
        match files.get(name) {
            Some((other, true, priority)) if is_nic => {
                let file = draft.keys.file;
                let higher = |file| format!("{file}, which has the higher autoconnect-priority");
                let used = match draft.interface.priority.cmp(priority) {
                    Ordering::Equal => "one of them".to_owned(),
                    Ordering::Less => higher(*other),
                    Ordering::Greater => higher(file),
                };
                let words = format!("{other} is for {name} too; the ramdisk uses {used}");
                findings.warn(&path, words);
                if draft.interface.priority > *priority {
                    files.insert(name, (file, true, draft.interface.priority));
                }
            }
            Some((other, ..)) => {
                let words = format!("expected one profile for {name}, found another in {other}");
                findings.fault_of(draft.keys.file, &path, words);
            }
            None => {
                files.insert(name, (draft.keys.file, is_nic, draft.interface.priority));
            }
        }
    }
}

fn find_controller(draft: &mut Draft, known: &[Known]) {
    let Some(text) = draft.interface.controller.clone() else {
        return;
    };
    let port_type = draft.interface.profile.port_type;
    let controllers = || known.iter().filter(|known| known.is_controller(port_type));
    let by_name = controllers().find(|known| known.name.as_ref() == Some(&text));
    let found = by_name.or_else(|| controllers().find(|known| known.is_called(&text)));
    let key = { draft.keys.first_of("connection", &["controller", "master"]) }.unwrap_or("master");
    match found.and_then(|known| known.name.clone()) {
        Some(name)
            if draft.interface.matches.name.as_ref() == Some(&name) && port_type.is_none() =>
        {
            let words = "an interface cannot be its own port";
            draft.keys.fault("connection", key, words);
            draft.interface.controller = None;
        }
        Some(name) => draft.interface.controller = Some(name),
        None => {
            let expected = "the interface, or the UUID, of a bond, bridge, team, VRF or Open \
                            vSwitch bridge in one of the files";
            draft.keys.expected("connection", key, expected, &text);
        }
    }
}

fn find_parent(draft: &mut Draft, known: &[Known]) {
    let section = match draft.interface.kind {
        InterfaceKind::Vlan { .. } => "vlan",
        InterfaceKind::MacVlan { .. } => "macvlan",
        InterfaceKind::IpVlan { .. } => "ipvlan",
        _ => return,
    };
    let is_vlan = section == "vlan";
    let Some((parent, parent_mac)) = draft.interface.kind.parent_mut() else {
        return;
    };
    let Some(text) = draft.keys.string(section, "parent") else {
        if is_vlan && parent_mac.is_none() {
            let words = "expected the interface below the VLAN, found nothing";
            draft.keys.fault(section, "parent", words);
        }
        return;
    };
    let is_interface = known.iter().any(|known| known.name.as_ref() == Some(&text));
    let by_profile = known
        .iter()
        .find(|known| known.is_called(&text) && !is_interface);
    match by_profile {
        Some(below) => {
            parent.clone_from(&below.name);
            *parent_mac = below.mac.filter(|_| below.name.is_none());
            if parent.is_none() && parent_mac.is_none() {
                let words = format!("{text} is a profile for no particular interface");
                draft.keys.fault(section, "parent", words);
            }
        }
        None if !is_interface_name(&text) => {
            let expected = "an interface, or the UUID of a profile in one of the files";
            draft.keys.expected(section, "parent", expected, &text);
        }
        None => {}
    }
}

/// Reports interfaces that depend on themselves through their parents, because the rest
/// of this crate expects no such cycle.
fn check_circles(drafts: &mut [Draft]) {
    let below: BTreeMap<String, String> = drafts
        .iter_mut()
        .filter_map(|draft| {
            let name = draft.interface.matches.name.clone()?;
            let (parent, _) = draft.interface.kind.parent_mut()?;
            Some((name, parent.clone()?))
        })
        .collect();
    for draft in drafts {
        let Some(name) = draft.interface.matches.name.clone() else {
            continue;
        };
        let Some((parent, _)) = draft.interface.kind.parent_mut() else {
            continue;
        };
        let mut at = parent.as_ref();
        // After as many steps as there are interfaces with a parent, the loop has visited
        // one of them twice: they form a cycle.
        let mut steps = below.len();
        while let Some(found) = at.filter(|found| **found != name && steps > 0) {
            at = below.get(found);
            steps -= 1;
        }
        if at.is_some() {
            *parent = None;
            let words = format!("{name} depends on itself");
            draft.keys.fault("connection", "interface-name", words);
        }
    }
}

fn table_of_vrf(name: &str, known: &[Known]) -> Option<u32> {
    known.iter().find_map(|known| match known.kind {
        InterfaceKind::Vrf { table } if known.name.as_deref() == Some(name) => Some(table),
        _ => None,
    })
}
