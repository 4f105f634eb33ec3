//! A client for Ironic's REST API, which operators use.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::tls_front::Authority;

/// The time limit of one request. Ironic answers most requests in a fraction of
/// a second. Validation takes longer, because it queries the BMC and the image
/// server.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Pause between polls of a node, and between retries.
const PAUSE: Duration = Duration::from_millis(500);

/// The maximum number of attempts of a request while the node is locked.
const LOCKED_ATTEMPTS: u32 = 30;

/// A client for a JSON API over HTTP.
#[derive(Clone)]
pub struct BareMetalApi {
    client: Client,
    base: String,
    credentials: Option<(&'static str, &'static str)>,
}

impl BareMetalApi {
    /// A client for the API at `base`, a URL without a trailing slash. Over HTTPS it
    /// trusts only `authority`.
    pub fn new(
        base: &str,
        authority: Option<&Authority>,
        credentials: Option<(&'static str, &'static str)>,
    ) -> Result<Self> {
        let mut trusted = rustls::RootCertStore::empty();
        if let Some(authority) = authority {
            trusted.add(authority.certificate().clone())?;
        }
        let tls = rustls::ClientConfig::builder_with_provider(
            rustls::crypto::ring::default_provider().into(),
        )
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trusted)
        .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .timeout(REQUEST_LIMIT)
            .build()?;
        Ok(Self {
            client,
            base: base.to_owned(),
            credentials,
        })
    }

    /// Sends a request and returns the answer's JSON, or null if the answer is empty.
    /// While the node is locked (HTTP 409), sends the request up to `LOCKED_ATTEMPTS`
    /// times.
    pub async fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut request = self
                .client
                .request(method.clone(), format!("{}{path}", self.base))
                .header("X-OpenStack-Ironic-API-Version", "latest");
            if let Some((user, password)) = self.credentials {
                request = request.basic_auth(user, Some(password));
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let response = request
                .send()
                .await
                .with_context(|| format!("{method} {path}"))?;
            let status = response.status();
            let text = response.text().await?;
            if status.as_u16() == 409 && attempt < LOCKED_ATTEMPTS {
                sleep(PAUSE).await;
                continue;
            }
            ensure!(status.is_success(), "{method} {path}: {status}: {text}");
            if text.is_empty() {
                return Ok(Value::Null);
            }
            return serde_json::from_str(&text)
                .with_context(|| format!("the answer to {method} {path}"));
        }
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.request(Method::GET, path, None).await
    }

    /// The node as Ironic's API returns it.
    pub async fn node(&self, name: &str) -> Result<Value> {
        self.get(&format!("/v1/nodes/{name}")).await
    }

    /// Sets fields of a node. The paths are JSON pointers, for example
    /// `/driver_info/deploy_iso`.
    pub async fn patch(&self, name: &str, members: &[(&str, Value)]) -> Result<Value> {
        let patch: Vec<Value> = members
            .iter()
            .map(|(path, value)| json!({"op": "add", "path": path, "value": value}))
            .collect();
        let path = format!("/v1/nodes/{name}");
        self.request(Method::PATCH, &path, Some(&json!(patch)))
            .await
    }

    /// Requests a provision state. `wanted` is the body of the request:
    /// `{"target": ..., ...}`.
    pub async fn provision(&self, name: &str, wanted: &Value) -> Result<()> {
        let path = format!("/v1/nodes/{name}/states/provision");
        self.request(Method::PUT, &path, Some(wanted))
            .await
            .map(drop)
    }

    /// Waits until the node is in this provision state.
    pub async fn wait_for(&self, name: &str, wanted: &str, within: Duration) -> Result<Value> {
        self.wait_until(name, wanted, within, |node| {
            node["provision_state"] == wanted
        })
        .await
    }

    /// Waits until `wanted` returns true for the node. `what` describes this in
    /// errors. Fails early if the node enters a failure state.
    pub async fn wait_until(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let deadline = Instant::now() + within;
        loop {
            let node = self.node(name).await?;
            if wanted(&node) {
                return Ok(node);
            }
            let state = node["provision_state"].as_str().unwrap_or_default();
            if state.ends_with("failed") || state == "error" {
                bail!("waiting for {what}: {state}: {}", node["last_error"]);
            }
            let seconds = within.as_secs();
            if Instant::now() > deadline {
                bail!("waiting for {what}: still {state} after {seconds} s");
            }
            sleep(PAUSE).await;
        }
    }
}
