//! Follows the activation of a NetworkManager profile.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::Instant;
use zbus::OwnedObjectPath;

use super::bus::Bus;

/// NetworkManager's name on the bus.
pub(super) const SERVICE: &str = "org.freedesktop.NetworkManager";

/// The D-Bus interface of an active connection.
pub(super) const ACTIVE_CONNECTION: &str = "org.freedesktop.NetworkManager.Connection.Active";

/// The time limit of an activation. NetworkManager's own limit for DHCP is 45 s. A bond
/// on a switch that blocks its ports for 30 s needs even more time.
pub(super) const ACTIVATION_LIMIT: Duration = Duration::from_secs(90);

/// The result of an activation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Activated,
    /// The activation failed for this reason.
    GivenUp(String),
    /// The time limit is over, and the activation has not finished.
    Activating,
}

/// Follows an active connection by its signals until it is activated, has failed, or the
/// time is over.
pub(super) async fn follow(bus: &Bus, path: OwnedObjectPath) -> zbus::Result<Outcome> {
    let end = Instant::now() + ACTIVATION_LIMIT;
    let active = bus.object(SERVICE, path, ACTIVE_CONNECTION).await?;
    // Subscribe before the state is read, so that no change is missed in between.
    let mut changes = active.receive_signal("StateChanged").await?;
    let state: u32 = match active.get_property("State").await {
        Ok(state) => state,
        // The connection appeared and disappeared again.
        Err(_) => return Ok(Outcome::GivenUp("it has disappeared again".to_owned())),
    };
    if let Some(outcome) = outcome(state, 0) {
        return Ok(outcome);
    }
    while let Ok(change) = tokio::time::timeout_at(end, changes.next()).await {
        let Some(change) = change else {
            return Ok(Outcome::GivenUp("NetworkManager is gone".to_owned()));
        };
        let (state, reason): (u32, u32) = change.body().deserialize()?;
        if let Some(outcome) = outcome(state, reason) {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Activating)
}

/// The outcome that corresponds to an `NMActiveConnectionState`. `None` while the
/// connection may still be activated or fail.
fn outcome(state: u32, reason: u32) -> Option<Outcome> {
    match state {
        2 => Some(Outcome::Activated),
        3 | 4 => Some(Outcome::GivenUp(why(reason).to_owned())),
        _ => None,
    }
}

/// The meaning of NetworkManager's `NMActiveConnectionStateReason`, for the operator.
fn why(reason: u32) -> &'static str {
    match reason {
        2 => "a user has disconnected it",
        3 => "the device is disconnected",
        4 => "the service behind it has stopped",
        5 => "the IP configuration is not valid",
        6 => "the activation has timed out",
        7 | 8 => "the service behind it does not start",
        9 => "secrets are missing",
        10 => "the secrets are rejected",
        11 => "the profile is deleted",
        12 => "what it depends on has failed",
        13 => "the device cannot be created",
        14 => "the device is gone",
        _ => "NetworkManager does not say why",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_states_are_an_end() {
        let given_up = |text: &str| Some(Outcome::GivenUp(text.to_owned()));
        for (state, reason, expected) in [
            (0, 0, None),
            (1, 1, None),
            (2, 1, Some(Outcome::Activated)),
            (3, 6, given_up("the activation has timed out")),
            (4, 14, given_up("the device is gone")),
            (4, 99, given_up("NetworkManager does not say why")),
        ] {
            assert_eq!(outcome(state, reason), expected, "{state} {reason}");
        }
    }
}
