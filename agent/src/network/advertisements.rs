//! What routers advertise, as far as the kernel leaves it to us (RFC 4861).
//!
//! Addresses, prefixes and routes are the kernel's work. It passes on two
//! things: whether there is DHCP to be asked ([`RouterFlags`]), and the options
//! that it does not read itself, of which those for the resolver are ours
//! (RFC 8106). No raw ICMPv6 socket is needed, and what did not come from the
//! link itself has been thrown away by the kernel already.

pub(crate) mod dns;
mod flags;
mod socket;
pub(crate) mod user_option;

pub(super) use dns::AdvertisedDns;
pub(super) use flags::{RouterFlags, is_of_ipv6};
pub(super) use socket::UserOptions;
pub(super) use user_option::UserOption;
