//! Posts the inventory to Ironic's inspection.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::transport::{Places, Request, Transport};
use super::wire;
use crate::backoff::between;

/// Tries of the whole list of URLs, as with the original.
const TRIES: u32 = 5;

/// The original's wait behind a try, the first being number 0, with some
/// chance added, so that a rack does not come back in one step.
fn pause_after(number: u32) -> Duration {
    let seconds = 1.5 * f64::from(2_u32.saturating_pow(number));
    Duration::from_secs_f64(seconds.clamp(5.0, 30.0) * between(1.0, 1.2))
}

/// Why the inventory was not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// 404: Ironic knows no node like this that waits for its inspection.
    #[error("{0}")]
    NotAsked(String),
    /// Anything else, in one line.
    #[error("{0}")]
    Failed(String),
}

/// Posts this JSON text to the first of these URLs that answers: text and not a
/// value, so that the fields stay in Ironic's order. Returns the node's UUID if
/// Ironic tells it.
///
/// No API version is sent. With 1.84 or newer the answer would be the one that
/// holds the token, and a lookup after it shows asterisks (measured).
///
/// # Errors
/// Why nobody took it. The caller goes on without.
pub async fn post_inventory(
    transport: &Transport,
    urls: &[String],
    body: &str,
) -> Result<Option<String>, NotTaken> {
    let places = Places::new(urls);
    let request = Request {
        method: Method::POST,
        path: "",
        version: None,
        body: Some(body.to_owned()),
    };
    let mut number = 0;
    loop {
        tracing::info!("posting the inventory to {}", places.first());
        let fault = match transport.ask(&places, &request).await {
            Ok(answer) if answer.status < 400 => {
                let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
                // Old form {"uuid"}, new form that of a lookup.
                let uuid = body["uuid"].as_str().or(body["node"]["uuid"].as_str());
                return Ok(uuid.map(str::to_owned));
            }
            Ok(answer) => {
                let fault = format!("{}: {}", places.first(), wire::fault(&answer));
                // Locked, or the service's own trouble: worth another try.
                match answer.status {
                    404 => return Err(NotTaken::NotAsked(fault)),
                    409 | 500.. => fault,
                    _ => return Err(NotTaken::Failed(fault)),
                }
            }
            Err(fault) => fault,
        };
        if number + 1 == TRIES {
            return Err(NotTaken::Failed(fault));
        }
        let pause = pause_after(number);
        tracing::warn!("inspection: {fault}; again in {:.0} s", pause.as_secs_f64());
        tokio::time::sleep(pause).await;
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_original() {
        for (number, seconds) in [(0, 5.0), (1, 5.0), (2, 6.0), (3, 12.0), (9, 30.0)] {
            let pause = pause_after(number).as_secs_f64();
            assert!(
                (seconds..=seconds * 1.2).contains(&pause),
                "{number}: {pause}"
            );
        }
    }
}
