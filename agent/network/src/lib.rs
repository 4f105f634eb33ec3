//! Discovers the machine's NICs, configures them as the plan says, and reports the
//! result.
//!
//! [`start`] applies a plan for as long as the process runs. A NIC that appears late, a
//! cable that is plugged in later and a DHCP server that answers late are ordinary
//! events. Code that needs the network watches the [`NetworkState`].

pub mod advertisements;
mod announce;
mod apply;
mod arp_sysctl;
mod automatic_ipv6;
mod bmc_nic;
mod bridge_option;
mod client_tag;
mod configure;
mod device_route;
pub mod dhcp;
pub mod dhcp6;
mod firmware_nics;
mod follow;
mod forget;
mod inspection_wait;
mod ipv6_sysctl;
mod linkdown;
mod links;
mod nic;
mod observe;
mod policy_rule;
pub mod reach;
pub mod resolv_conf;
mod routes;
mod stacked_link;
pub mod state;
mod state_json;
mod static_ipv4;
mod this_host;
mod virtual_link;
mod vrf_sysctl;

pub use bmc_nic::leads_to_bmc;
pub use configure::{Network, Setup, SwitchVlans, start};
pub use firmware_nics::read_firmware_nics;
pub use follow::follow;
pub use forget::forget;
pub use inspection_wait::{WaitFor, inspection_addresses};
pub use observe::observe;
pub use routes::{Way, network_on_link, routes_of, way_to};
pub use state::{AddressOrigin, NetworkState, first_address};
pub use this_host::this_host;

#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests")]
pub mod lab;
#[cfg(test)]
mod tests;
