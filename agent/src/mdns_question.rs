//! The question that the settings of this boot ask by mDNS.

use landfall_boot_params::BootParams;
use landfall_discovery::Question;

/// The mDNS instance that Ironic publishes.
pub const IRONIC: &str = "baremetal";

/// The question for Ironic.
pub fn ironic_by_mdns(params: &BootParams) -> Question {
    question(params, &[IRONIC])
}

/// The question for any of these instances.
pub fn question(params: &BootParams, instances: &'static [&'static str]) -> Question {
    Question {
        instances,
        attempts: *params.mdns_lookup_attempts,
        interfaces: params.mdns_interfaces.value.clone(),
        https_only: https_only(params),
    }
}

/// Whether servers must prove who they are: the operator has named the authorities
/// that sign their certificates.
pub fn https_only(params: &BootParams) -> bool {
    params.cafile.is_some() && !*params.insecure
}
