//! What the network of this boot is made of, as the console tells it.

use landfall_network_plan::Choice;
use landfall_network_plan::describe::describe;

/// Tells where the plan is from and what was wrong with better sources, and the
/// plan itself where it `is_carried_out` by us.
pub(super) fn announce(choice: &Choice, is_carried_out: bool) {
    for fault in &choice.faults {
        tracing::error!("{fault}");
    }
    tracing::info!("source: {}", choice.told());
    if !is_carried_out {
        return;
    }
    for line in describe(&choice.plan) {
        tracing::info!("plan: {line}");
    }
    for warning in &choice.plan.warnings {
        tracing::warn!("{warning}");
    }
}
