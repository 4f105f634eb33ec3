//! A DHCPv6 client (RFC 8415) for one interface.
//!
//! The client starts if a router announces DHCP, or if the plan requires DHCP without a
//! router. The kernel handles addresses from router advertisements. Like the DHCPv4
//! client, this client never gives up, and each interface has its own. [`machine`]
//! decides what to do next, without sockets or clocks. `dhcproto` encodes and decodes the
//! messages, and [`client`] sends and receives them.

mod client;
mod exchange;
mod identity;
pub mod lease;
pub mod machine;
pub mod message;
mod retransmission;
mod socket;

use std::net::Ipv6Addr;
use std::time::Duration;

use landfall_network_plan::MacAddr;

pub use client::{Command, run};
pub use identity::Identity;
pub use lease::{Lease, LeasedAddress};

#[derive(Debug, Clone)]
pub struct Settings {
    pub index: u32,
    pub name: String,
    pub mac: MacAddr,
    /// Link-local address from which the client sends.
    pub link_local: Ipv6Addr,
    pub want: Want,
    pub host_name: Option<String>,
    /// The client reports [`Event::Silent`] after this time without an answer, but at the
    /// latest after 30 s.
    pub series: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The client requests an address and all other configuration. Holds the interface's
    /// previous lease if it has not expired yet; the client then requests the same
    /// address.
    Address(Option<Box<Lease>>),
    /// The client asks for all configuration except an address.
    Information,
}

/// What a client reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A new or renewed lease. It has no address if the client did not ask for one.
    Bound(Box<Lease>),
    /// No server has granted or refused a lease for this long; the client continues.
    Silent(Duration),
    /// A server offered no address, for this reason; the client continues.
    Refused(String),
    /// The client cannot open or use its socket; it continues.
    Trouble(String),
    /// The lease has ended, and the address must be removed.
    Lost,
}
