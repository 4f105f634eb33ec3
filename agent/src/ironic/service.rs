//! One conversation partner: base URL, API version, headers, time limits.

use std::time::Duration;

use landfall_boot_params::argument_value::ApiVersion;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde::Serialize;

use super::wire::{Root, error_text};
use crate::http_client::why;

/// The version that the original assumes of a service that does not say.
const ASSUMED: ApiVersion = ApiVersion {
    major: 1,
    minor: 31,
};
/// The newest versions that the original asks for (measured).
const LOOKUP: u16 = 62;
const HEARTBEAT: u16 = 68;

/// The largest answer that is read; a node's record has some 10 kB.
const ANSWER_LIMIT: usize = 4 << 20;

/// Ironic's API at one base URL.
#[derive(Debug, Clone)]
pub struct Service {
    client: Client,
    base: String,
    version: ApiVersion,
    request_id: Option<String>,
    timeout: Duration,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    /// `HTTP 404: Node not found`
    pub(crate) fn fault(&self) -> String {
        format!("HTTP {}: {}", self.status, error_text(&self.body))
    }
}

impl Service {
    /// The service at `base` (without `/v1`), which answered `GET /` with this
    /// document. The API version is read from it unless one is given.
    pub fn new(
        client: Client,
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
        let request = self.versioned(Method::GET, &format!("/v1/lookup?{query}"), LOOKUP);
        exchange(request).await
    }

    pub(super) async fn post_heartbeat(
        &self,
        uuid: &str,
        body: &impl Serialize,
    ) -> Result<Answer, String> {
        let request = self.versioned(Method::POST, &format!("/v1/heartbeat/{uuid}"), HEARTBEAT);
        exchange(request.json(body)).await
    }

    fn versioned(&self, method: Method, path: &str, newest: u16) -> RequestBuilder {
        let minor = if self.version.major > 1 {
            newest
        } else {
            self.version.minor.min(newest)
        };
        self.request(method, path)
            .header("X-OpenStack-Ironic-API-Version", format!("1.{minor}"))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.base);
        with_common_headers(
            self.client.request(method, url),
            self.request_id.as_deref(),
            self.timeout,
        )
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

/// Sends, and reads the answer up to a limit.
pub(super) async fn exchange(request: RequestBuilder) -> Result<Answer, String> {
    let mut response: Response = request.send().await.map_err(|e| why(&e))?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| why(&e))? {
        if body.len() + chunk.len() > ANSWER_LIMIT {
            return Err(format!("answer is larger than {ANSWER_LIMIT} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer {
        status,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
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
            let client = crate::http_client::service_client(&HttpOptions::default()).unwrap();
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
