//! The state of automatic IPv6 on one NIC: what routers and DHCPv6 servers have
//! announced, except for the parts that the kernel handles.

use std::net::{IpAddr, Ipv6Addr};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::advertisements::{AdvertisedDns, RouterFlags};
use super::dhcp6::{self, Lease, Want};

#[derive(Default)]
pub(super) struct AutomaticIpv6 {
    /// The NIC has its planned IPv6 addresses and routes.
    pub(super) begun: bool,
    /// The flags of the last router advertisement.
    pub(super) routers: Option<RouterFlags>,
    /// DNS servers and search domains from router advertisements.
    pub(super) dns: AdvertisedDns,
    pub(super) client: Option<Client>,
    /// The lease and the time when it was received.
    lease: Option<(Lease, Instant)>,
}

/// A running DHCPv6 client. It ends when this is dropped.
pub(super) struct Client {
    /// Distinguishes the events of this client from those of an earlier client of the
    /// NIC.
    pub(super) generation: u64,
    pub(super) kind: Kind,
    pub(super) commands: mpsc::Sender<dhcp6::Command>,
    pub(super) task: JoinHandle<()>,
}

/// What the client requests from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address and all other configuration.
    Stateful,
    /// All configuration except an address.
    Stateless,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl AutomaticIpv6 {
    pub(super) fn has_router(&self) -> bool {
        self.routers.is_some_and(|routers| routers.received)
    }

    pub(super) fn stop_client(&mut self) {
        self.client = None;
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref().map(|(lease, _)| lease)
    }

    /// Stores a lease and returns the lease that it replaces.
    pub(super) fn take_lease(&mut self, lease: Lease) -> Option<Lease> {
        let before = self.lease.replace((lease, Instant::now()));
        before.map(|(lease, _)| lease)
    }

    pub(super) fn drop_lease(&mut self) -> Option<Lease> {
        self.lease.take().map(|(lease, _)| lease)
    }

    /// What a new client of this kind requests. A stateful client requests the current
    /// address again, if there is one.
    pub(super) fn want(&self, kind: Kind) -> Want {
        match kind {
            Kind::Stateless => Want::Information,
            Kind::Stateful => {
                let lease = self.lease.as_ref();
                let left = lease.and_then(|(lease, since)| lease.after(since.elapsed()));
                let left = left.filter(|lease| lease.address.is_some());
                Want::Address(left.map(Box::new))
            }
        }
    }

    /// The server that leased this address; `None` if the address is not leased.
    pub(super) fn server_of(&self, address: IpAddr) -> Option<Ipv6Addr> {
        let lease = self.lease()?;
        let leased = lease.address?.address;
        (IpAddr::V6(leased) == address).then_some(lease.from)
    }
}
