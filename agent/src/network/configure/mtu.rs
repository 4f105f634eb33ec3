//! The MTU that a device must have: its own, or what lies on it needs. Pure.

use landfall_network_plan::{Interface, InterfaceKind, NetworkPlan};

use crate::network::links::Link;

/// VLANs on a bond in a bridge are three levels; a plan whose interfaces lie on
/// each other in a circle ends here.
const MOST_LEVELS: u8 = 8;

/// What the plan says of the device itself goes first. Without that a VLAN
/// with an MTU raises the device below it, for the kernel refuses a VLAN that
/// is larger; and a bridge raises its ports, for it would lose the frames.
/// (A bond does so by itself.)
pub(super) fn needed_mtu(
    plan: &NetworkPlan,
    link: &Link,
    interface: Option<&Interface>,
) -> Option<u32> {
    of_device(plan, &link.names(), interface, MOST_LEVELS)
}

fn of_device(
    plan: &NetworkPlan,
    names: &[&str],
    interface: Option<&Interface>,
    levels: u8,
) -> Option<u32> {
    let levels = levels.checked_sub(1)?;
    if let Some(mtu) = interface.and_then(|interface| interface.mtu) {
        return Some(mtu);
    }
    let of_named = |interface: &Interface| {
        let name = interface.matches.name.as_deref();
        of_device(plan, name.as_slice(), Some(interface), levels)
    };
    let controller = interface.and_then(|interface| interface.controller.as_ref());
    let bridge = plan.interfaces.iter().filter(|other| {
        matches!(other.kind, InterfaceKind::Bridge { .. })
            && controller.is_some()
            && other.matches.name.as_ref() == controller
    });
    let vlans = plan.interfaces.iter().filter(|other| {
        matches!(&other.kind, InterfaceKind::Vlan { parent: Some(parent), .. }
            if names.contains(&parent.as_str()))
    });
    bridge.chain(vlans).filter_map(of_named).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_boot_params::{CommandLine, NetArgs};

    #[test]
    fn what_lies_on_a_device_raises_it() {
        let line = "vlan=bond0.7:bond0 vlan=bond0.8:bond0 bond=bond0:eth0 bridge=br0:eth1,eth2 \
            vlan=eth2.9:eth2 vlan=eth3.1:eth3 vlan=x1:y2 vlan=y2:x1 \
            ip=192.0.2.1:::24::bond0.7:none:9000 ip=192.0.2.2:::24::bond0.8:none:4000 \
            ip=192.0.2.3:::24::br0:none:3000 ip=192.0.2.4:::24::eth2.9:none:3500 \
            ip=192.0.2.5:::24::eth3:none:1400 ip=192.0.2.6:::24::eth3.1:none:2000";
        let plan = NetworkPlan::for_boot(&NetArgs::from_command_line(&CommandLine::parse(line)));
        for (name, expected) in [
            ("bond0", Some(9000)),
            ("bond0.8", Some(4000)),
            ("eth0", None),
            ("eth1", Some(3000)),
            ("eth2", Some(3500)),
            // Given, so that the operator sees who contradicts it.
            ("eth3", Some(1400)),
            ("x1", None),
        ] {
            let found = plan.interfaces.iter();
            let interface = { found }.find(|i| i.matches.name.as_deref() == Some(name));
            assert!(interface.is_some(), "{name}");
            let mtu = of_device(&plan, &[name], interface, MOST_LEVELS);
            assert_eq!(mtu, expected, "{name}");
        }
    }
}
