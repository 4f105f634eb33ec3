//! What the network has told one NIC for IPv6, beside what the kernel does
//! with it by itself.

use std::net::{IpAddr, Ipv6Addr};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::advertisements::{AdvertisedDns, RouterFlags};
use super::dhcp6::{self, Lease, Want};

/// Routers, the DHCP client and its lease.
#[derive(Default)]
pub(super) struct AutomaticIpv6 {
    /// It has been given what the plan has for it.
    pub(super) begun: bool,
    /// The last word of the routers on DHCP.
    pub(super) routers: Option<RouterFlags>,
    /// What they say to the resolver.
    pub(super) dns: AdvertisedDns,
    pub(super) client: Option<Client>,
    /// Since when.
    lease: Option<(Lease, Instant)>,
}

/// A running client. It ends when this is dropped.
pub(super) struct Client {
    /// Tells its events from those of an earlier client of the same NIC.
    pub(super) generation: u64,
    pub(super) kind: Kind,
    pub(super) commands: mpsc::Sender<dhcp6::Command>,
    pub(super) task: JoinHandle<()>,
}

/// What is asked for by DHCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address and everything else.
    Stateful,
    /// Everything but an address.
    Stateless,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl AutomaticIpv6 {
    /// A router has been heard.
    pub(super) fn has_router(&self) -> bool {
        self.routers.is_some_and(|routers| routers.heard)
    }

    pub(super) fn stop_client(&mut self) {
        self.client = None;
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref().map(|(lease, _)| lease)
    }

    /// Has this lease now, and returns the one before.
    pub(super) fn take_lease(&mut self, lease: Lease) -> Option<Lease> {
        let before = self.lease.replace((lease, Instant::now()));
        before.map(|(lease, _)| lease)
    }

    pub(super) fn drop_lease(&mut self) -> Option<Lease> {
        self.lease.take().map(|(lease, _)| lease)
    }

    /// What a new client of this kind is to ask for: the present address,
    /// where there is one.
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

    /// Where the lease of this address came from.
    pub(super) fn server_of(&self, address: IpAddr) -> Option<Ipv6Addr> {
        let lease = self.lease()?;
        let leased = lease.address?.address;
        (IpAddr::V6(leased) == address).then_some(lease.from)
    }
}
