//! Finds Ironic and the address of this machine that Ironic can call back, and sets the
//! clock.

mod advertised_address;
pub mod clock;
mod expected;
mod mdns;
pub mod mdns_advert;
mod other_answers;
mod provisioning_service;
mod reach_screen;
mod reached;
mod search;
mod walk;

pub use advertised_address::{AdvertiseRules, Advertised, address_lost, advertise, source_towards};
pub use expected::Expected;
pub use mdns::{Question, ask_network};
pub use provisioning_service::{FoundService, PROVISIONING_SERVICE, Place, Wanted, find};
pub use reach_screen::{NicWay, remedy, screen, ways};
