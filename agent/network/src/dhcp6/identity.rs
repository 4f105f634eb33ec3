//! How a DHCPv6 server recognises this machine.

use landfall_network_plan::MacAddr;

/// A DUID of type LL (RFC 8415, 11.4) of an Ethernet address (RFC 826).
const DUID_LL: [u8; 2] = [0, 3];
const ETHERNET: [u8; 2] = [0, 1];

/// The identity of the machine and of one interface.
///
/// The installed CoreOS uses the same identity: OpenShift configures its NetworkManager
/// with `ipv6.dhcp-duid=ll` and `ipv6.dhcp-iaid=mac`. So a server gives the ramdisk and
/// the installed system the same address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub duid: Vec<u8>,
    pub iaid: u32,
}

impl Identity {
    /// Derives the identity from a hardware address.
    ///
    /// NetworkManager 1.59 uses the current address for both parts, not the permanent
    /// one. The IAID is the last four bytes of the address, in the same byte order on
    /// the wire: `_prop_get_ipvx_dhcp_iaid()` in src/core/devices/nm-device.c reads the
    /// bytes as big-endian, and `sd_dhcp6_client_set_iaid()` writes them as big-endian.
    pub fn of(mac: MacAddr) -> Identity {
        let [_, _, last @ ..] = mac.0;
        Identity {
            duid: [&DUID_LL[..], &ETHERNET, &mac.0].concat(),
            iaid: u32::from_be_bytes(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duid_and_iaid_are_those_of_networkmanager() {
        let identity = Identity::of(MacAddr([0x52, 0x54, 0, 0xc0, 0xff, 1]));
        assert_eq!(identity.duid, [0, 3, 0, 1, 0x52, 0x54, 0, 0xc0, 0xff, 1]);
        assert_eq!(identity.iaid, 0x00c0_ff01);
    }
}
