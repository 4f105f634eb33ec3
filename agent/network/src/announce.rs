//! Logs where the network configuration of this boot comes from.

use landfall_network_plan::Choice;
use landfall_network_plan::describe::describe;

/// Logs the faults of sources that are not used, and the source of the plan. Logs the
/// plan itself and its warnings only if the agent or another program applies the plan
/// (`is_carried_out`).
pub(super) fn announce(choice: &Choice, is_carried_out: bool) {
    for fault in &choice.faults {
        tracing::error!("{fault}");
    }
    tracing::info!("source: {}", choice.description());
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
