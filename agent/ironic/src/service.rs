//! Ironic's API: its URLs, its version, and the requests for a lookup and a heartbeat.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use landfall_boot_params::argument_value::{ApiVersion, ArgumentValue as _};
use landfall_http_client::Answer;
use reqwest::Method;
use serde::de::IgnoredAny;

use super::transport::{Places, Request, Transport, Unanswered};
use super::wire::Root;

const fn version(minor: u16) -> ApiVersion {
    ApiVersion { major: 1, minor }
}

/// The version that Ironic's agent assumes if the service does not report one.
const ASSUMED: ApiVersion = version(31);
/// The newest versions that Ironic's agent requests (measured).
const LOOKUP: ApiVersion = version(62);
const HEARTBEAT: ApiVersion = version(68);
/// The API version for a heartbeat with a status message
/// (ironic/api/controllers/v1/versions.py: MINOR_72_HEARTBEAT_STATUS). Ironic's agent
/// sends no status message.
const HEARTBEAT_WITH_STATUS: ApiVersion = version(72);

/// The HTTP status for a heartbeat that Ironic accepts.
pub(super) const ACCEPTED: u16 = 202;
/// The HTTP status for a version that Ironic does not have.
const NOT_ACCEPTABLE: u16 = 406;

/// Ironic's API. A clone shares the known version and the order of the URLs.
#[derive(Debug, Clone)]
pub struct Service {
    transport: Transport,
    places: Places,
    version: Arc<Mutex<Version>>,
}

/// What is known about Ironic's API version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Known(ApiVersion),
    /// The version is not known and must be requested: the last answer contained none,
    /// perhaps because it was the page of a proxy, or Ironic has since rejected a
    /// heartbeat.
    NotInDocument,
    /// The service has answered the request for its version, but has not reported a
    /// version.
    NotReported,
}

impl Version {
    /// The version in this document, or `otherwise` if the document has none.
    fn in_document(document: &str, otherwise: Self) -> Self {
        version_in(document).map_or(otherwise, Self::Known)
    }
}

impl Service {
    /// The service at these base URLs (without `/v1`). `document` is the answer to `GET
    /// /`. If `given` is `None`, the API version is read from the document.
    pub fn new(
        transport: Transport,
        bases: &[String],
        document: &str,
        given: Option<ApiVersion>,
    ) -> Self {
        Self {
            transport,
            places: Places::new(bases),
            version: Arc::new(Mutex::new(match given {
                Some(version) => Version::Known(version),
                None => Version::in_document(document, Version::NotInDocument),
            })),
        }
    }

    /// The base URL that answered last; the first one if none has answered yet.
    pub(super) fn base(&self) -> String {
        self.places.first()
    }

    /// Whether Ironic accepts the agent's certificate in heartbeats (API 1.68).
    pub fn takes_certificate(&self) -> bool {
        self.speaks(68)
    }

    /// Whether Ironic accepts a status message in heartbeats (API 1.72).
    pub(super) fn takes_status_message(&self) -> bool {
        self.speaks(72)
    }

    /// Whether Ironic accepts a token in heartbeats (API 1.62).
    pub(super) fn takes_token(&self) -> bool {
        self.speaks(62)
    }

    /// Whether Ironic accepts the agent's version in heartbeats (API 1.36).
    pub(super) fn takes_agent_version(&self) -> bool {
        self.speaks(36)
    }

    fn speaks(&self, minor: u16) -> bool {
        as_numbers(self.version()) >= (1, minor)
    }

    fn version(&self) -> ApiVersion {
        match *self.known() {
            Version::Known(version) => version,
            Version::NotInDocument | Version::NotReported => ASSUMED,
        }
    }

    fn known(&self) -> MutexGuard<'_, Version> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the API version again if it is not known yet, because the first answer
    /// may have come from a proxy before Ironic was up. Without the version the agent
    /// would use an old API, and Ironic would send no token (measured: the token is null
    /// with 1.31).
    pub(super) async fn make_version_known(&self) {
        let known = *self.known();
        if !matches!(known, Version::Known(_)) {
            self.request_version().await;
        }
    }

    /// Like [`Self::make_version_known`], but sends only one request to a service that
    /// reports no version, until the service rejects a heartbeat: an agent may send
    /// heartbeats for months.
    pub(super) async fn make_version_known_once(&self) {
        let known = *self.known();
        if known == Version::NotInDocument {
            self.request_version().await;
        }
    }

    async fn request_version(&self) {
        let request = Request {
            method: Method::GET,
            path: "/",
            version: None,
            body: None,
        };
        if let Ok(answer) = self.transport.ask(&self.places, &request).await {
            // The page of a proxy is not JSON, and says nothing about Ironic's version.
            let is_document = serde_json::from_str::<IgnoredAny>(&answer.body).is_ok();
            let otherwise = match answer.status {
                200 if is_document => Version::NotReported,
                _ => Version::NotInDocument,
            };
            *self.known() = Version::in_document(&answer.body, otherwise);
        }
    }

    pub(super) async fn get_lookup(&self, query: &str) -> Result<Answer, Unanswered> {
        let request = Request {
            method: Method::GET,
            path: &format!("/v1/lookup?{query}"),
            version: Some(older(self.version(), LOOKUP)),
            body: None,
        };
        self.transport.ask(&self.places, &request).await
    }

    /// `has_status`: whether the body has a status message.
    pub(super) async fn post_heartbeat(
        &self,
        uuid: &str,
        body: String,
        has_status: bool,
    ) -> Result<Answer, Unanswered> {
        let newest = match has_status {
            true => HEARTBEAT_WITH_STATUS,
            false => HEARTBEAT,
        };
        let request = Request {
            method: Method::POST,
            path: &format!("/v1/heartbeat/{uuid}"),
            version: Some(older(self.version(), newest)),
            body: Some(body),
        };
        let answer = self.transport.ask(&self.places, &request).await?;
        let mut known = self.known();
        // In both cases request the version again. After status 406, another URL of the
        // service, or an earlier release after a rollback, may support only older
        // versions.
        let is_too_new = answer.status == NOT_ACCEPTABLE;
        let is_old = *known == Version::NotReported && answer.status != ACCEPTED;
        if is_too_new || is_old {
            *known = Version::NotInDocument;
        }
        drop(known);
        Ok(answer)
    }
}

fn as_numbers(version: ApiVersion) -> (u16, u16) {
    (version.major, version.minor)
}

fn older(one: ApiVersion, other: ApiVersion) -> ApiVersion {
    if as_numbers(one) < as_numbers(other) {
        one
    } else {
        other
    }
}

/// The version in the answer to `GET /`. `None` if the answer contains no valid version,
/// for example because it is the page of a proxy.
fn version_in(document: &str) -> Option<ApiVersion> {
    let root: Root = serde_json::from_str(document).ok()?;
    ApiVersion::parse(&root.default_version.version)
}

#[cfg(test)]
mod tests;
