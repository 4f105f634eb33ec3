//! Reads what every kind of interface has: hardware addresses, MTU, speed.

use landfall_boot_params::{ClonedMac, MacAddr};

use super::keys::Keys;
use crate::plan::{Ethtool, Interface, InterfaceKind};

const MAC: &str = "a hardware address such as 52:54:00:00:00:01";

pub(super) fn read(keys: &Keys, interface: &mut Interface) {
    let mac: Option<MacAddr> = match interface.kind {
        // The address of an InfiniBand port has another length and another section.
        InterfaceKind::Infiniband { .. } => None,
        _ => keys.parsed("ethernet", "mac-address", MAC),
    };
    match &mut interface.kind {
        InterfaceKind::Ethernet => interface.matches.mac = mac,
        // If there is no `parent`, NetworkManager finds the parent NIC by this address.
        kind => match kind.parent_mut() {
            Some((None, parent_mac)) => *parent_mac = mac,
            _ if mac.is_some() => keys.warn("ethernet", "mac-address", "ignored"),
            _ => {}
        },
    }
    let cloned = "a hardware address, preserve, permanent, random or stable";
    let given: Option<ClonedMac> = keys.parsed("ethernet", "cloned-mac-address", cloned);
    // Old versions of NetworkManager kept the address of a bridge in its own section.
    let of_bridge: Option<MacAddr> = keys.parsed("bridge", "mac-address", MAC);
    if matches!(given, Some(ClonedMac::Random | ClonedMac::Stable)) {
        let words = "the ramdisk keeps the hardware address that Ironic knows";
        keys.warn("ethernet", "cloned-mac-address", words);
    }
    interface.set_mac = given.or(of_bridge.map(ClonedMac::Address));
    let section = match interface.kind {
        InterfaceKind::Infiniband { .. } => "infiniband",
        _ => "ethernet",
    };
    // Zero means the default of the device.
    let mtu = keys.unsigned(section, "mtu", u32::MAX);
    interface.mtu = mtu.filter(|mtu| *mtu != 0);
    interface.ethtool = ethtool(keys);
}

fn ethtool(keys: &Keys) -> Option<Ethtool> {
    let autoneg = keys.flag("ethernet", "auto-negotiate");
    let speed = keys.unsigned("ethernet", "speed", u32::MAX);
    let speed = speed.filter(|speed| *speed != 0);
    if autoneg.is_none() && speed.is_none() {
        return None;
    }
    if speed.is_some() && keys.text("ethernet", "duplex") == Some("half") {
        keys.warn("ethernet", "duplex", "the ramdisk uses full duplex");
    }
    Some(Ethtool {
        autoneg: autoneg == Some(true),
        speed,
    })
}
