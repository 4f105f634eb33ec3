//! The parts of router advertisements that the kernel leaves to user space (RFC
//! 4861).
//!
//! The kernel handles addresses, prefixes and routes. It passes on two things: the flags
//! that announce DHCP ([`RouterFlags`]), and the options that it does not read itself.
//! The agent uses the options for the resolver (RFC 8106). No raw ICMPv6 socket is
//! needed, and the kernel has already dropped packets that did not come from the link
//! itself.

pub mod dns;
mod flags;
mod socket;
pub mod user_option;

pub(super) use dns::AdvertisedDns;
pub(super) use flags::{RouterFlags, is_of_ipv6};
pub(super) use socket::UserOptions;
pub(super) use user_option::UserOption;
