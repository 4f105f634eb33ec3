//! Defines the JSON of requests to Ironic and of its answers.

use landfall_http_client::Answer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::html_text;

/// The meaning of status 403. It does not mean that credentials are missing, because
/// Ironic requires none from an agent.
pub(super) const FORBIDDEN: &str = " (this Ironic does not serve agents: [api]enable_ramdisk_endpoints is off there, or a proxy in front of it refuses the request)";
/// What an operator can do about status 403.
pub(super) const FORBIDDEN_REMEDY: &str =
    "check ipa-api-url, [api]enable_ramdisk_endpoints in ironic.conf, and the proxy";

/// The answer to `GET /`. The agent uses only the version.
#[derive(Debug, Deserialize)]
pub(super) struct Root {
    pub(super) default_version: RootVersion,
}

/// The newest API version that the service supports, for example `1.115`.
#[derive(Debug, Deserialize)]
pub(super) struct RootVersion {
    pub(super) version: String,
}

/// The answer to `GET /v1/lookup`: the node of this machine, and settings for the
/// agent.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupAnswer {
    pub uuid: String,
    /// The fields of the node that an agent may see.
    pub node: Value,
    /// An object with settings that override those that the agent was booted with. New
    /// releases of Ironic add keys.
    pub config: Value,
}

/// Why the answer to a lookup cannot be used. Does not show the body, because the body
/// contains the token.
#[derive(Debug, thiserror::Error)]
pub enum LookupAnswerError {
    /// The answer to the lookup is not JSON, for example the page of a proxy. Check
    /// `ipa-api-url` and the proxy settings.
    #[error("expected a node as JSON, found another text: {0}")]
    Json(serde_json::Error),
    /// Ironic's answer to the lookup names no node. Another service or a proxy may answer;
    /// check `ipa-api-url`.
    #[error("answer has no node.uuid")]
    NoUuid,
    /// Ironic's answer to the lookup has no settings for the agent. Another service or a proxy
    /// may answer; check `ipa-api-url`.
    #[error("answer has no config")]
    NoConfig,
}

impl LookupAnswer {
    /// Reads the body of the answer. Ironic before 4.2 sent no `config`. It sent its only
    /// setting, `heartbeat_timeout`, next to the node.
    ///
    /// # Errors
    /// If the body is not JSON, if the node, a valid UUID or the settings are missing.
    pub fn read(body: &str) -> Result<Self, LookupAnswerError> {
        let mut answer: Value = serde_json::from_str(body).map_err(LookupAnswerError::Json)?;
        let mut take = |key: &str| answer.get_mut(key).map(Value::take).unwrap_or_default();
        let node = take("node");
        let uuid = node["uuid"]
            .as_str()
            .filter(|uuid| is_path_segment(uuid))
            .ok_or(LookupAnswerError::NoUuid)?
            .to_owned();
        let config = match take("config") {
            config @ Value::Object(_) => config,
            _ => match take("heartbeat_timeout") {
                timeout @ Value::Number(_) => json!({"heartbeat_timeout": timeout}),
                _ => return Err(LookupAnswerError::NoConfig),
            },
        };
        Ok(Self { uuid, node, config })
    }

    /// The token, or asterisks if Ironic has already sent it. `None` if the settings
    /// contain no token.
    pub fn agent_token(&self) -> Option<&str> {
        self.config["agent_token"].as_str()
    }
}

/// Whether the UUID can be a part of a URL: it has only ASCII letters, digits and
/// hyphens. Ironic's own UUIDs have no other characters.
fn is_path_segment(uuid: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&uuid.len()) && uuid.bytes().all(plain)
}

/// The body of `POST /v1/heartbeat/UUID`.
#[derive(Debug, Serialize)]
pub(super) struct Heartbeat<'a> {
    pub(super) callback_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_verify_ca: Option<&'a str>,
    /// A description of the agent's current work for operators: Ironic stores it in the
    /// node's `driver_internal_info`. Ironic's agent does not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_status_message: Option<&'a str>,
}

/// What an operator can do if Ironic uses https but its URL begins with `http://`.
const TLS_REMEDY: &str = "write https:// in the URL (ipa-api-url, or ipa-inspection-callback-url); if the site has a CA of its own, give it as CA file (--ca-file of the builder)";

/// Formats an error answer: `HTTP 404: Node not found`. Appends a remedy if the agent
/// sent plain HTTP to a TLS port.
pub fn fault(answer: &Answer) -> String {
    let (status, text) = (answer.status, error_text(&answer.body));
    match answer.wants_tls() {
        false => format!("HTTP {status}: {text}"),
        true => format!(
            "HTTP {status}: {text} (the server speaks https there, and the URL says http://) -- {TLS_REMEDY}"
        ),
    }
}

/// The text of an error answer, in one line of at most 200 characters. It comes from the
/// member `error_message`, or from the whole body if there is no such member: the
/// `faultstring` or `title` of an object or of the JSON text of an object, or a plain
/// text. Otherwise it is the beginning of the body. HTML markup is removed, because
/// Ironic puts any error body into `error_message`, even the page of a web server.
pub(super) fn error_text(body: &str) -> String {
    let parsed: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let outer = parsed.get("error_message").unwrap_or(&parsed);
    let inner = match outer {
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
    let text = html_text::text_of(text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use landfall_http_client::fixtures::answer;

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
            (r#"{"faultcode": "Client", "faultstring": "bare"}"#, "bare"),
            (
                r#"{"error_message": {"x": 1}}"#,
                r#"{"error_message": {"x": 1}}"#,
            ),
            ("two\n  lines", "two lines"),
            ("<html>502</html>", "502"),
            (
                r#"{"error_message": "<html><title>a</title><h1>Bad gateway</h1></html>"}"#,
                "a Bad gateway",
            ),
            (
                r#"{"error_message": {"faultstring": "<class 'E'>: lost connection"}}"#,
                "<class 'E'>: lost connection",
            ),
        ] {
            assert_eq!(error_text(body), expected);
        }
    }

    #[test]
    fn plain_http_to_a_tls_port_is_reported_with_a_remedy() {
        let nginx = "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\
                     <body><center>The plain HTTP request was sent to HTTPS port</center></body></html>";
        for (status, body, expected) in [
            (
                400,
                nginx,
                "HTTP 400: The plain HTTP request was sent to HTTPS port (the server speaks https \
                 there, and the URL says http://) -- write https:// in the URL (ipa-api-url, ",
            ),
            (400, "Bad Request", "HTTP 400: Bad Request"),
            (404, "Node not found", "HTTP 404: Node not found"),
        ] {
            let found = fault(&answer(status, body));
            assert!(found.starts_with(expected), "{found}");
            assert_eq!(found.contains(" -- "), body == nginx, "{found}");
        }
    }

    #[test]
    fn lookup_answers_old_and_new_are_read() {
        let answer = LookupAnswer::read(
            r#"{"node": {"uuid": "6d85"}, "config": {"metrics": {}, "heartbeat_timeout": 300,
                "agent_token": "abc", "agent_token_required": true, "something_new": [1]}}"#,
        )
        .unwrap();
        assert_eq!(answer.uuid, "6d85");
        assert_eq!(answer.agent_token(), Some("abc"));
        let old = LookupAnswer::read(r#"{"node": {"uuid": "6d85"}, "heartbeat_timeout": 30}"#);
        assert_eq!(old.unwrap().config, json!({"heartbeat_timeout": 30}));
    }

    #[test]
    fn answers_without_a_node_or_its_config_are_faults() {
        for (body, expected) in [
            ("", "expected a node as JSON"),
            ("[]", "no node.uuid"),
            ("{}", "no node.uuid"),
            (
                r#"{"node":{},"config":{"heartbeat_timeout":300}}"#,
                "no node.uuid",
            ),
            (r#"{"node":{"uuid":"../x"},"config":{}}"#, "no node.uuid"),
            (r#"{"node":{"uuid":"6d85"}}"#, "no config"),
            (r#"{"node":{"uuid":"6d85"},"config":null}"#, "no config"),
            (r#"{"node":{"uuid":"6d85"},"config":[]}"#, "no config"),
        ] {
            let fault = LookupAnswer::read(body).unwrap_err().to_string();
            assert!(fault.contains(expected), "{body}: {fault}");
        }
    }
}
