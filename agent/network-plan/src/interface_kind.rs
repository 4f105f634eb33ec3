//! What an interface of a plan is.

use std::collections::BTreeMap;

use landfall_boot_params::{InfinibandAddr, MacAddr};

/// What an [`Interface`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A device that is there.
    Ethernet,
    /// A VLAN.
    Vlan {
        /// Its tag.
        id: u16,
        /// The interface that carries it. Where `parent_mac` is given, a label
        /// or nothing until [`NetworkPlan::name_vlans`] has found the device.
        parent: Option<String>,
        /// The hardware address of the NIC that carries it, where its source
        /// knows NICs by nothing else.
        parent_mac: Option<MacAddr>,
        /// True for a service tag (802.1ad), false for the usual one (802.1Q).
        service: bool,
    },
    /// A bond.
    Bond {
        /// Its options by the kernel's names; always with `mode`.
        options: BTreeMap<String, String>,
    },
    /// A bridge.
    Bridge {
        /// Spanning tree. `None`, where nothing is said: off in the ramdisk,
        /// NetworkManager's own default (on) in the installed system.
        stp: Option<bool>,
    },
    /// A team.
    Team {
        /// The mode of the bond that the agent makes in its place: the kernel's
        /// driver does nothing without a daemon.
        bond_mode: &'static str,
    },
    /// An InfiniBand device, or a partition of one.
    Infiniband {
        /// The hardware address that it is found by.
        mac: Option<InfinibandAddr>,
        /// The device of which this is a partition.
        parent: Option<String>,
        /// The partition's key.
        p_key: Option<u16>,
        /// `datagram` or `connected`, where given.
        mode: Option<&'static str>,
    },
    /// A routing table of its own for its ports.
    Vrf {
        /// The number of the table.
        table: u32,
    },
    /// A second interface with its own hardware address on another one.
    MacVlan {
        /// The interface that carries it, as for a VLAN.
        parent: Option<String>,
        /// As for a VLAN.
        parent_mac: Option<MacAddr>,
        /// How frames between such interfaces go; `None`: nothing is said.
        mode: Option<MacVlanMode>,
        /// True for a MAC-VTAP: programs read its frames from a character device.
        tap: bool,
    },
    /// A second interface with the hardware address of another one.
    IpVlan {
        /// The interface that carries it, as for a VLAN.
        parent: Option<String>,
        /// As for a VLAN.
        parent_mac: Option<MacAddr>,
        /// Who routes its packets.
        mode: RoutesOfIpVlan,
        /// `IPVLAN_F_*` of the kernel: 1 private, 2 VEPA.
        flags: u16,
    },
    /// One end of a virtual cable.
    Veth {
        /// The other end.
        peer: String,
    },
    /// The kernel's own loopback interface.
    Loopback,
    /// A part of Open vSwitch: in [`NetworkPlan::installed`](crate::NetworkPlan) only.
    OpenVswitch {
        /// NetworkManager's type of the profile: `ovs-bridge`.
        profile_type: &'static str,
    },
}

/// How a MAC-VLAN treats frames to another one on the same interface. The values
/// are NetworkManager's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacVlanMode {
    /// Nothing is said: the kernel's default.
    Unknown = 0,
    /// To the switch, which sends them back.
    Vepa = 1,
    /// Directly.
    Bridge = 2,
    /// Not at all.
    Private = 3,
    /// There is no other one.
    Passthru = 4,
    /// From listed senders only.
    Source = 5,
}

/// Who routes the packets of an IPVLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutesOfIpVlan {
    /// It does, as any interface.
    L2,
    /// The interface below it.
    L3,
    /// The interface below it, with the firewall's rules.
    L3s,
}

impl InterfaceKind {
    /// The interface below, and its hardware address where its source knows it
    /// by nothing else; `None` for what lies on no other interface.
    pub(crate) fn parent_mut(&mut self) -> Option<(&mut Option<String>, &mut Option<MacAddr>)> {
        match self {
            InterfaceKind::Vlan {
                parent, parent_mac, ..
            }
            | InterfaceKind::MacVlan {
                parent, parent_mac, ..
            }
            | InterfaceKind::IpVlan {
                parent, parent_mac, ..
            } => Some((parent, parent_mac)),
            _ => None,
        }
    }
}
