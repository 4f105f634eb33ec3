//! Which node am I? Asked until Ironic knows.

use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::agent_token::AgentToken;
use super::service::Service;
use super::wire::{LookupAnswer, fault};
use crate::backoff::Backoff;
use crate::http_client::Answer;

/// The longest wait between two lookups, as with the original.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The extra wait while the node is locked: 5 s, 10 s, then 30 s each time.
const LOCKED: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// By what Ironic can recognise this machine.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The MAC addresses of its NICs.
    pub macs: Vec<String>,
    /// Its node UUID, if an inspection has told.
    pub node_uuid: Option<String>,
}

impl Query {
    fn to_text(&self) -> String {
        let macs = self.macs.join(",");
        let mut text = format!("addresses={}", utf8_percent_encode(&macs, NON_ALPHANUMERIC));
        if let Some(uuid) = &self.node_uuid {
            text.push_str("&node_uuid=");
            text.extend(utf8_percent_encode(uuid, NON_ALPHANUMERIC));
        }
        text
    }
}

/// Asks until Ironic knows the node and a token is at hand; returns the answer
/// and the token. `patience` is how long it may take before that is reported
/// as a failure; the asking goes on, since a node may be enrolled any time.
pub async fn look_up_until_known(
    service: &Service,
    query: &Query,
    token: &mut AgentToken,
    interval: Duration,
    patience: Duration,
) -> (LookupAnswer, String) {
    let query_text = query.to_text();
    let mut backoff = Backoff::new(interval.max(Duration::from_millis(100)), LONGEST_PAUSE);
    let mut locked = LOCKED.iter().chain(std::iter::repeat(&LOCKED[2]));
    let mut since = Instant::now();
    tracing::info!("looking up {} at {}", query.macs.join(", "), service.base());
    loop {
        let mut extra = Duration::ZERO;
        let fault = match service.get_lookup(&query_text).await {
            Ok(answer) if answer.status == 200 => match read(&answer) {
                Ok(found) => match token.learn(found.config.agent_token.as_deref()) {
                    Ok(secret) => {
                        let secret = secret.to_owned();
                        return (found, secret);
                    }
                    Err(no_token) => no_token.to_string(),
                },
                Err(fault) => fault,
            },
            Ok(answer) => {
                if answer.status == 409 {
                    extra = locked.next().copied().unwrap_or_default();
                }
                explain(&answer)
            }
            Err(fault) => fault,
        };
        let pause = extra + backoff.pause();
        tracing::warn!(
            "lookup at {}: {fault}; asking again in {:.0} s",
            service.base(),
            pause.as_secs_f64().ceil()
        );
        if since.elapsed() > patience {
            tracing::error!(
                "lookup: no node after {} s -- enrol a port with one of these MAC addresses, or start its inspection or deployment: {}",
                patience.as_secs(),
                query.macs.join(", ")
            );
            since = Instant::now();
        }
        tokio::time::sleep(pause).await;
    }
}

pub(crate) fn read(answer: &Answer) -> Result<LookupAnswer, String> {
    let found: LookupAnswer = serde_json::from_str(&answer.body)
        .map_err(|error| format!("answer is no node with its configuration: {error}"))?;
    if found.node["uuid"].as_str().is_none() {
        return Err("answer has no node.uuid".to_owned());
    }
    Ok(found)
}

fn explain(answer: &Answer) -> String {
    match answer.status {
        404 => format!(
            "{} (Ironic has no node with these MAC addresses that waits for its agent)",
            fault(answer)
        ),
        409 => format!("{} (the node is locked)", fault(answer)),
        _ => fault(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_encoded_as_the_original_does() {
        let query = Query {
            macs: vec!["52:54:00:00:00:02".into(), "52:54:00:00:00:03".into()],
            node_uuid: Some("6d85".into()),
        };
        assert_eq!(
            query.to_text(),
            "addresses=52%3A54%3A00%3A00%3A00%3A02%2C52%3A54%3A00%3A00%3A00%3A03&node_uuid=6d85"
        );
    }

    #[test]
    fn answers_without_a_node_are_faults() {
        for body in [
            "",
            "{}",
            r#"{"node":{},"config":{"heartbeat_timeout":300}}"#,
        ] {
            let answer = Answer {
                status: 200,
                date: None,
                body: body.to_owned(),
            };
            assert!(read(&answer).is_err(), "{body}");
        }
    }
}
