//! One typed plan for a machine's network, whatever described it.
//!
//! [`NetworkPlan`] is what the agent applies and what it hands over to the
//! installed system; each `from_*` module makes one out of one input format.
//! Everything here is pure: same input, same plan, and no input is an error.

pub mod describe;
pub mod from_boot_args;
pub mod normal_form;
pub mod plan;

pub use landfall_boot_params::MacAddr;
pub use plan::{
    Automatic, Interface, InterfaceKind, InterfaceMatch, IpPlan, IpPrefix, Method, NetworkPlan,
    Route,
};
