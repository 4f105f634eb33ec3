//! Posts the inventory to Ironic's inspection.

use std::future::Future;
use std::time::Duration;

use landfall_report::failure::split_remedy;
use landfall_sys::backoff::between;
use reqwest::Method;
use serde_json::Value;

use super::transport::{Places, Request, Transport};
use super::wire;

/// The number of attempts with the whole list of URLs, as in Ironic's agent.
const ATTEMPTS: u32 = 5;

/// The longest pauses in seconds: after a temporary failure, as in Ironic's agent, and
/// after a rejection.
const LONGEST: f64 = 30.0;
const LONGEST_AFTER_REJECTION: f64 = 300.0;

/// What to do if Ironic does not accept the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Continue without inspection after [`ATTEMPTS`] attempts, or at once if Ironic
    /// rejects the inventory.
    Limited,
    /// Retry until Ironic accepts the inventory. The agent has no other task, because the
    /// node stays in `inspect wait` until then.
    Forever,
}

/// The pause after the attempt with this number, counted from 0. After a temporary
/// failure it is that of Ironic's agent, plus jitter, so that the machines of a rack do
/// not send at the same second.
fn pause_after(number: u32, rejected: bool) -> Duration {
    let longest = if rejected {
        LONGEST_AFTER_REJECTION
    } else {
        LONGEST
    };
    let seconds = 1.5 * f64::from(2_u32.saturating_pow(number));
    Duration::from_secs_f64(seconds.clamp(5.0, longest) * between(1.0, 1.2))
}

/// The reason why Ironic did not accept the inventory.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// 404: Ironic has no matching node that waits for its inspection.
    #[error("{0}")]
    NotAsked(String),
    /// 413: the inventory is larger than Ironic accepts.
    #[error("{0}")]
    TooLarge(String),
    /// The NICs or their addresses have changed since the agent collected the inventory.
    #[error("the inventory is out of date")]
    OutOfDate,
    /// Any other error, in one line.
    #[error("{0}")]
    Failed(String),
}

/// Posts this JSON text to the first of these URLs that answers. The argument is a text
/// and not a JSON value, so that the fields stay in Ironic's order. Returns the node's
/// UUID if the answer contains it.
///
/// The request names no API version. With version 1.84 or newer, the answer would contain
/// the token, and the answer to the later lookup would contain only asterisks (measured).
///
/// # Errors
/// If the body is too large. A retry would fail in the same way, because the body would
/// be the same.
///
/// Also if `retry` is [`Retry::Limited`] and Ironic did not accept the inventory: the
/// caller continues without inspection. With [`Retry::Forever`] the only other error is
/// that the inventory is out of date, because the future `out_of_date` has ended. The
/// driver of a NIC may have been late, and Ironic may know the node by that NIC.
pub async fn post_inventory(
    transport: &Transport,
    urls: &[String],
    body: &str,
    retry: Retry,
    out_of_date: impl Future<Output = ()>,
) -> Result<Option<String>, NotTaken> {
    let places = Places::new(urls);
    let request = Request {
        method: Method::POST,
        path: "",
        version: None,
        body: Some(body.to_owned()),
    };
    let mut number = 0;
    tokio::pin!(out_of_date);
    loop {
        tracing::info!("posting the inventory to {}", places.first());
        let (fault, status) = match transport.ask(&places, &request).await {
            Ok(answer) if answer.status < 400 => {
                let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
                // Older answers are {"uuid": ...}; newer answers have the format of an
                // answer to a lookup, {"node": {"uuid": ...}}.
                let uuid = body["uuid"].as_str().or(body["node"]["uuid"].as_str());
                return Ok(uuid.map(str::to_owned));
            }
            Ok(answer) => {
                let fault = format!("{}: {}", places.first(), wire::fault(&answer));
                (fault, Some(answer.status))
            }
            Err(unanswered) => (unanswered.to_string(), None),
        };
        if status == Some(413) {
            return Err(NotTaken::TooLarge(fault));
        }
        // Temporary errors: no answer, a locked node, or an error in the service.
        let rejected = !matches!(status, None | Some(408 | 409 | 429 | 500..));
        if retry == Retry::Limited {
            match status {
                Some(404) => return Err(NotTaken::NotAsked(fault)),
                _ if rejected || number + 1 == ATTEMPTS => return Err(NotTaken::Failed(fault)),
                _ => {}
            }
        }
        let pause = pause_after(number, rejected);
        let why = match status {
            Some(404) => {
                " (Ironic has no node with these MAC addresses that waits for its inspection)"
            }
            Some(403) => wire::FORBIDDEN,
            _ => "",
        };
        let (fault, own_remedy) = split_remedy(&fault);
        let advice = match status {
            Some(403) => format!(" -- {}", wire::FORBIDDEN_REMEDY),
            _ => own_remedy.to_owned(),
        };
        tracing::warn!(
            "inspection: {fault}{why}; posting again in {:.0} s{advice}",
            pause.as_secs_f64()
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut out_of_date, if retry == Retry::Forever => return Err(NotTaken::OutOfDate),
        }
        number = number.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_those_of_the_original_and_longer_after_rejections() {
        for (number, rejected, seconds) in [
            (0, false, 5.0),
            (1, false, 5.0),
            (2, false, 6.0),
            (3, false, 12.0),
            (9, false, 30.0),
            (u32::MAX, false, 30.0),
            (0, true, 5.0),
            (5, true, 48.0),
            (9, true, 300.0),
        ] {
            let pause = pause_after(number, rejected).as_secs_f64();
            assert!(
                (seconds..=seconds * 1.2).contains(&pause),
                "{number} {rejected}: {pause}"
            );
        }
    }
}
