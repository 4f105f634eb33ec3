//! Computes the MTU that a device must have: its planned MTU, or the largest MTU that the
//! devices on top of it need. Changes nothing.

use landfall_network_plan::{Interface, InterfaceKind, IpPlan, Method, NetworkPlan};

use crate::links::Link;

/// The maximum depth of the search. VLANs on a bond in a bridge are three levels. The
/// limit ends the search if the plan stacks interfaces in a cycle.
const MOST_LEVELS: u8 = 8;
/// The smallest MTU for IPv6 (RFC 8200, 5; the kernel's IPV6_MIN_MTU).
const LEAST_IPV6: u32 = 1280;

/// The MTU that the device must have, or `None` if the plan does not require one. The MTU
/// that the plan sets on the device itself takes precedence. Without it, the device gets
/// the largest of these MTUs: that of each VLAN on top of it, because the kernel rejects
/// a VLAN with a larger MTU than the device below, and that of its bridge, because the
/// bridge would lose large frames. (The kernel raises the MTU of a bond's ports itself.)
pub(super) fn needed_mtu(
    plan: &NetworkPlan,
    link: &Link,
    interface: Option<&Interface>,
) -> Option<u32> {
    of_device(plan, &link.names(), interface, MOST_LEVELS)
}

/// The MTU to set when a DHCP server offers one; `None` leaves the device unchanged.
/// The plan takes precedence, and so do the devices on top of this one: if the MTU of a
/// device shrinks, the kernel also shrinks the MTU of its VLANs. Below 1280 the kernel
/// switches IPv6 off and removes all IPv6 addresses, static ones included. So 1280 is
/// the minimum if IPv6 is on, as in NetworkManager.
pub(super) fn leased_mtu(
    plan: &NetworkPlan,
    link: &Link,
    interface: &Interface,
    leased: u32,
) -> Option<u32> {
    if interface.mtu.is_some() {
        return None;
    }
    let is_on = |ip: &IpPlan| ip.method != Method::Disabled;
    let least = match interface.ipv6.as_ref().is_some_and(is_on) {
        true => LEAST_IPV6,
        false => 0,
    };
    let needed = needed_mtu(plan, link, Some(interface)).unwrap_or(0);
    let mtu = leased.max(least).max(needed);
    (mtu != link.mtu).then_some(mtu)
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
    use landfall_boot_params::{CommandLine, MacAddr, NetArgs};

    use super::*;
    use crate::links::LinkKind;

    #[test]
    fn devices_above_raise_the_mtu() {
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
            // The device keeps its own MTU, although a VLAN on it needs more. The kernel
            // then rejects the MTU of the VLAN, which shows the operator the
            // contradiction.
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

    #[test]
    fn a_leased_mtu_does_not_go_below_the_needs_of_the_plan() {
        for (line, leased, expected) in [
            ("ip=eth0:dhcp", 9000, Some(9000)),
            ("ip=eth0:dhcp", 1500, None),
            ("ip=eth0:dhcp", 576, Some(1280)),
            ("ip=eth0:dhcp ip=eth0:off", 576, Some(576)),
            ("ip=eth0:dhcp:4000", 1400, None),
            (
                "ip=eth0:dhcp vlan=eth0.5:eth0 ip=eth0.5:dhcp:1480",
                1400,
                Some(1480),
            ),
        ] {
            let plan =
                NetworkPlan::for_boot(&NetArgs::from_command_line(&CommandLine::parse(line)));
            let link = Link {
                index: 2,
                name: "eth0".to_owned(),
                alternative_names: Vec::new(),
                kind: LinkKind::Nic,
                mac: MacAddr([2, 0, 0, 0, 0, 1]),
                permanent_mac: None,
                up: true,
                carrier: true,
                mtu: 1500,
                controller: None,
                made_of: None,
            };
            let mut found = plan.interfaces.iter();
            let interface = found.find(|i| i.matches.name.as_deref() == Some("eth0"));
            let mtu = leased_mtu(&plan, &link, interface.unwrap(), leased);
            assert_eq!(mtu, expected, "{line} {leased}");
        }
    }
}
