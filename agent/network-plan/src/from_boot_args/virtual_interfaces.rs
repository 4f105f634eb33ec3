//! Turns `bond=`, `bridge=`, `team=`, `vlan=` and `ib.pkey=` into interfaces and
//! their ports.

use std::collections::BTreeMap;

use landfall_boot_params::dracut_net::{
    ControllerArgument, ControllerKind, DeviceSpec, PartitionArgument, VlanArgument,
};

use super::profiles::Profiles;
use crate::plan::InterfaceKind;
use crate::{bond_option, team_runner};

pub(super) fn add_controller(
    profiles: &mut Profiles,
    argument: &ControllerArgument,
    warnings: &mut Vec<String>,
) {
    let index = profiles.of_device(&DeviceSpec::Name(argument.name.clone()));
    profiles.note(index, &argument.text);
    let interface = profiles.at(index);
    // A second `bond=` argument for the same bond adds its options to those of the first.
    let earlier = match &mut interface.kind {
        InterfaceKind::Bond { options } => std::mem::take(options),
        _ => BTreeMap::new(),
    };
    interface.kind = match argument.kind {
        ControllerKind::Bond => InterfaceKind::Bond {
            options: options(earlier, argument, warnings),
        },
        // With the spanning tree protocol, a bridge forwards nothing from a new port for
        // 30 s, which would delay the boot.
        ControllerKind::Bridge => InterfaceKind::Bridge { stp: Some(false) },
        ControllerKind::Team => InterfaceKind::Team {
            bond_mode: bond_mode(argument, warnings),
        },
    };
    if let Some(mtu) = argument.mtu {
        interface.mtu = Some(mtu).filter(|mtu| *mtu != 0);
    }
    for (number, port) in argument.ports.iter().enumerate() {
        if *port == DeviceSpec::Name(argument.name.clone()) {
            let text = &argument.text;
            warnings.push(format!(
                "{text}: an interface cannot be its own port; ignored"
            ));
            continue;
        }
        let index = profiles.of_device(port);
        let interface = profiles.at(index);
        interface.controller = Some(argument.name.clone());
        interface.port_number = number;
    }
}

/// The mode of the bond that the ramdisk creates instead of a team. On the installed
/// system, NetworkManager ignores the runner of the argument and leaves the choice to the
/// team daemon, so any runner causes a warning.
fn bond_mode(argument: &ControllerArgument, warnings: &mut Vec<String>) -> &'static str {
    let Some(runner) = &argument.runner else {
        return team_runner::DEFAULT;
    };
    let text = &argument.text;
    let mode = team_runner::bond_mode(runner);
    let made = mode.unwrap_or(team_runner::DEFAULT);
    let which = match mode {
        Some(_) => "the installed system ignores runner",
        None => "no bond mode matches runner",
    };
    warnings.push(format!(
        "{text}: {which} {runner}; the ramdisk creates a bond of mode {made}"
    ));
    made
}

fn options(
    mut options: BTreeMap<String, String>,
    argument: &ControllerArgument,
    warnings: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let text = &argument.text;
    for (name, value) in &argument.options {
        match bond_option::normal(name, value) {
            Ok(value) => drop(options.insert(name.clone(), value)),
            Err(expected) => warnings.push(format!(
                "{text}: bond option {name}: expected {expected}, found {value:?}; ignored"
            )),
        }
    }
    let mode = || bond_option::DEFAULT_MODE.to_owned();
    options.entry("mode".to_owned()).or_insert_with(mode);
    options
}

pub(super) fn add_partition(profiles: &mut Profiles, argument: &PartitionArgument) {
    let index = profiles.of_device(&DeviceSpec::Name(argument.name.clone()));
    let PartitionArgument { parent, key, .. } = argument;
    let interface = profiles.at(index);
    interface.kind = InterfaceKind::Infiniband {
        mac: None,
        parent: Some(parent.clone()),
        p_key: Some(*key),
        mode: Some("datagram"),
    };
    // The kernel's name of the partition, with four hexadecimal digits. The argument may
    // spell the name in another way.
    interface.matches.name = Some(format!("{parent}.{key:04x}"));
}

pub(super) fn add_vlan(
    profiles: &mut Profiles,
    argument: &VlanArgument,
    warnings: &mut Vec<String>,
) {
    let text = &argument.text;
    let (parent, parent_mac) = match &argument.parent {
        DeviceSpec::Name(name) if *name == argument.name => {
            warnings.push(format!("{text}: a VLAN cannot be its own parent; ignored"));
            return;
        }
        DeviceSpec::Name(name) => (Some(name.clone()), None),
        DeviceSpec::Mac(mac) => {
            warnings.push(format!(
                "{text}: NetworkManager does not accept a MAC address as parent: the installed system will not have this VLAN"
            ));
            (None, Some(*mac))
        }
        DeviceSpec::Infiniband(mac) => {
            warnings.push(format!(
                "{text}: the InfiniBand port {mac} cannot carry a VLAN; ignored"
            ));
            return;
        }
        // The parser of the arguments drops an argument with such a device, so this case
        // does not occur.
        DeviceSpec::Invalid(_) => return,
    };
    let index = profiles.of_device(&DeviceSpec::Name(argument.name.clone()));
    profiles.at(index).kind = InterfaceKind::Vlan {
        id: argument.id,
        parent,
        parent_mac,
        service: false,
    };
    profiles.is_parent(&argument.parent);
}
