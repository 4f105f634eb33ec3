//! Lists the network devices and follows the kernel's events about them.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use landfall_network_plan::{IpPrefix, MacAddr};
use nix::sys::socket::{setsockopt, sockopt};
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol,
};
use rtnetlink::packet_route::link::{
    InfoBond, InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType,
    LinkMessage, Prop,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::{AsyncSocket as _, SocketAddr};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::advertisements::{RouterFlags, is_of_ipv6};
use super::state::MadeOf;

/// In bytes: the buffer for events that the agent has not read yet. A server
/// with hundreds of virtual functions brings them all up at once.
const QUEUE_BYTES: usize = 4 << 20;
/// Pause before the next attempt after the kernel has refused a connection.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// The alternative names of the device in the kernel.
    pub alternative_names: Vec<String>,
    pub kind: LinkKind,
    /// The current hardware address.
    pub mac: MacAddr,
    /// The factory hardware address, if the driver knows it.
    pub permanent_mac: Option<MacAddr>,
    /// The device is switched on.
    pub up: bool,
    /// A cable is plugged in, and the other end is active.
    pub carrier: bool,
    pub mtu: u32,
    /// Index of the bond, bridge or VRF that the device is a port of.
    pub controller: Option<u32>,
    /// What a bond or a VLAN is made of.
    pub made_of: Option<MadeOf>,
}

/// How the agent treats a network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// The device `lo`.
    Loopback,
    /// An Ethernet device: a network interface card, or a veth.
    Nic,
    /// An InfiniBand port, or a device that software created on top of others, such as
    /// a VLAN. The agent configures the device if the plan contains its name.
    Virtual,
    /// Any other software device, or a device that is not Ethernet. The agent
    /// ignores it.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkAddress {
    pub index: u32,
    pub prefix: IpPrefix,
    /// The address cannot be used until duplicate address detection is over.
    pub tentative: bool,
    /// Another machine has the address.
    pub duplicate: bool,
    /// The kernel derived the address from a router advertisement, or the address is an
    /// IPv6 address with a time limit, such as a DHCPv6 lease.
    pub advertised: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// A device is new or has changed.
    Link(Link),
    /// A device is gone. Holds its index.
    LinkGone(u32),
    /// An address is new or has changed.
    Address(LinkAddress),
    /// An address is gone. `duplicate` is set if the kernel removed the address because
    /// another machine has it.
    AddressGone(LinkAddress),
    /// A router has announced on the link whether there is DHCP.
    Router(RouterFlags),
}

impl Link {
    /// All names of the device, its current name first.
    pub fn names(&self) -> Vec<&str> {
        let others = self.alternative_names.iter().map(String::as_str);
        std::iter::once(self.name.as_str()).chain(others).collect()
    }

    /// The hardware addresses by which a plan can match the device. Leaves out the
    /// current address of a port, because this may be the address of another port of
    /// the bond.
    pub fn macs(&self) -> Vec<MacAddr> {
        let borrowed = self.controller.is_some() && self.permanent_mac.is_some();
        let own = Some(self.mac).filter(|mac| !borrowed && Some(*mac) != self.permanent_mac);
        own.into_iter().chain(self.permanent_mac).collect()
    }

    fn from_message(message: &LinkMessage) -> Option<Link> {
        let header = &message.header;
        if is_of_a_bridge(message) || is_of_ipv6(message) {
            return None;
        }
        let mut link = Link {
            index: header.index,
            name: String::new(),
            alternative_names: Vec::new(),
            kind: match header.link_layer_type {
                LinkLayerType::Ether => LinkKind::Nic,
                LinkLayerType::Loopback => LinkKind::Loopback,
                LinkLayerType::Infiniband => LinkKind::Virtual,
                _ => LinkKind::Other,
            },
            mac: MacAddr([0; 6]),
            permanent_mac: None,
            up: header.flags.contains(LinkFlags::Up),
            carrier: header.flags.contains(LinkFlags::LowerUp),
            mtu: 0,
            controller: None,
            made_of: None,
        };
        let mut parent = None;
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::PropList(properties) => {
                    link.alternative_names = properties.iter().filter_map(alternative).collect();
                }
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Address(bytes) => link.mac = mac(bytes).unwrap_or(link.mac),
                LinkAttribute::PermAddress(bytes) => link.permanent_mac = mac(bytes),
                LinkAttribute::Controller(index) => {
                    link.controller = Some(*index).filter(|index| *index != 0);
                }
                LinkAttribute::LinkInfo(info) => {
                    let made = info.iter().find_map(made_by_software);
                    link.kind = made.unwrap_or(link.kind);
                    link.made_of = info.iter().find_map(made_of);
                }
                LinkAttribute::Link(index) => parent = Some(*index),
                _ => {}
            }
        }
        // For a VLAN, this index is the index of its parent. For a veth, it is the
        // index of the peer, which may be in another network namespace.
        if let Some(MadeOf::Vlan { parent: below, .. }) = &mut link.made_of {
            *below = parent;
        }
        (!link.name.is_empty()).then_some(link)
    }
}

fn alternative(property: &Prop) -> Option<String> {
    match property {
        Prop::AltIfName(name) => Some(name.clone()),
        _ => None,
    }
}

/// Whether a bridge sent the message. A bridge sends messages about its ports to the
/// same multicast group. These messages lack half of the attributes, and report a port
/// that leaves the bridge as a link that is gone.
fn is_of_a_bridge(message: &LinkMessage) -> bool {
    message.header.interface_family == AddressFamily::Bridge
}

/// The kind of a software device. `None` for a hardware device, and for a veth, which
/// counts as a NIC: it is the NIC of a container, and the agent also runs in containers.
fn made_by_software(info: &LinkInfo) -> Option<LinkKind> {
    match info {
        LinkInfo::Kind(InfoKind::Veth) => None,
        LinkInfo::Kind(
            InfoKind::Vlan
            | InfoKind::Bond
            | InfoKind::Bridge
            | InfoKind::Vrf
            | InfoKind::MacVlan
            | InfoKind::MacVtap
            | InfoKind::IpVlan
            | InfoKind::Ipoib,
        ) => Some(LinkKind::Virtual),
        LinkInfo::Kind(_) => Some(LinkKind::Other),
        _ => None,
    }
}

/// The mode of a bond, or the ID of a VLAN. The VLAN's parent is not known yet.
fn made_of(info: &LinkInfo) -> Option<MadeOf> {
    match info {
        LinkInfo::Data(InfoData::Bond(options)) => options.iter().find_map(|option| match option {
            InfoBond::Mode(mode) => Some(MadeOf::Bond {
                mode: mode.to_string(),
            }),
            _ => None,
        }),
        LinkInfo::Data(InfoData::Vlan(options)) => options.iter().find_map(|option| match option {
            InfoVlan::Id(id) => Some(MadeOf::Vlan {
                id: *id,
                parent: None,
            }),
            _ => None,
        }),
        _ => None,
    }
}

fn mac(bytes: &[u8]) -> Option<MacAddr> {
    bytes.try_into().ok().map(MacAddr)
}

impl LinkAddress {
    fn from_message(message: &AddressMessage) -> Option<LinkAddress> {
        let mut address = None;
        let mut local = None;
        let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
        let mut made_by_kernel = false;
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Address(ip) => address = Some(*ip),
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Flags(all) => flags = *all,
                AddressAttribute::Protocol(by) => {
                    made_by_kernel = *by == AddressProtocol::RouterAnnouncement;
                }
                _ => {}
            }
        }
        // On a point-to-point link the attribute `address` is that of the peer.
        let ip = local.or(address)?;
        // Kernels before 5.18 do not report the origin of an address. IPv6 addresses with
        // a time limit come from router advertisements, or from DHCPv6 leases, which
        // `Nic::origin` recognises first.
        let limited = ip.is_ipv6() && !flags.contains(AddressFlags::Permanent);
        Some(LinkAddress {
            index: message.header.index,
            prefix: IpPrefix {
                address: ip,
                length: message.header.prefix_len,
            },
            // An optimistic address is already in use (RFC 4429).
            tentative: flags.contains(AddressFlags::Tentative)
                && !flags.contains(AddressFlags::Optimistic),
            duplicate: flags.contains(AddressFlags::Dadfailed),
            advertised: made_by_kernel || limited,
        })
    }
}

/// All devices and addresses at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub links: Vec<Link>,
    pub addresses: Vec<LinkAddress>,
    /// The flags of the router advertisements received so far.
    pub routers: Vec<RouterFlags>,
}

/// A subscription to all changes of devices and addresses.
pub struct LinkWatch {
    messages: Pin<Box<dyn Stream<Item = Message> + Send>>,
    connection: JoinHandle<()>,
}

type Message = (NetlinkMessage<RouteNetlinkMessage>, SocketAddr);

impl LinkWatch {
    /// Subscribes first and then reads the current state, so that no change is
    /// missed.
    ///
    /// # Errors
    /// If the kernel refuses the connection or a query.
    pub async fn open() -> io::Result<(LinkWatch, Snapshot)> {
        LinkWatch::with_queue(QUEUE_BYTES).await
    }

    /// Like [`Self::open`], but retries until the kernel permits it.
    pub(crate) async fn open_with_retries() -> (LinkWatch, Snapshot) {
        loop {
            match LinkWatch::open().await {
                Ok(opened) => return opened,
                Err(error) => {
                    tracing::error!(
                        "cannot get the list of NICs from the kernel: {error}; retrying"
                    );
                    sleep(REOPEN_PAUSE).await;
                }
            }
        }
    }

    async fn with_queue(bytes: usize) -> io::Result<(LinkWatch, Snapshot)> {
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
            MulticastGroup::Ipv6Ifinfo,
        ];
        let (mut connection, handle, messages) = rtnetlink::new_multicast_connection(&groups)?;
        // With the required privilege, this call can exceed the limit in
        // net.core.rmem_max.
        let socket = connection.socket_mut().socket_mut();
        if setsockopt(socket, sockopt::RcvBufForce, &bytes).is_err() {
            setsockopt(socket, sockopt::RcvBuf, &bytes)?;
        }
        let watch = LinkWatch {
            messages: Box::pin(messages),
            connection: tokio::spawn(connection),
        };
        let mut snapshot = Snapshot::default();
        let mut links = handle.link().get().execute();
        while let Some(message) = links.try_next().await.map_err(io::Error::other)? {
            snapshot.links.extend(Link::from_message(&message));
            snapshot.routers.extend(RouterFlags::from_message(&message));
        }
        let mut addresses = handle.address().get().execute();
        while let Some(message) = addresses.try_next().await.map_err(io::Error::other)? {
            snapshot
                .addresses
                .extend(LinkAddress::from_message(&message));
        }
        Ok((watch, snapshot))
    }

    /// Returns the next event. `None` means that events were lost, because the kernel's
    /// queue was full, or that the connection has ended. The caller must then open a new
    /// watch to get the current state.
    pub async fn next(&mut self) -> Option<LinkEvent> {
        loop {
            let (message, _) = self.messages.next().await?;
            if matches!(message.payload, NetlinkPayload::Overrun(_)) {
                return None;
            }
            if let Some(event) = event(message) {
                return Some(event);
            }
        }
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn event(message: NetlinkMessage<RouteNetlinkMessage>) -> Option<LinkEvent> {
    let NetlinkPayload::InnerMessage(message) = message.payload else {
        return None;
    };
    match message {
        RouteNetlinkMessage::NewLink(link) if is_of_ipv6(&link) => {
            RouterFlags::from_message(&link).map(LinkEvent::Router)
        }
        RouteNetlinkMessage::NewLink(link) => Link::from_message(&link).map(LinkEvent::Link),
        RouteNetlinkMessage::DelLink(link) if is_of_a_bridge(&link) || is_of_ipv6(&link) => None,
        RouteNetlinkMessage::DelLink(link) => Some(LinkEvent::LinkGone(link.header.index)),
        RouteNetlinkMessage::NewAddress(address) => {
            LinkAddress::from_message(&address).map(LinkEvent::Address)
        }
        RouteNetlinkMessage::DelAddress(address) => {
            LinkAddress::from_message(&address).map(LinkEvent::AddressGone)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{ip, on_a_machine};

    #[test]
    fn reports_existing_links_and_changes() {
        on_a_machine(async |lab| {
            lab.plug_in(0);
            ip("link add bridge0 type bridge");
            let (mut watch, snapshot) = LinkWatch::open().await.unwrap();
            let kind = |name: &str| {
                let found = snapshot.links.iter().find(|link| link.name == name);
                found.map(|link| link.kind)
            };
            assert_eq!(kind("lo"), Some(LinkKind::Loopback));
            assert_eq!(kind("eth0"), Some(LinkKind::Nic));
            assert_eq!(kind("bridge0"), Some(LinkKind::Virtual));

            ip("link set eth0 mtu 1400");
            ip("addr add 192.0.2.10/24 dev eth0");
            let Some(LinkEvent::Link(link)) = watch.next().await else {
                panic!("expected news of eth0");
            };
            assert_eq!(
                (link.name.as_str(), link.mtu, link.up),
                ("eth0", 1400, false)
            );
            let Some(LinkEvent::Address(address)) = watch.next().await else {
                panic!("expected news of its address");
            };
            assert_eq!(address.prefix.to_string(), "192.0.2.10/24");
            assert!(!address.tentative && !address.advertised);

            // A port that leaves a bridge must not count as a device that is gone.
            ip("link set eth0 master bridge0");
            ip("link set eth0 nomaster");
            ip("link set eth0 mtu 1300");
            let mut mtu = 1400;
            let mut was_port = false;
            while mtu != 1300 {
                match watch.next().await {
                    Some(LinkEvent::Link(news)) if news.index == link.index => {
                        was_port |= news.controller.is_some();
                        assert!(news.mtu != 1300 || news.controller.is_none());
                        mtu = news.mtu;
                    }
                    Some(LinkEvent::LinkGone(_)) | None => panic!("expected eth0 to stay"),
                    _ => {}
                }
            }

            assert!(was_port);
            ip("link del eth0");
            while watch.next().await != Some(LinkEvent::LinkGone(link.index)) {}
        });
    }

    #[test]
    fn shows_the_mode_of_a_bond_and_the_id_of_a_vlan() {
        let made_of = |data: Option<InfoData>| {
            let mut message = LinkMessage::default();
            message.header.link_layer_type = LinkLayerType::Ether;
            message.attributes = vec![
                LinkAttribute::IfName("x".to_owned()),
                LinkAttribute::Link(3),
                LinkAttribute::LinkInfo(data.into_iter().map(LinkInfo::Data).collect()),
            ];
            Link::from_message(&message).unwrap().made_of
        };
        let mode = "802.3ad".to_owned();
        let bond = InfoData::Bond(vec![InfoBond::MiiMon(100), InfoBond::Mode(4_u8.into())]);
        assert_eq!(made_of(Some(bond)), Some(MadeOf::Bond { mode }));
        let (vlan, parent) = (InfoData::Vlan(vec![InfoVlan::Id(100)]), Some(3));
        let expected = Some(MadeOf::Vlan { id: 100, parent });
        assert_eq!(made_of(Some(vlan)), expected);
        assert_eq!(made_of(None), None);
    }

    #[test]
    fn says_when_events_were_lost() {
        on_a_machine(async |lab| {
            lab.plug_in(0);
            let (mut watch, _) = LinkWatch::with_queue(2000).await.unwrap();
            for mtu in 1400..1420 {
                ip(&format!("link set eth0 mtu {mtu}"));
            }
            let mut received = 0;
            while watch.next().await.is_some() {
                received += 1;
            }
            assert!(
                received < 20,
                "all {received} events came through a full queue"
            );
        });
    }
}
