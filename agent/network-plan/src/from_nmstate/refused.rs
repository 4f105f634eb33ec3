//! Features of NMState that neither the ramdisk nor this crate's writer of
//! keyfiles supports, with a remedy for each.
//!
//! The builder rejects such a document, so that the operator sees the fault when
//! building the ramdisk and not on the console of a server. The installed system can
//! get these features from a separate NMState document, which is applied after the
//! first boot.

const LATER: &str = "leave it to the installed system";

/// The reason to reject a key; `None` for a key that nmstate does not know either.
pub(super) fn key(key: &str) -> Option<String> {
    let what = match key {
        "ovsdb" | "ovn" => "no Open vSwitch",
        "dpdk" => "no DPDK",
        "802.1x" | "ieee8021x" => "no 802.1X; use a port that needs none",
        "capture" => {
            return Some(
                "there is no running state to capture when the ramdisk is built; \
                 name the interfaces"
                    .to_owned(),
            );
        }
        "desiredState" | "desired" => {
            return Some("this is a policy; use only the part below this key".to_owned());
        }
        "mptcp" | "mptcp-flags" => "no multipath TCP",
        "dispatch" => "no dispatcher scripts",
        "pci-address" => {
            return Some(
                "a NIC is identified by its name, or with `identifier: mac-address`".to_owned(),
            );
        }
        _ => return None,
    };
    Some(has_no(what))
}

/// The reason to reject a type of interfaces; `None` for a type that nmstate does
/// not know either.
pub(super) fn kind(kind: &str) -> Option<String> {
    Some(has_no(match kind {
        "dummy" | "tun" => "no dummy or tun interfaces",
        "loopback" => "the kernel's own loopback interface",
        "vxlan" | "ip-tunnel" | "hsr" | "xfrm" => "no tunnels; use vlan",
        "macsec" | "ipsec" => "no keys for encryption; use vlan",
        _ => return None,
    }))
}

fn has_no(what: &str) -> String {
    format!("a ramdisk has {what}; {LATER}")
}
