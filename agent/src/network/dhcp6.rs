//! A DHCPv6 client (RFC 8415) for one interface.
//!
//! It begins where a router says that there is DHCP, or where the plan wants
//! it without one; the addresses that routers give are the kernel's. Like its
//! sister for IPv4 it never gives up, and each interface has one of its own.
//! What to do next is decided in [`machine`], without sockets or clocks; the
//! messages are `dhcproto`'s, and [`client`] carries them.

mod client;
mod exchange;
mod identity;
pub(crate) mod lease;
pub(crate) mod machine;
pub(crate) mod message;
mod retransmission;
mod socket;

use std::net::Ipv6Addr;
use std::time::Duration;

use landfall_network_plan::MacAddr;

pub use client::{Command, run};
pub use identity::Identity;
pub use lease::{Lease, LeasedAddress};

/// Who asks, and what for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kernel's index of the interface.
    pub index: u32,
    /// The kernel's name of the interface.
    pub name: String,
    /// Its hardware address.
    pub mac: MacAddr,
    /// Its link-local address, which questions come from.
    pub link_local: Ipv6Addr,
    /// What is asked for.
    pub want: Want,
    /// Host name to send.
    pub host_name: Option<String>,
    /// After how long without an answer that is to be said.
    pub series: Duration,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// An address and everything else; the one that the interface had before
    /// and that has not ended yet, if there is any.
    Address(Option<Box<Lease>>),
    /// Everything but an address.
    Information,
}

/// What a client has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// There is a lease, new or renewed; without an address where none was
    /// wanted.
    Bound(Box<Lease>),
    /// Nobody has answered for so long; the client goes on.
    Silent(Duration),
    /// A server has an answer, but no address; the client goes on. What the
    /// server says about it.
    Refused(String),
    /// Sockets cannot be opened or used; the client goes on.
    Trouble(String),
    /// The lease has ended and the address must go.
    Lost,
}
