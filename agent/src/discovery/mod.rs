//! Where is Ironic, and by which of our addresses can it call back?

mod advertised_address;
mod provisioning_service;

pub use advertised_address::advertised_host;
pub use provisioning_service::{Found, Wanted, find};
