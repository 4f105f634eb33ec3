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

/// Sent as `agent_version`. Ironic compares it with 3.0 to know what an agent
/// can do, so it is the version of the protocol that we speak, not ours.
pub const AGENT_VERSION: &str = "13.0.0";

/// A heartbeat never follows another sooner than this, even a forced one.
const CLOSEST: Duration = Duration::from_secs(5);

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

/// Sends heartbeats until the future is dropped: three in `timeout`, roughly,
/// after an error sooner, and right after `forced` is rung.
pub async fn beat_forever(
    service: &Service,
    uuid: &str,
    callback: &Callback,
    timeout: Duration,
    forced: &Notify,
) -> Infallible {
    let body = Heartbeat {
        callback_url: &callback.url,
        agent_token: service.takes_token().then_some(callback.token.as_str()),
        agent_version: service.takes_agent_version().then_some(AGENT_VERSION),
        agent_verify_ca: callback
            .certificate
            .as_deref()
            .filter(|_| service.takes_certificate()),
    };
    // A forced heartbeat stays wanted until one has succeeded.
    let mut wanted = false;
    let mut first = true;
    loop {
        let sent = Instant::now();
        let pause = match service.post_heartbeat(uuid, &body).await {
            Ok(answer) if answer.status == 202 => {
                if first {
                    tracing::info!("heartbeat accepted by {}", service.base());
                    first = false;
                }
                wanted = false;
                timeout.mul_f64(between(0.3, 0.6))
            }
            outcome => {
                let fault = outcome.map_or_else(|fault| fault, |answer| wire::fault(&answer));
                let pause = CLOSEST.mul_f64(between(1.0, 2.0));
                tracing::warn!(
                    "heartbeat to {}: {fault}; next in {:.0} s",
                    service.base(),
                    pause.as_secs_f64()
                );
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
