//! Builds the netlink messages for VRFs, veth pairs and interfaces that share a NIC
//! (MACVLAN, IPVLAN, InfiniBand partitions).

use landfall_network_plan::{
    ClonedMac, Interface, InterfaceKind, IpVlanMode, MacVlanMode, NetworkPlan,
};
use rtnetlink::packet_route::link::{
    InfoData, InfoIpVlan, InfoIpoib, InfoKind, InfoMacVlan, InfoMacVtap, InfoVeth, InfoVrf,
    IpVlanFlags, IpVlanMode as KernelIpVlanMode, IpoibMode, LinkMessage, MacVlanMode as KernelMode,
};
use rtnetlink::{LinkMessageBuilder, LinkUnspec};

/// A request to create an interface.
pub(super) struct StackedLink<'a> {
    pub(super) name: &'a str,
    /// The kernel module that provides the interface type.
    pub(super) module: &'static str,
    pub(super) message: LinkMessage,
}

/// The interfaces that need no parent: VRFs and veth pairs. One request creates
/// both ends of a veth pair.
pub(super) fn without_parent(plan: &NetworkPlan) -> Vec<StackedLink<'_>> {
    let mut made: Vec<&str> = Vec::new();
    let mut links = Vec::new();
    for interface in plan.interfaces.iter().filter(|i| !i.down) {
        let Some(name) = interface.matches.name.as_deref() else {
            continue;
        };
        let (module, kind, data) = match &interface.kind {
            InterfaceKind::Vrf { table } => {
                let data = InfoData::Vrf(vec![InfoVrf::TableId(*table)]);
                ("vrf", InfoKind::Vrf, data)
            }
            InterfaceKind::Veth { peer } if !made.contains(&name) && name != peer => {
                made.push(peer);
                let peer = LinkMessageBuilder::<LinkUnspec>::new().name(peer.clone());
                let data = InfoData::Veth(InfoVeth::Peer(peer.build()));
                ("veth", InfoKind::Veth, data)
            }
            _ => continue,
        };
        links.push(link(interface, name, module, kind, data, None));
    }
    links
}

/// The interfaces whose parent has one of these names.
pub(super) fn on_parent<'a>(
    plan: &'a NetworkPlan,
    names: &[&str],
    index: u32,
) -> Vec<StackedLink<'a>> {
    let wanted = plan.interfaces.iter().filter(|interface| !interface.down);
    let on_it = |parent: &Option<String>| {
        let parent = parent.as_deref();
        parent.is_some_and(|parent| names.contains(&parent))
    };
    let read = |interface: &'a Interface| {
        let name = interface.matches.name.as_deref()?;
        let (module, kind, data) = match &interface.kind {
            InterfaceKind::MacVlan {
                parent, mode, tap, ..
            } if on_it(parent) => mac_vlan(*mode, *tap),
            InterfaceKind::IpVlan {
                parent,
                mode,
                flags,
                ..
            } if on_it(parent) => ip_vlan(*mode, *flags),
            InterfaceKind::Infiniband {
                parent,
                p_key: Some(key),
                mode,
                ..
            } if on_it(parent) => partition(*key, *mode),
            _ => return None,
        };
        Some(link(interface, name, module, kind, data, Some(index)))
    };
    wanted.filter_map(read).collect()
}

fn mac_vlan(mode: Option<MacVlanMode>, tap: bool) -> (&'static str, InfoKind, InfoData) {
    let mode = match mode {
        // VEPA is the kernel's default.
        None | Some(MacVlanMode::Unknown | MacVlanMode::Vepa) => KernelMode::Vepa,
        Some(MacVlanMode::Bridge) => KernelMode::Bridge,
        Some(MacVlanMode::Private) => KernelMode::Private,
        Some(MacVlanMode::Passthru) => KernelMode::Passthrough,
        Some(MacVlanMode::Source) => KernelMode::Source,
    };
    if tap {
        let data = InfoData::MacVtap(vec![InfoMacVtap::Mode(mode)]);
        ("macvtap", InfoKind::MacVtap, data)
    } else {
        let data = InfoData::MacVlan(vec![InfoMacVlan::Mode(mode)]);
        ("macvlan", InfoKind::MacVlan, data)
    }
}

fn ip_vlan(mode: IpVlanMode, flags: u16) -> (&'static str, InfoKind, InfoData) {
    let mode = match mode {
        IpVlanMode::L2 => KernelIpVlanMode::L2,
        IpVlanMode::L3 => KernelIpVlanMode::L3,
        IpVlanMode::L3s => KernelIpVlanMode::L3S,
    };
    let mut data = vec![InfoIpVlan::Mode(mode)];
    if flags != 0 {
        data.push(InfoIpVlan::Flags(IpVlanFlags::from_bits_retain(flags)));
    }
    ("ipvlan", InfoKind::IpVlan, InfoData::IpVlan(data))
}

fn partition(key: u16, mode: Option<&str>) -> (&'static str, InfoKind, InfoData) {
    let mode = match mode {
        Some("connected") => IpoibMode::Connected,
        _ => IpoibMode::Datagram,
    };
    let data = vec![InfoIpoib::Pkey(key), InfoIpoib::Mode(mode)];
    ("ib_ipoib", InfoKind::Ipoib, InfoData::Ipoib(data))
}

fn link<'a>(
    interface: &Interface,
    name: &'a str,
    module: &'static str,
    kind: InfoKind,
    data: InfoData,
    parent: Option<u32>,
) -> StackedLink<'a> {
    let mut builder =
        LinkMessageBuilder::<LinkUnspec>::new_with_info_kind(kind).name(name.to_owned());
    if let Some(parent) = parent {
        builder = builder.link(parent);
    }
    // An IPVLAN shares the hardware address of its NIC.
    let has_own = !matches!(interface.kind, InterfaceKind::IpVlan { .. });
    let mac = interface.set_mac.and_then(ClonedMac::address);
    if let Some(mac) = mac.filter(|_| has_own) {
        builder = builder.address(mac.0.to_vec());
    }
    StackedLink {
        name,
        module,
        message: builder.set_info_data(data).build(),
    }
}
