//! Sends heartbeats: they report to Ironic that the agent is alive, and the URL at which
//! Ironic can call it.
//!
//! A conductor learns only from a heartbeat that a command has ended. So the agent sends
//! the next heartbeat as soon as a command ends.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use landfall_http_client::Answer;
use landfall_report::failure::split_remedy;
use landfall_report::status;
use landfall_sys::backoff::{Backoff, between};
use landfall_sys::memory_use;
use tokio::sync::Notify;

use super::service::{self, Service};
use super::transport::Unanswered;
use super::wire::{self, Heartbeat};

/// The value of `agent_version`. Ironic compares the value with 3.0 to find what the
/// agent supports. So it is not Landfall's version, but the version of Ironic's agent
/// whose protocol Landfall uses.
pub const AGENT_VERSION: &str = "13.0.0";

/// The maximum length of the status message in characters. The message is stored in the
/// node's record, which Ironic includes in many answers.
const MESSAGE_LIMIT: usize = 255;

/// The minimum time between a heartbeat and a triggered one after it.
const CLOSEST: Duration = Duration::from_secs(5);

/// The longest pause after a rejection. Ironic's answer changes only after an operator
/// changes the node, and the conductor logs each attempt.
const LONGEST_AFTER_REJECTION: Duration = Duration::from_secs(300);

/// The text of the answer with status 400 if no conductor is running. The API sends
/// `NoValidHost` with this status (ironic/api/controllers/v1/ramdisk.py).
const NO_CONDUCTOR: &str = "No valid host";

/// The number of heartbeats between two log lines: two hours with Ironic's usual timeout.
/// The line shows that a waiting agent still works and how much memory it uses.
const LOGGED_EVERY: u32 = 50;

/// The content of a heartbeat. Ironic stores the URL and the certificate. As long as it
/// has them, it rejects a heartbeat with a different URL or certificate.
#[derive(Clone)]
pub struct Callback {
    /// The URL of the agent's API: scheme, host and port, without a path.
    pub url: String,
    /// The certificate of the agent's API in PEM, if the agent made it itself.
    pub certificate: Option<String>,
    pub token: String,
}

/// `heartbeat_timeout` within limits. With a timeout of zero the agent would flood
/// Ironic; with a timeout of a year it would practically send no further heartbeat.
fn within_bounds(timeout: Duration) -> Duration {
    timeout.clamp(Duration::from_secs(1), Duration::from_secs(3600))
}

/// Sends heartbeats until the future is dropped. The pause between two heartbeats is 0.3
/// to 0.6 of `timeout`, and 5 s to 10 s after a temporary error. `forced` triggers a
/// heartbeat, at least 5 s after the previous one. The agent never stops sending, because
/// Ironic may accept heartbeats again: when the node is unlocked or enrolled again, or
/// when a worker is free. While Ironic rejects the heartbeats, the pauses grow.
///
/// If Ironic accepts a status, each heartbeat has a line of text with the machine's
/// status at that time.
///
/// # Errors
/// If the body cannot be written as JSON, which would be a bug in the agent.
pub async fn beat_forever(
    service: &Service,
    uuid: &str,
    callback: &Callback,
    timeout: Duration,
    forced: &Notify,
) -> Result<Infallible, serde_json::Error> {
    let timeout = within_bounds(timeout);
    // A triggered heartbeat stays pending until a heartbeat has succeeded.
    let mut wanted = false;
    let mut accepted: u32 = 0;
    let mut pace = Pace::new(timeout);
    loop {
        let sent = Instant::now();
        service.make_version_known_once().await;
        let message = status_message(service);
        let body = body(service, callback, message.as_deref())?;
        let outcome = service.post_heartbeat(uuid, body, message.is_some()).await;
        let verdict = Verdict::of(&outcome);
        let pause = pace.pause_after(&verdict);
        if let Verdict::Accepted = verdict {
            accepted = accepted.saturating_add(1);
            log_accepted(accepted, service);
            wanted = false;
        } else {
            report(service, outcome, &verdict, pause);
        }
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

fn log_accepted(count: u32, service: &Service) {
    if count == 1 {
        tracing::info!("heartbeat accepted by {}", service.base());
    }
    if count.is_multiple_of(LOGGED_EVERY)
        && let Some((resident, peak)) = memory_use::resident_and_peak_kib()
    {
        tracing::info!(
            "heartbeat {count} accepted; agent memory {resident} KiB resident, peak {peak} KiB"
        );
    }
}

/// The machine's status as a line of text, without secrets. `None` if Ironic does not
/// accept a status, and before the first step.
fn status_message(service: &Service) -> Option<String> {
    let takes_it = service.takes_status_message();
    let words = takes_it.then(|| status::now().in_words()).flatten()?;
    Some(words.chars().take(MESSAGE_LIMIT).collect())
}

pub(super) fn body(
    service: &Service,
    callback: &Callback,
    status_message: Option<&str>,
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Heartbeat {
        callback_url: &callback.url,
        agent_token: service.takes_token().then_some(callback.token.as_str()),
        agent_version: service.takes_agent_version().then_some(AGENT_VERSION),
        agent_verify_ca: callback
            .certificate
            .as_deref()
            .filter(|_| service.takes_certificate()),
        agent_status_message: status_message,
    })
}

/// Ironic's reaction to a heartbeat.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    /// The conductor is working on the node. This is normal during an operation.
    Locked,
    /// A retry may succeed.
    Failed,
    /// Ironic rejects the heartbeat until an operator changes something. Contains a hint
    /// for the operator.
    Rejected(&'static str),
}

impl Verdict {
    fn of(outcome: &Result<Answer, Unanswered>) -> Self {
        let Ok(answer) = outcome else {
            return Self::Failed;
        };
        match answer.status {
            service::ACCEPTED => Self::Accepted,
            409 => Self::Locked,
            400 if answer.wants_tls() || wire::fault(answer).contains(NO_CONDUCTOR) => Self::Failed,
            400 => Self::Rejected(
                "Ironic does not accept this agent for this node: Ironic forgets an agent after a failed operation -- power the node off and on through Ironic",
            ),
            401 | 403 => Self::Rejected(
                "Ironic accepts heartbeats without credentials, so this Ironic does not serve agents ([api]enable_ramdisk_endpoints), or a proxy or another service answers -- check ipa-api-url, the proxy settings, and the access rules in front of Ironic",
            ),
            404 => Self::Rejected(
                "Ironic does not have this node any more, or another service answers -- enrol the node again or check ipa-api-url, then reboot the machine",
            ),
            _ => Self::Failed,
        }
    }
}

/// Determines the pause until the next heartbeat from the verdicts so far.
struct Pace {
    timeout: Duration,
    rejected: Backoff,
}

impl Pace {
    fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            rejected: Backoff::new(CLOSEST * 2, LONGEST_AFTER_REJECTION),
        }
    }

    fn pause_after(&mut self, verdict: &Verdict) -> Duration {
        if let Verdict::Rejected(_) = verdict {
            return self.rejected.pause();
        }
        self.rejected.reset();
        match verdict {
            Verdict::Accepted => self.timeout.mul_f64(between(0.3, 0.6)),
            _ => CLOSEST.mul_f64(between(1.0, 2.0)),
        }
    }
}

fn report(
    service: &Service,
    outcome: Result<Answer, Unanswered>,
    verdict: &Verdict,
    pause: Duration,
) {
    let next = format!("next in {:.0} s", pause.as_secs_f64());
    let answer = match outcome {
        Ok(answer) => format!("heartbeat to {}: {}", service.base(), wire::fault(&answer)),
        Err(fault) => format!("heartbeat: {fault}"),
    };
    match verdict {
        Verdict::Accepted => {}
        Verdict::Locked => tracing::info!("{answer} (the node is locked); {next}"),
        Verdict::Failed => {
            let (answer, remedy) = split_remedy(&answer);
            tracing::warn!("{answer}; {next}{remedy}");
        }
        Verdict::Rejected(why) => {
            let (why, remedy) = split_remedy(why);
            tracing::error!("{answer}; {why}; {next}{remedy}");
        }
    }
}

#[cfg(test)]
mod tests {
    use landfall_http_client::fixtures;

    use super::*;

    #[test]
    fn timeouts_out_of_reason_are_brought_in() {
        for (requested, taken) in [(0, 1), (30, 30), (300, 300), (1 << 40, 3600)] {
            assert_eq!(
                within_bounds(Duration::from_secs(requested)).as_secs(),
                taken
            );
        }
    }

    fn answer(status: u16) -> Result<Answer, Unanswered> {
        Ok(fixtures::answer(status, ""))
    }

    fn without_conductor() -> Result<Answer, Unanswered> {
        Ok(fixtures::answer(
            400,
            r#"{"error_message": {"faultstring": "No valid host was found. Reason: No conductor service registered which supports driver redfish."}}"#,
        ))
    }

    #[test]
    fn pauses_grow_while_ironic_rejects_and_start_again_after() {
        let mut pace = Pace::new(Duration::from_secs(30));
        let mut pause = |outcome| pace.pause_after(&Verdict::of(&outcome)).as_secs_f64();
        for (outcome, least, most) in [
            (answer(202), 9.0, 18.0),
            (answer(409), 5.0, 10.0),
            (Err(Unanswered::NoUrl), 5.0, 10.0),
            (answer(404), 5.0, 10.0),
            (answer(403), 10.0, 20.0),
            (answer(401), 20.0, 40.0),
            (answer(400), 40.0, 80.0),
            (answer(404), 80.0, 160.0),
            (answer(404), 150.0, 300.0),
            (answer(404), 150.0, 300.0),
            // This answer comes from a proxy in front of an Ironic that restarts.
            (answer(503), 5.0, 10.0),
            (answer(404), 5.0, 10.0),
            (answer(400), 10.0, 20.0),
            (without_conductor(), 5.0, 10.0),
        ] {
            let text = format!("{outcome:?}");
            let found = pause(outcome);
            assert!((least..=most).contains(&found), "{text}: {found}");
        }
    }

    #[test]
    fn a_rejection_says_what_to_check() {
        for (status, word) in [(401, "ipa-api-url"), (403, "proxy"), (404, "enrol")] {
            match Verdict::of(&answer(status)) {
                Verdict::Rejected(why) => assert!(why.contains(word), "{status}: {why}"),
                other => panic!("{status}: {other:?}"),
            }
        }
    }
}
