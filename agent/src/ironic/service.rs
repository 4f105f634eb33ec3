//! One conversation partner: base URL, API version, headers, time limits.

use std::time::Duration;

use landfall_boot_params::argument_value::ApiVersion;
use reqwest::{Method, RequestBuilder};
use serde::Serialize;

use super::wire::Root;
use crate::failure::Failure;
use crate::http_client::{self, Answer, ServiceClient};

/// The version that the original assumes of a service that does not say.
const ASSUMED: ApiVersion = ApiVersion {
    major: 1,
    minor: 31,
};
/// The newest versions that the original asks for (measured).
const LOOKUP: u16 = 62;
const HEARTBEAT: u16 = 68;

/// Ironic's API at one base URL.
#[derive(Debug, Clone)]
pub struct Service {
    client: ServiceClient,
    base: String,
    version: ApiVersion,
    request_id: Option<String>,
    timeout: Duration,
}

impl Service {
    /// The service at `base` (without `/v1`), which answered `GET /` with this
    /// document. The API version is read from it unless one is given.
    pub fn new(
        client: ServiceClient,
        base: &str,
        document: &str,
        version: Option<ApiVersion>,
        request_id: Option<String>,
        timeout: Duration,
    ) -> Self {
        let version = version.or_else(|| {
            // No such document (a proxy's page, say): the original goes on too.
            let root: Root = serde_json::from_str(document).ok()?;
            parse_version(&root.default_version.version)
        });
        Self {
            client,
            base: base.trim_end_matches('/').to_owned(),
            version: version.unwrap_or(ASSUMED),
            request_id,
            timeout,
        }
    }

    /// The base URL.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether heartbeats may carry the agent's certificate (API 1.68).
    pub fn takes_certificate(&self) -> bool {
        self.speaks(68)
    }

    /// Whether heartbeats may carry a token (API 1.62).
    pub(super) fn takes_token(&self) -> bool {
        self.speaks(62)
    }

    /// Whether heartbeats may carry the agent's version (API 1.36).
    pub(super) fn takes_agent_version(&self) -> bool {
        self.speaks(36)
    }

    fn speaks(&self, minor: u16) -> bool {
        self.version.major > 1 || self.version.minor >= minor
    }

    pub(super) async fn get_lookup(&self, query: &str) -> Result<Answer, String> {
        let request = self
            .versioned(Method::GET, &format!("/v1/lookup?{query}"), LOOKUP)
            .map_err(|failure| failure.details)?;
        exchange(request).await
    }

    pub(super) async fn post_heartbeat(
        &self,
        uuid: &str,
        body: &impl Serialize,
    ) -> Result<Answer, String> {
        let request = self
            .versioned(Method::POST, &format!("/v1/heartbeat/{uuid}"), HEARTBEAT)
            .map_err(|failure| failure.details)?;
        exchange(request.json(body)).await
    }

    fn versioned(
        &self,
        method: Method,
        path: &str,
        newest: u16,
    ) -> Result<RequestBuilder, Failure> {
        let minor = if self.version.major > 1 {
            newest
        } else {
            self.version.minor.min(newest)
        };
        let request = self.request(method, path)?;
        Ok(request.header("X-OpenStack-Ironic-API-Version", format!("1.{minor}")))
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Failure> {
        let url = format!("{}{path}", self.base);
        Ok(with_common_headers(
            self.client.request(method, &url)?,
            self.request_id.as_deref(),
            self.timeout,
        ))
    }
}

/// What every request to Ironic carries.
pub(super) fn with_common_headers(
    request: RequestBuilder,
    request_id: Option<&str>,
    timeout: Duration,
) -> RequestBuilder {
    let request = request
        .header("Accept", "application/json")
        .header("Content-Type", "application/json")
        .timeout(timeout);
    match request_id {
        Some(id) => request.header("X-OpenStack-Request-ID", id),
        None => request,
    }
}

/// As [`http_client::exchange`], with the fault as text.
pub(super) async fn exchange(request: RequestBuilder) -> Result<Answer, String> {
    http_client::exchange(request)
        .await
        .map_err(|fault| fault.text)
}

fn parse_version(text: &str) -> Option<ApiVersion> {
    let (major, minor) = text.split_once('.')?;
    Some(ApiVersion {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_client::HttpOptions;

    #[test]
    fn versions_compare_as_numbers() {
        let service = |document: &str| {
            let client = ServiceClient::new(&HttpOptions::default()).unwrap();
            Service::new(client, "http://x/", document, None, None, Duration::MAX)
        };
        let new = service(r#"{"default_version": {"version": "1.115"}}"#);
        assert!(new.takes_certificate());
        assert_eq!(new.base(), "http://x");
        let old = service(r#"{"default_version": {"version": "1.9"}}"#);
        assert!(!old.takes_agent_version());
        let silent = service("<html>");
        assert!(!silent.takes_agent_version(), "assumed to be 1.31");
    }
}
