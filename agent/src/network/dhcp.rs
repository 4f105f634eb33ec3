//! A DHCPv4 client (RFC 2131) for one interface.
//!
//! It never gives up: an interface whose server comes late gets its address
//! late, and says meanwhile that it is waiting. What is wrong with one
//! interface is no business of the others, so each has a client of its own.
//! Messages are encoded and decoded by `dhcproto`; times, sockets and what to
//! believe of an answer are here.

mod client;
pub(crate) mod conflict;
pub(crate) mod datagram;
pub(crate) mod lease;
pub(crate) mod message;
mod sockets;

use std::net::Ipv4Addr;
use std::time::Duration;

use landfall_network_plan::MacAddr;
use tokio::sync::mpsc;

pub use client::run;
pub use lease::Lease;

/// A switch port with spanning tree drops every frame during the first 30 to
/// 50 s after the carrier comes up. With the pauses of the RFCs, which double
/// up to 64 s, the first message that passes could follow half a minute after
/// the port begins to forward. Of both address families.
pub(super) const LONGEST_WAIT_AT_FIRST: Duration = Duration::from_secs(8);
/// How long a client that searches keeps to [`LONGEST_WAIT_AT_FIRST`].
pub(super) const AT_FIRST: Duration = Duration::from_secs(120);

/// Who asks, and what for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kernel's index of the interface.
    pub index: u32,
    /// The kernel's name of the interface.
    pub name: String,
    /// Its hardware address.
    pub mac: MacAddr,
    /// Identifier to send; the hardware address when none is given.
    pub client_id: Option<Vec<u8>>,
    /// Host name to send.
    pub host_name: Option<String>,
    /// Vendor class to send.
    pub vendor_class: Option<Vec<u8>>,
    /// Differentiated services code point of what is sent (RFC 2474).
    pub code_point: u8,
    /// How long one series of attempts goes on.
    pub series: Duration,
    /// The address the interface had before, to be asked for again.
    pub previous: Option<Ipv4Addr>,
}

/// What a client has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// There is a lease, new or renewed.
    Bound(Box<Lease>),
    /// Nobody has answered for so long; the client goes on. Once a series.
    Silent(Duration),
    /// A server took its offer back; the client goes on.
    Refused(Ipv4Addr),
    /// Somebody else has the address that was leased; the server is told, and
    /// asked again after a while.
    Taken(Ipv4Addr, MacAddr),
    /// Sockets cannot be opened or used; the client goes on.
    Trouble(String),
    /// The lease has ended and the address must go.
    Lost,
}

/// The way of a client's events to whoever runs several of them.
#[derive(Debug, Clone)]
pub struct Reporter<T, E = Event> {
    /// What the events are to be known by.
    pub tag: T,
    /// Where they go.
    pub events: mpsc::Sender<(T, E)>,
}

impl<T: Clone, E> Reporter<T, E> {
    /// `None`: nobody listens any more, and the client has no use left.
    pub(super) async fn tell(&self, event: E) -> Option<()> {
        self.events.send((self.tag.clone(), event)).await.ok()
    }
}
