//! The JSON that goes over the wire to Ironic, and back.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http_client::Answer;

/// `GET /`: of its many keys only the version matters.
#[derive(Debug, Deserialize)]
pub(super) struct Root {
    pub(super) default_version: RootVersion,
}

/// The newest API version that the service speaks, as `1.115`.
#[derive(Debug, Deserialize)]
pub(super) struct RootVersion {
    pub(super) version: String,
}

/// `GET /v1/lookup`: the node that this machine is, and settings for the agent.
#[derive(Debug, Clone, Deserialize)]
pub struct LookupAnswer {
    /// The node, as much of it as an agent may see.
    pub node: Value,
    /// Settings that override those of the boot.
    pub config: LookupConfig,
}

/// `config` of a lookup answer. Unknown keys are ignored: conductors add some
/// with every release.
#[derive(Debug, Clone, Deserialize)]
pub struct LookupConfig {
    /// Seconds in which a heartbeat is expected.
    pub heartbeat_timeout: f64,
    /// The token, or asterisks if it was issued before.
    #[serde(default)]
    pub agent_token: Option<String>,
}

impl LookupConfig {
    /// [`LookupConfig::heartbeat_timeout`] within bounds: a service that says zero
    /// would be flooded, one that says a year would never hear of us again.
    pub fn heartbeat_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.heartbeat_timeout.clamp(5.0, 3600.0))
    }
}

/// `POST /v1/heartbeat/UUID`
#[derive(Debug, Serialize)]
pub(super) struct Heartbeat<'a> {
    pub(super) callback_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_verify_ca: Option<&'a str>,
}

/// `HTTP 404: Node not found`
pub(crate) fn fault(answer: &Answer) -> String {
    format!("HTTP {}: {}", answer.status, error_text(&answer.body))
}

/// The text of an error answer: `error_message` holds an object, or JSON text
/// of one, with `faultstring` or `title`; anything else is shown as it is.
pub(super) fn error_text(body: &str) -> String {
    let parsed: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let inner = match &parsed["error_message"] {
        Value::String(text) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        other => other.clone(),
    };
    let text = inner["faultstring"]
        .as_str()
        .or_else(|| inner["title"].as_str())
        .or_else(|| inner.as_str())
        .unwrap_or(body);
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_in_all_their_wrappings() {
        for (body, expected) in [
            (
                r#"{"error_message": {"faultcode": "Client", "faultstring": "Node locked"}}"#,
                "Node locked",
            ),
            (
                r#"{"error_message": "{\"faultstring\": \"Not found\"}"}"#,
                "Not found",
            ),
            (r#"{"error_message": {"title": "Bad"}}"#, "Bad"),
            (r#"{"error_message": "plain"}"#, "plain"),
            ("<html>502</html>", "<html>502</html>"),
        ] {
            assert_eq!(error_text(body), expected);
        }
    }

    #[test]
    fn lookup_answer_of_a_real_conductor_is_read() {
        let answer: LookupAnswer = serde_json::from_str(
            r#"{"node": {"uuid": "6d85"}, "config": {"metrics": {}, "heartbeat_timeout": 300,
                "agent_token": "abc", "agent_token_required": true, "something_new": [1]}}"#,
        )
        .unwrap();
        assert_eq!(answer.config.heartbeat_timeout(), Duration::from_secs(300));
        for (said, taken) in [(0.0, 5), (-1.0, 5), (1e12, 3600), (30.5, 30)] {
            let config = LookupConfig {
                heartbeat_timeout: said,
                agent_token: None,
            };
            assert_eq!(config.heartbeat_timeout().as_secs(), taken);
        }
        assert_eq!(answer.config.agent_token.as_deref(), Some("abc"));
    }
}
