//! The kinds of interfaces in a plan.

use std::collections::BTreeMap;

use landfall_boot_params::{InfinibandAddr, MacAddr};

/// The kind of an `Interface`, with the settings that only this kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A physical device.
    Ethernet,
    Vlan {
        id: u16,
        /// The interface that carries the VLAN. If `parent_mac` is set, this is only a
        /// label or `None` until [`NetworkPlan::name_vlans`] has found the device.
        parent: Option<String>,
        /// The hardware address of the NIC that carries the VLAN, if the source of the
        /// plan identifies NICs only by address.
        parent_mac: Option<MacAddr>,
        /// True for a service tag (802.1ad), false for a customer tag (802.1Q).
        service: bool,
    },
    Bond {
        /// Options by the kernel's names; `mode` is always among them.
        options: BTreeMap<String, String>,
    },
    Bridge {
        /// Whether spanning tree is on. `None` if the source does not specify it:
        /// spanning tree is then off in the ramdisk, and the installed system uses
        /// NetworkManager's default (on).
        stp: Option<bool>,
    },
    Team {
        /// The mode of the bond that the agent creates instead of the team: the kernel's
        /// team driver does nothing without a daemon.
        bond_mode: &'static str,
    },
    /// An InfiniBand device, or a partition of one.
    Infiniband {
        /// The hardware address that identifies the device.
        mac: Option<InfinibandAddr>,
        /// The device that this is a partition of.
        parent: Option<String>,
        p_key: Option<u16>,
        /// `datagram` or `connected`, if the source says.
        mode: Option<&'static str>,
    },
    /// A VRF: its ports have a routing table of their own.
    Vrf {
        /// The number of that table.
        table: u32,
    },
    /// A virtual interface on top of a parent interface, with a MAC address of its own.
    MacVlan {
        /// The parent interface, as for a VLAN.
        parent: Option<String>,
        /// The hardware address of the parent, as for a VLAN.
        parent_mac: Option<MacAddr>,
        /// How the interface treats frames to other MAC-VLANs on the same parent;
        /// `None` if the source does not specify it.
        mode: Option<MacVlanMode>,
        /// True for a MAC-VTAP: programs read its frames from a character device.
        tap: bool,
    },
    /// A virtual interface on top of a parent interface, with the same MAC address.
    IpVlan {
        /// The parent interface, as for a VLAN.
        parent: Option<String>,
        /// The hardware address of the parent, as for a VLAN.
        parent_mac: Option<MacAddr>,
        mode: IpVlanMode,
        /// `IPVLAN_F_*` of the kernel: 1 private, 2 VEPA.
        flags: u16,
    },
    /// One end of a virtual cable.
    Veth {
        /// The name of the other end.
        peer: String,
    },
    /// The kernel's own loopback interface.
    Loopback,
    /// A part of Open vSwitch: in [`NetworkPlan::installed`](crate::NetworkPlan) only.
    OpenVswitch {
        /// NetworkManager's type of the profile: `ovs-bridge`, `ovs-port` or
        /// `ovs-interface`.
        profile_type: &'static str,
    },
}

/// How a MAC-VLAN treats frames to another MAC-VLAN on the same parent interface. The
/// numbers are NetworkManager's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacVlanMode {
    /// Not specified: the kernel's default.
    Unknown = 0,
    /// Sends them to the switch, which sends them back.
    Vepa = 1,
    /// Delivers them directly.
    Bridge = 2,
    /// Drops them.
    Private = 3,
    /// There can be no other MAC-VLAN on the parent interface.
    Passthru = 4,
    /// Accepts frames only from listed senders.
    Source = 5,
}

/// Which interface routes the packets of an IPVLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVlanMode {
    /// The IPVLAN itself, like any other interface.
    L2,
    /// The parent interface.
    L3,
    /// The parent interface, whose firewall rules then also apply.
    L3s,
}

impl InterfaceKind {
    /// The name and the hardware address of the parent of a VLAN, MAC-VLAN or IPVLAN.
    /// `None` for all other kinds.
    pub(crate) fn parent(&self) -> Option<(Option<&str>, Option<MacAddr>)> {
        match self {
            InterfaceKind::Vlan {
                parent, parent_mac, ..
            }
            | InterfaceKind::MacVlan {
                parent, parent_mac, ..
            }
            | InterfaceKind::IpVlan {
                parent, parent_mac, ..
            } => Some((parent.as_deref(), *parent_mac)),
            _ => None,
        }
    }

    /// Like [`Self::parent`], as mutable references.
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
