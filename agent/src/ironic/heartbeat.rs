//! Tells Ironic that the agent is alive and where it can be called.
//!
//! A conductor learns of a command's end by a heartbeat and by nothing else,
//! so the end of a command brings the next one forward.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::service::Service;
use super::wire::{self, Heartbeat};
use crate::backoff::between;
use crate::http_client::Answer;
use crate::memory_use;

/// Sent as `agent_version`. Ironic compares it with 3.0 to know what an agent
/// can do, so it is the version of the protocol that we speak, not ours.
pub const AGENT_VERSION: &str = "13.0.0";

/// A heartbeat never follows another sooner than this, even a forced one.
const CLOSEST: Duration = Duration::from_secs(5);

/// Two hours with Ironic's usual timeout: an agent that waits for long says
/// that it is well, and how much memory it takes.
const TOLD_EVERY: u32 = 50;

/// What a heartbeat says; it must not change while Ironic remembers the agent.
#[derive(Clone)]
pub struct Callback {
    /// Where the agent's API is: scheme, host, port, no path.
    pub url: String,
    /// The agent's certificate in PEM, if its API speaks TLS.
    pub certificate: Option<String>,
    /// The token that Ironic issued.
    pub token: String,
}

/// `heartbeat_timeout` within bounds: a service that says zero would be flooded,
/// one that says a year would never hear of us again.
fn within_bounds(timeout: Duration) -> Duration {
    timeout.clamp(Duration::from_secs(1), Duration::from_secs(3600))
}

/// Sends heartbeats until the future is dropped: three in `timeout`, roughly,
/// after an error sooner, and right after `forced` is rung. Whatever Ironic
/// answers, the next one is sent: a node that is locked, redeployed or short of
/// workers takes it later.
///
/// # Errors
/// If the body cannot be written as JSON: a bug of ours.
pub async fn beat_forever(
    service: &Service,
    uuid: &str,
    callback: &Callback,
    timeout: Duration,
    forced: &Notify,
) -> Result<Infallible, serde_json::Error> {
    let body = body(service, callback)?;
    let timeout = within_bounds(timeout);
    // A forced heartbeat stays wanted until one has succeeded.
    let mut wanted = false;
    let mut accepted: u32 = 0;
    loop {
        let sent = Instant::now();
        let pause = match service.post_heartbeat(uuid, body.clone()).await {
            Ok(answer) if answer.status == 202 => {
                accepted = accepted.saturating_add(1);
                tell_accepted(accepted, service);
                wanted = false;
                timeout.mul_f64(between(0.3, 0.6))
            }
            outcome => {
                let pause = CLOSEST.mul_f64(between(1.0, 2.0));
                report(service, outcome, pause);
                pause
            }
        };
        if !wanted {
            tokio::select! {
                () = tokio::time::sleep(pause) => continue,
                () = forced.notified() => wanted = true,
            }
            tokio::time::sleep(CLOSEST.saturating_sub(sent.elapsed())).await;
        } else {
            tokio::time::sleep(pause).await;
        }
    }
}

fn tell_accepted(count: u32, service: &Service) {
    if count == 1 {
        tracing::info!("heartbeat accepted by {}", service.base());
    }
    if count.is_multiple_of(TOLD_EVERY)
        && let Some((resident, peak)) = memory_use::resident_and_peak_kib()
    {
        tracing::info!(
            "heartbeat {count} accepted; agent memory {resident} KiB resident, peak {peak} KiB"
        );
    }
}

pub(super) fn body(service: &Service, callback: &Callback) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Heartbeat {
        callback_url: &callback.url,
        agent_token: service.takes_token().then_some(callback.token.as_str()),
        agent_version: service.takes_agent_version().then_some(AGENT_VERSION),
        agent_verify_ca: callback
            .certificate
            .as_deref()
            .filter(|_| service.takes_certificate()),
    })
}

fn report(service: &Service, outcome: Result<Answer, String>, pause: Duration) {
    let next = format!("next in {:.0} s", pause.as_secs_f64());
    match outcome {
        // The conductor is at work on this node: what we are waiting for.
        Ok(answer) if answer.status == 409 => tracing::info!(
            "heartbeat to {}: {} (the node is locked); {next}",
            service.base(),
            wire::fault(&answer)
        ),
        Ok(answer) => tracing::warn!(
            "heartbeat to {}: {}; {next}",
            service.base(),
            wire::fault(&answer)
        ),
        Err(fault) => tracing::warn!("heartbeat: {fault}; {next}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_out_of_reason_are_brought_in() {
        for (said, taken) in [(0, 1), (30, 30), (300, 300), (1 << 40, 3600)] {
            assert_eq!(within_bounds(Duration::from_secs(said)).as_secs(), taken);
        }
    }
}
