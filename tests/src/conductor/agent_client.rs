//! The conductor's client for the agent's own API.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Client, Method, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};

/// The default of Ironic's `[agent]command_timeout`.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// The default of Ironic's `[agent]max_command_attempts`. The conductor retries if it
/// gets no answer, not after an answer with an error.
const ATTEMPTS: usize = 3;

const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);

/// An entry of the agent's command list.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) status: String,
    pub(super) result: Value,
    pub(super) error: Value,
}

impl Command {
    fn from_json(value: &Value) -> Result<Self> {
        let members: Vec<&str> = value
            .as_object()
            .with_context(|| format!("expected a command object, found {value}"))?
            .keys()
            .map(String::as_str)
            .collect();
        // A command must have exactly these members: a client of Ironic's API sees them
        // unchanged.
        const MEMBERS: [&str; 5] = [
            "command_error",
            "command_name",
            "command_result",
            "command_status",
            "id",
        ];
        let mut sorted = members.clone();
        sorted.sort_unstable();
        ensure!(
            sorted == MEMBERS,
            "expected the members {MEMBERS:?}, found {members:?}"
        );
        let text = |key: &str| {
            value[key]
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("{key} is no text: {value}"))
        };
        Ok(Self {
            name: text("command_name")?,
            status: text("command_status")?,
            result: value["command_result"].clone(),
            error: value["command_error"].clone(),
        })
    }

    /// The text that Ironic puts into `last_error`.
    pub(super) fn error_text(&self) -> String {
        ["details", "message"]
            .iter()
            .find_map(|key| self.error[key].as_str().filter(|text| !text.is_empty()))
            .unwrap_or("no reason given")
            .to_owned()
    }
}

/// An HTTP client that trusts only the agent with this PEM certificate.
pub fn trusting(verify_ca: &str) -> Result<Client> {
    let certificate = CertificateDer::from_pem_slice(verify_ca.as_bytes())
        .map_err(|error| anyhow::anyhow!("agent_verify_ca is no PEM certificate: {error}"))?;
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate)
        .context("agent_verify_ca as trust anchor")?;
    // The client offers only TLS 1.3: the strictest value of Ironic's
    // `[agent]tls_minimum_version`.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent("python-requests/2.34.2")
        .timeout(COMMAND_LIMIT)
        .no_proxy()
        .build()
        .context("a client for the agent")
}

/// A client for one agent. It trusts only that agent's certificate.
pub(super) struct AgentClient {
    http: Client,
    base: String,
    token: String,
}

impl AgentClient {
    /// `verify_ca` is the PEM certificate from the heartbeat.
    pub(super) fn new(callback_url: &str, verify_ca: &str, token: &str) -> Result<Self> {
        let http = trusting(verify_ca)?;
        Ok(Self {
            http,
            base: callback_url.to_owned(),
            token: token.to_owned(),
        })
    }

    async fn send(&self, method: Method, query: &str, body: Option<String>) -> Result<Value> {
        let url = format!(
            "{}/v1/commands/?{query}agent_token={}",
            self.base, self.token
        );
        let mut last_error = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(ATTEMPT_PAUSE).await;
            }
            let mut request = self
                .http
                .request(method.clone(), &url)
                .header("Accept", "*/*")
                .header("Content-Type", "application/json");
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            match request.send().await {
                Ok(response) => return accepted(response).await,
                Err(error) => last_error = Some(error.without_url()),
            }
        }
        Err(last_error.map_or_else(|| anyhow::anyhow!("no attempt"), Into::into))
    }

    /// Sends a command. With `wait` the agent answers when the command has ended.
    pub(super) async fn command(&self, name: &str, params: &Value, wait: bool) -> Result<Command> {
        let body = json!({"name": name, "params": params}).to_string();
        let answer = self
            .send(Method::POST, &format!("wait={wait}&"), Some(body))
            .await
            .with_context(|| format!("command {name}"))?;
        let command = Command::from_json(&answer).with_context(|| format!("answer to {name}"))?;
        let short = name.split('.').next_back().unwrap_or(name);
        ensure!(
            command.name == short,
            "the answer to {name} is about '{}'",
            command.name
        );
        Ok(command)
    }

    /// All commands since the agent started, oldest first.
    pub(super) async fn list(&self) -> Result<Vec<Command>> {
        let answer = self
            .send(Method::GET, "", None)
            .await
            .context("list of commands")?;
        let list = answer["commands"]
            .as_array()
            .with_context(|| format!("expected a list of commands, found {answer}"))?;
        list.iter().map(Command::from_json).collect()
    }
}

async fn accepted(response: reqwest::Response) -> Result<Value> {
    let status = response.status();
    let kind = response
        .headers()
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let text = response.text().await.map_err(reqwest::Error::without_url)?;
    if status != StatusCode::OK {
        bail!("HTTP {status}: {text}");
    }
    ensure!(
        kind.starts_with("application/json"),
        "expected application/json, found '{kind}'"
    );
    serde_json::from_str(&text).with_context(|| format!("expected JSON, found {text}"))
}
