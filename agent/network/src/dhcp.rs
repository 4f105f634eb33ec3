//! A DHCPv4 client (RFC 2131) for one interface.
//!
//! The client never gives up. If the server answers late, the interface gets its
//! address late, and the client reports meanwhile that it is waiting. Each
//! interface has its own client, so that a fault of one does not affect the others.
//! `dhcproto` encodes and decodes the messages. This module has the timing, the
//! sockets and the checks of the answers.

mod client;
pub mod conflict;
pub mod datagram;
pub mod lease;
pub mod message;
mod sockets;

use std::net::Ipv4Addr;
use std::time::Duration;

use landfall_network_plan::MacAddr;
use tokio::sync::mpsc;

pub use client::run;
pub use lease::Lease;

/// Longest wait for an offer during [`AT_FIRST`], for IPv4 and IPv6.
///
/// A switch port with spanning tree drops every frame during the first 30 to 50 s after
/// the carrier comes up. Without this limit the waits double up to 64 s, so the client
/// could send its next message half a minute after the port begins to forward.
pub(super) const LONGEST_WAIT_AT_FIRST: Duration = Duration::from_secs(8);
/// How long a client that searches for a lease keeps to [`LONGEST_WAIT_AT_FIRST`].
pub(super) const AT_FIRST: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub struct Settings {
    pub index: u32,
    pub name: String,
    pub mac: MacAddr,
    /// Client identifier; if `None`, the client sends the hardware address.
    pub client_id: Option<Vec<u8>>,
    pub host_name: Option<String>,
    pub vendor_class: Option<Vec<u8>>,
    /// Differentiated services code point (RFC 2474) of the packets that the client
    /// sends.
    pub code_point: u8,
    /// Length of one series of attempts. A new series follows it.
    pub series: Duration,
    /// The address that the interface had before. The client asks for it again.
    pub previous: Option<Ipv4Addr>,
}

/// What a client reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A new or renewed lease.
    Bound(Box<Lease>),
    /// No server has granted a lease during this time (no offer, no answer to a request,
    /// or a refusal). Reported once per series; the client continues.
    Silent(Duration),
    /// The server with this address refused the lease that it had offered; the client
    /// continues.
    Refused(Ipv4Addr),
    /// Another machine has the leased address. The client declines the lease and
    /// asks again after a pause.
    Taken(Ipv4Addr, MacAddr),
    /// The client cannot open or use its sockets; it continues.
    Trouble(String),
    /// The lease has ended, and the address must be removed.
    Lost,
}

/// Sends a client's events to the task that runs several clients.
#[derive(Debug, Clone)]
pub struct Reporter<T, E = Event> {
    /// Identifies the client.
    pub tag: T,
    pub events: mpsc::Sender<(T, E)>,
}

impl<T: Clone, E> Reporter<T, E> {
    /// Sends an event. Returns `None` if the receiver is gone; the client then has to
    /// end.
    pub(super) async fn report(&self, event: E) -> Option<()> {
        self.events.send((self.tag.clone(), event)).await.ok()
    }
}
