//! How requests reach Ironic: what they all carry, and where they go when one
//! of several places does not answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_boot_params::argument_value::{ApiVersion, ArgumentValue as _};
use reqwest::Method;

use crate::http_client::{Answer, ServiceClient, exchange};

/// What every request to Ironic has in common.
#[derive(Debug, Clone)]
pub struct Transport {
    /// Sends them.
    pub client: ServiceClient,
    /// `X-OpenStack-Request-ID`.
    pub request_id: Option<String>,
    /// Limit of one request at one place.
    pub timeout: Duration,
}

/// The URLs of one service, the one that answered last in front. A clone is
/// the same list.
#[derive(Debug, Clone)]
pub struct Places(Arc<Mutex<Vec<String>>>);

/// One request, wherever it goes.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// What follows the place's URL.
    pub(super) path: &'a str,
    pub(super) version: Option<ApiVersion>,
    pub(super) body: Option<String>,
}

impl Places {
    /// These URLs in this order, without the slashes at their ends.
    pub fn new(urls: &[String]) -> Self {
        let trimmed = urls.iter().map(|url| url.trim_end_matches('/').to_owned());
        Self(Arc::new(Mutex::new(trimmed.collect())))
    }

    /// The one that is asked first.
    pub fn first(&self) -> String {
        self.list().first().cloned().unwrap_or_default()
    }

    fn list(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The others stay behind it in their order, as a ring.
    fn put_first(&self, url: &str) {
        let mut urls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = urls.iter().position(|known| known == url) {
            urls.rotate_left(at);
        }
    }
}

impl Transport {
    /// Asks one place after the other until one answers, whatever it answers.
    ///
    /// # Errors
    /// Why the last one did not; the others have been told on the console.
    pub(super) async fn ask(
        &self,
        places: &Places,
        request: &Request<'_>,
    ) -> Result<Answer, String> {
        let urls = places.list();
        let mut fault = "no URL".to_owned();
        for (number, url) in urls.iter().enumerate() {
            match self.ask_one(url, request).await {
                Ok(answer) => {
                    places.put_first(url);
                    return Ok(answer);
                }
                Err(text) => fault = format!("{url}: {text}"),
            }
            if number + 1 < urls.len() {
                tracing::warn!("{fault}; trying the next URL");
            }
        }
        Err(fault)
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
