//! One typed plan for a machine's network, whatever its source.
//!
//! The agent applies a [`NetworkPlan`] and hands it over to the installed system. Each
//! `from_*` module makes a plan from one input format. This crate is pure: the same input
//! gives the same plan. Kernel arguments never cause an error. A document causes an error
//! if its reader cannot use it.

mod absent_nics;
mod bond_option;
mod bond_rules;
mod choose;
pub mod describe;
pub mod embedded;
mod extra_vlans;
mod far_gateways;
mod findings;
mod from_boot_args;
pub mod from_keyfiles;
pub mod from_network_data;
pub mod from_nmstate;
mod interface_kind;
mod ip_plan;
mod keyfile;
mod normal_form;
mod plan;
mod route_rule;
mod team_runner;
mod to_boot_args;
mod vlan_names;

pub use absent_nics::PresentNic;
pub use bond_option::{BondValue, bond_number, bond_value};
pub use choose::{Choice, Source};
pub use embedded::{
    Document, DocumentError, Embedded, EmbeddedHost, EmbeddedHosts, Metal3HintError, Metal3Hints,
};
pub use extra_vlans::{AnnouncedVlans, needs_lldp, vlans_by_lldp};
pub use from_keyfiles::KeyfilesError;
pub use from_network_data::NetworkDataError;
pub use from_nmstate::NmStateError;
pub use keyfile::Keyfile;
pub use landfall_boot_params::dracut_net::VendorClass;
pub use landfall_boot_params::{ClonedMac, IpPrefix, MacAddr};
pub use plan::{
    Automatic, Ethtool, Interface, InterfaceKind, InterfaceMatch, IpPlan, IpVlanMode, MacVlanMode,
    Method, NetworkPlan, Profile, Route, RouteKind, Settings,
};
pub use route_rule::{RouteRule, RuleAction};
pub use to_boot_args::BootArgs;
