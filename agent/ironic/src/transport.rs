//! Sends requests to Ironic: adds the common headers, and tries the next URL if a URL
//! does not answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_boot_params::argument_value::{ApiVersion, ArgumentValue as _};
use landfall_http_client::{Answer, ServiceClient, exchange};
use landfall_report::failure::split_remedy;
use reqwest::Method;

/// The common parts of all requests to Ironic.
#[derive(Debug, Clone)]
pub struct Transport {
    pub client: ServiceClient,
    /// The value of the header `X-OpenStack-Request-ID`.
    pub request_id: Option<String>,
    /// The time limit of one request to one URL.
    pub timeout: Duration,
}

/// The URLs of one service. The URL that answered last is the first in the list. Clones
/// share the list.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Mutex<Vec<String>>>);

/// One request, without the base URL.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// The part after the base URL.
    pub(super) path: &'a str,
    pub(super) version: Option<ApiVersion>,
    pub(super) body: Option<String>,
}

impl Places {
    /// Tries these URLs in this order. Removes their trailing slashes.
    pub(super) fn new(urls: &[String]) -> Self {
        let trimmed = urls.iter().map(|url| url.trim_end_matches('/').to_owned());
        Self(Arc::new(Mutex::new(trimmed.collect())))
    }

    /// The URL that is tried first.
    pub(super) fn first(&self) -> String {
        self.list().first().cloned().unwrap_or_default()
    }

    fn list(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Rotates the list, so that the other URLs stay in their order.
    fn put_first(&self, url: &str) {
        let mut urls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = urls.iter().position(|known| known == url) {
            urls.rotate_left(at);
        }
    }
}

/// Why no URL has answered. Contains the error of the last URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("no URL")]
    NoUrl,
    #[error("{url}: {reason}")]
    Url { url: String, reason: String },
}

impl Transport {
    /// Tries one URL after the other until one answers with any status.
    ///
    /// # Errors
    /// If no URL has answered. The returned error is that of the last URL; the errors of
    /// the other URLs are logged.
    pub(super) async fn ask(
        &self,
        places: &Places,
        request: &Request<'_>,
    ) -> Result<Answer, Unanswered> {
        let urls = places.list();
        let mut unanswered = Unanswered::NoUrl;
        for (number, url) in urls.iter().enumerate() {
            match self.ask_one(url, request).await {
                Ok(answer) => {
                    places.put_first(url);
                    return Ok(answer);
                }
                Err(reason) => {
                    unanswered = Unanswered::Url {
                        url: url.clone(),
                        reason,
                    };
                }
            }
            if number + 1 < urls.len() {
                let text = unanswered.to_string();
                let (fault, remedy) = split_remedy(&text);
                tracing::warn!("{fault}; trying the next URL{remedy}");
            }
        }
        Err(unanswered)
    }

    async fn ask_one(&self, url: &str, request: &Request<'_>) -> Result<Answer, String> {
        let url = format!("{url}{}", request.path);
        let mut wire = self
            .client
            .request(request.method.clone(), &url)
            .map_err(|failure| failure.details)?
            .header("Accept", "application/json")
            .header("Content-Type", "application/json")
            .timeout(self.timeout);
        if let Some(id) = &self.request_id {
            wire = wire.header("X-OpenStack-Request-ID", id);
        }
        if let Some(version) = &request.version {
            wire = wire.header("X-OpenStack-Ironic-API-Version", version.to_text());
        }
        if let Some(body) = &request.body {
            wire = wire.body(body.clone());
        }
        exchange(wire).await.map_err(|fault| fault.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_answered_comes_first_and_the_ring_stays() {
        let urls = ["http://a/", "http://b", "http://c"].map(str::to_owned);
        let places = Places::new(&urls);
        assert_eq!(places.first(), "http://a");
        places.clone().put_first("http://b");
        assert_eq!(places.list(), ["http://b", "http://c", "http://a"]);
        places.put_first("http://unknown");
        assert_eq!(places.first(), "http://b");
    }
}
