//! Posts the inventory to Ironic's inspection.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::service::{exchange, with_common_headers};
use super::wire;
use crate::backoff::Backoff;
use crate::http_client::ServiceClient;

/// Tries of the whole list of URLs, and the waits between them, as with the
/// original.
const TRIES: usize = 5;
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Posts this JSON text to the first of these URLs that takes it: text and not a
/// value, so that the fields stay in Ironic's order. Returns the
/// node's UUID if Ironic tells it.
///
/// # Errors
/// Why nobody took it, in one line. The caller goes on without.
pub async fn post_inventory(
    client: &ServiceClient,
    urls: &[String],
    body: &str,
    request_id: Option<&str>,
    timeout: Duration,
) -> Result<Option<String>, String> {
    let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    let mut fault = "no URL".to_owned();
    for left in (0..TRIES).rev() {
        for url in urls {
            tracing::info!("posting the inventory to {url}");
            let request = client
                .request(Method::POST, url)
                .map_err(|failure| failure.details)?
                .body(body.to_owned());
            match exchange(with_common_headers(request, request_id, timeout)).await {
                Ok(answer) if answer.status < 400 => {
                    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
                    // Old form {"uuid"}, new form that of a lookup.
                    let uuid = body["uuid"].as_str().or(body["node"]["uuid"].as_str());
                    return Ok(uuid.map(str::to_owned));
                }
                // Locked, or the service's own trouble: worth another try.
                Ok(answer) if answer.status >= 500 || answer.status == 409 => {
                    fault = format!("{url}: {}", wire::fault(&answer));
                    break;
                }
                Ok(answer) => return Err(format!("{url}: {}", wire::fault(&answer))),
                Err(error) => fault = format!("{url}: {error}"),
            }
        }
        if left > 0 {
            let pause = backoff.pause();
            tracing::warn!("inspection: {fault}; again in {:.0} s", pause.as_secs_f64());
            tokio::time::sleep(pause).await;
        }
    }
    Err(fault)
}
