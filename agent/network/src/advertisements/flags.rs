//! The M and O flags of the last router advertisement, as the kernel keeps them.

use rtnetlink::packet_core::Nla as _;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::{
    AfSpecInet6, AfSpecUnspec, Inet6IfaceFlags, LinkAttribute, LinkMessage, LinkProtoInfoInet6,
};

/// `IFLA_INET6_FLAGS` in linux/include/uapi/linux/if_link.h.
const IFLA_INET6_FLAGS: u16 = 1;

/// What the routers of one link announce about DHCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouterFlags {
    pub index: u32,
    /// A router advertisement has been received.
    pub received: bool,
    /// M flag: addresses and all other configuration come from DHCP.
    pub managed: bool,
    /// O flag: all configuration except addresses comes from DHCP.
    pub other: bool,
}

impl RouterFlags {
    /// Reads the flags from a link message; `None` if the message has none. A reply to a
    /// query has the flags among the data of all address families. After an advertisement
    /// the kernel sends a message about IPv6 only.
    pub fn from_message(message: &LinkMessage) -> Option<RouterFlags> {
        let flags = message.attributes.iter().find_map(flags_in)?;
        Some(RouterFlags {
            index: message.header.index,
            received: flags.contains(Inet6IfaceFlags::RaRcvd),
            managed: flags.contains(Inet6IfaceFlags::RaManaged),
            other: flags.contains(Inet6IfaceFlags::Otherconf),
        })
    }
}

/// Whether the message is about IPv6 only. Such a message has no other facts about the
/// device.
pub fn is_of_ipv6(message: &LinkMessage) -> bool {
    message.header.interface_family == AddressFamily::Inet6
}

fn flags_in(attribute: &LinkAttribute) -> Option<Inet6IfaceFlags> {
    match attribute {
        LinkAttribute::ProtoInfoInet6(list) => list.iter().find_map(|attribute| {
            let LinkProtoInfoInet6::Other(attribute) = attribute else {
                return None;
            };
            let mut value = vec![0; attribute.value_len()];
            attribute.emit_value(&mut value);
            let bytes = value.try_into().ok()?;
            (attribute.kind() == IFLA_INET6_FLAGS)
                .then(|| Inet6IfaceFlags::from_bits_retain(u32::from_ne_bytes(bytes)))
        }),
        LinkAttribute::AfSpecUnspec(families) => families.iter().find_map(|family| {
            let AfSpecUnspec::Inet6(list) = family else {
                return None;
            };
            list.iter().find_map(|attribute| match attribute {
                AfSpecInet6::Flags(flags) => Some(*flags),
                _ => None,
            })
        }),
        _ => None,
    }
}
