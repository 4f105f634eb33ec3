//! Posts the reports, one after the other.

use std::sync::Arc;
use std::time::Duration;

use landfall_boot_params::argument_value::WebhookUrl;
use landfall_http_client::{ServiceClient, status_of};
use landfall_network::NetworkState;
use landfall_report::failure::split_remedy;
use landfall_sys::backoff::Backoff;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Shared;
use super::queue::Numbered;
use super::report::What;

/// The time limit of one attempt.
const LIMIT: Duration = Duration::from_secs(10);
/// The maximum number of attempts for a report. In total, the pauses take at most 211 s.
const ATTEMPTS: u32 = 12;
/// The maximum number of attempts for a progress report, which is soon out of date.
const ATTEMPTS_FOR_PROGRESS: u32 = 2;
/// The shortest and the longest pause between two attempts.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Delivery {
    url: String,
    /// The URL up to its path, for log lines. The path of a webhook is often its
    /// password.
    origin: String,
    client: ServiceClient,
    shared: Arc<Shared>,
    /// Whether the current outage has been reported.
    is_reported: bool,
}

/// The server's reaction to a report.
enum Outcome {
    Taken,
    /// The next attempt may succeed.
    Failed(String),
    /// The next attempt would fail too.
    Refused(String),
}

impl Delivery {
    pub(super) fn new(url: &WebhookUrl, client: &ServiceClient, shared: Arc<Shared>) -> Self {
        Self {
            url: url.0.0.clone(),
            origin: origin(&url.0.0),
            client: client.clone(),
            shared,
            is_reported: false,
        }
    }

    /// Sends the reports in order, for as long as the process runs.
    pub(super) async fn run(mut self, mut network: watch::Receiver<NetworkState>) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            let first = self.shared.queue().first();
            let Some(report) = first else {
                // The sender exists as long as this task.
                let _ = changed.changed().await;
                continue;
            };
            landfall_network::first_address(&mut network).await;
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                () = self.deliver(&report) => {}
                () = superseded(&shared, report.sequence) => {}
            }
            shared.remove(report.sequence);
        }
    }

    /// Sends one report until the server accepts it, until the server rejects it
    /// permanently, or until the maximum number of attempts is reached.
    async fn deliver(&mut self, report: &Numbered) {
        // The body contains no secrets; the URL may contain some.
        let body = report.report.json(report.sequence).to_string();
        let attempts = match report.report.what {
            What::Progress => ATTEMPTS_FOR_PROGRESS,
            _ => ATTEMPTS,
        };
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut hurry = self.shared.hurry.subscribe();
        for attempt in 1..=attempts {
            match self.post(&body).await {
                Outcome::Taken => {
                    self.is_reported = false;
                    return;
                }
                Outcome::Failed(why) if attempt < attempts => self.complain(&why, "trying again"),
                Outcome::Refused(why) | Outcome::Failed(why) => {
                    // No other report follows the last report, so log its loss even if
                    // the outage has been reported.
                    if matches!(report.report.what, What::Done | What::Failed { .. }) {
                        self.is_reported = false;
                    }
                    return self.complain(&why, "this report is lost");
                }
            }
            let is_hurried = *hurry.borrow_and_update();
            if is_hurried {
                backoff.reset();
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.pause()) => {}
                _ = hurry.wait_for(|hurry| *hurry), if !is_hurried => {}
            }
        }
    }

    async fn post(&self, body: &str) -> Outcome {
        let request = match self.client.request(Method::POST, &self.url) {
            Ok(request) => request,
            Err(failure) => return Outcome::Refused(failure.to_string()),
        };
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_owned());
        // Only the status of the answer matters, so the body is not read.
        match timeout(LIMIT, status_of(request)).await {
            Err(_) => Outcome::Failed(format!("no answer in {} s", LIMIT.as_secs())),
            Ok(Err(no_answer)) => Outcome::Failed(no_answer.text),
            Ok(Ok(answer)) => judge(answer.status),
        }
    }

    fn complain(&mut self, why: &str, consequence: &str) {
        if !std::mem::replace(&mut self.is_reported, true) {
            let (why, remedy) = split_remedy(why);
            tracing::warn!(
                "{} did not take a report: {why}; {consequence}; the installation continues{remedy}",
                self.origin
            );
        }
    }
}

/// The URL up to its path, without user and password.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

fn judge(status: u16) -> Outcome {
    match status {
        200..=299 => Outcome::Taken,
        300..=399 => Outcome::Refused(format!(
            "expected status 200, found the redirect {status}, which is not followed"
        )),
        // Request Timeout, Too Early, Too Many Requests
        408 | 425 | 429 | 500..=599 => {
            Outcome::Failed(format!("expected status 200, found {status}"))
        }
        _ => Outcome::Refused(format!("expected status 200, found {status}")),
    }
}

/// Returns when the installation waits for the last report and `sequence` is not the
/// number of that report. Otherwise never returns.
async fn superseded(shared: &Shared, sequence: u64) {
    let mut hurry = shared.hurry.subscribe();
    // The sender exists as long as `shared`.
    let _ = hurry.wait_for(|hurry| *hurry).await;
    if shared.queue().last_sequence() == sequence {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_server_and_no_password() {
        for (url, shown) in [
            (
                "https://hooks.example.org/services/T/S3CRET",
                "https://hooks.example.org",
            ),
            (
                "http://u:S3CRET@192.0.2.1:8080/a@b?key=S3CRET",
                "http://192.0.2.1:8080",
            ),
            (
                "http://[2001:db8::1]:80?key=S3CRET",
                "http://[2001:db8::1]:80",
            ),
            ("http://host", "http://host"),
        ] {
            assert_eq!(origin(url), shown);
        }
    }
}
