//! What NMState has and a ramdisk has not, and what to use instead.
//!
//! Refused where the ramdisk is built: a network that is left out in silence
//! would be found missing on a console in a data centre. All of it is for the
//! installed system, whose own NMState is applied after its first boot.

const LATER: &str = "leave it to the installed system";

/// Routes of the types blackhole, unreachable and prohibit.
pub(super) const UNREACHABLE: &str =
    "a ramdisk has no use for routes that lead nowhere; leave it to the installed system";

/// A key; `None` for one that nmstate has not either.
pub(super) fn key(key: &str) -> Option<String> {
    let what = match key {
        "ovs-db" | "ovsdb" | "ovn" => "no Open vSwitch",
        "sr-iov" => "no SR-IOV functions",
        "802.1x" | "ieee8021x" => "no 802.1X; use a port that needs none",
        "capture" => {
            return Some(
                "there is no running state to capture when the ramdisk is built; \
                 name the interfaces"
                    .to_owned(),
            );
        }
        "desiredState" | "desired" => {
            return Some("this is a policy; give what is below this key".to_owned());
        }
        "mptcp" | "mptcp-flags" => "no multipath TCP",
        "dispatch" => "no dispatcher scripts",
        "pci-address" => {
            return Some("NICs are known by name or `identifier: mac-address`".to_owned());
        }
        "route-rules" => "one routing table; use routes with metrics",
        "vrf-name" => "no VRF; use routes with metrics",
        "veth" => "no second end for a veth",
        _ => return None,
    };
    Some(has_no(what))
}

/// A type of interfaces; `None` for one that nmstate has not either.
pub(super) fn kind(kind: &str) -> Option<String> {
    Some(has_no(match kind {
        "ovs-bridge" | "ovs-interface" => "no Open vSwitch; use linux-bridge",
        "dummy" | "veth" | "tun" => "no use for interfaces that lead nowhere",
        "loopback" => "the kernel's own loopback interface",
        "vrf" => "no VRF; use routes with metrics",
        "mac-vlan" | "mac-vtap" | "ipvlan" => "no MACVLAN; use vlan or the NIC itself",
        "vxlan" | "ip-tunnel" | "hsr" | "xfrm" => "no tunnels; use vlan",
        "macsec" | "ipsec" => "no keys for encryption; use vlan",
        "infiniband" => "no NMState for InfiniBand; use the kernel arguments ip= and ib.pkey=",
        _ => return None,
    }))
}

fn has_no(what: &str) -> String {
    format!("a ramdisk has {what}; {LATER}")
}
