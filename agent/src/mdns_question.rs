//! Makes the mDNS query from the settings of this boot.

use landfall_boot_params::BootParams;
use landfall_discovery::Question;

/// The mDNS instance that Ironic publishes.
pub const IRONIC: &str = "baremetal";

/// The mDNS query that finds Ironic.
pub fn ironic_by_mdns(params: &BootParams) -> Question {
    question(params, &[IRONIC])
}

/// The mDNS query that finds any of these instances.
pub fn question(params: &BootParams, instances: &'static [&'static str]) -> Question {
    Question {
        instances,
        attempts: *params.mdns_lookup_attempts,
        interfaces: params.mdns_interfaces.value.clone(),
        https_only: https_only(params),
    }
}

/// Whether the agent accepts only https servers. True if the operator has given
/// certificate authorities (`cafile`) and has not switched the verification off
/// (`ipa-insecure`).
pub fn https_only(params: &BootParams) -> bool {
    params.cafile.is_some() && !*params.insecure
}
