//! Asks Ironic which node this machine is, until Ironic knows the machine or the time is
//! over.

use std::time::{Duration, Instant};

use landfall_http_client::Answer;
use landfall_network::NetworkState;
use landfall_network_plan::MacAddr;
use landfall_report::failure::with_remedy;
use landfall_report::status;
use landfall_sys::backoff::Backoff;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::watch;

use super::agent_token::{AgentToken, NoToken};
use super::service::Service;
use super::wire::{FORBIDDEN, FORBIDDEN_REMEDY, LookupAnswer, fault};

/// The longest pause between two lookups, as in Ironic's agent.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The additional pause while the node is locked: at first 5 s, then 10 s, then always 30
/// s.
const LOCKED: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// The wait after a NIC has appeared, because the other ports of the same card appear
/// shortly after it.
const NICS_SETTLE: Duration = Duration::from_secs(1);

/// The data by which Ironic can recognise this machine.
#[derive(Debug, Clone)]
pub struct Query {
    /// The network, from which each attempt takes the MAC addresses of the NICs. The NIC
    /// that Ironic knows may get its driver late.
    pub network: watch::Receiver<NetworkState>,
    /// Whether to include the NICs that lead to the BMC.
    pub with_bmc_nics: bool,
    /// The NIC that this machine booted from. It is included even if it leads to the BMC.
    pub boot_mac: Option<MacAddr>,
    /// The node's UUID, if the answer to the inspection contains it.
    pub node_uuid: Option<String>,
}

impl Query {
    fn macs(&self) -> Vec<String> {
        let network = self.network.borrow();
        network.macs(self.with_bmc_nics, self.boot_mac)
    }

    fn to_text(&self, macs: &[String]) -> String {
        let mut text = format!("addresses={}", encoded(&macs.join(",")));
        if let Some(uuid) = &self.node_uuid {
            text.push_str("&node_uuid=");
            text.push_str(&encoded(uuid));
        }
        text
    }

    /// Returns when the MAC addresses of the machine differ from `macs`. This may never
    /// happen.
    async fn other_nics_than(&mut self, macs: &[String]) {
        let (with_bmc_nics, boot_mac) = (self.with_bmc_nics, self.boot_mac);
        let has_changed = self
            .network
            .wait_for(|state| state.macs(with_bmc_nics, boot_mac) != macs);
        if has_changed.await.is_err() {
            // The network task has ended, so its last state stays.
            std::future::pending().await
        }
    }
}

/// The characters to percent-encode in the query: all except the unreserved characters of
/// RFC 3986, as in the HTTP library of Ironic's agent.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~');

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// How long to retry.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// The first and shortest pause.
    pub interval: Duration,
    /// The time limit for all attempts together.
    pub total: Duration,
}

/// The reason why there is no node.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoNode {
    /// Ironic sends no token until an operator changes something: see
    /// [`NoToken::AlreadySent`].
    #[error("{}", NoToken::AlreadySent)]
    TokenAlreadySent,
    /// The time limit is over.
    #[error("no node after {seconds} s ({fault}) -- {remedy}")]
    NotInTime {
        /// The time limit.
        seconds: u64,
        /// What the last answer said.
        fault: String,
        remedy: String,
    },
}

/// Retries until Ironic knows the node and has sent a token. Returns the answer and the
/// token.
///
/// # Errors
/// If Ironic did not return the node with a usable token in time, or if it has sent the
/// token to another boot or machine.
pub async fn look_up_until_known(
    service: &Service,
    query: &mut Query,
    token: &mut AgentToken,
    retry_policy: RetryPolicy,
) -> Result<(LookupAnswer, String), NoNode> {
    let first = retry_policy.interval.max(Duration::from_millis(100));
    let mut backoff = Backoff::new(first, LONGEST_PAUSE);
    let mut locked = LOCKED.iter().chain(std::iter::repeat(&LOCKED[2]));
    let since = Instant::now();
    let mut asked_for = None;
    loop {
        service.make_version_known().await;
        let macs = query.macs();
        if asked_for.as_ref() != Some(&macs) {
            tracing::info!("looking up {} at {}", macs.join(", "), service.base());
            asked_for = Some(macs.clone());
        }
        let mut remedy = None;
        let mut extra = Duration::ZERO;
        let fault = match service.get_lookup(&query.to_text(&macs)).await {
            Ok(answer) if answer.status == 200 => match LookupAnswer::read(&answer.body) {
                Ok(found) => match token.learn(found.agent_token()) {
                    Ok(secret) => {
                        let secret = secret.to_owned();
                        return Ok((found, secret));
                    }
                    Err(NoToken::AlreadySent) => return Err(NoNode::TokenAlreadySent),
                    Err(no_token) => no_token.to_string(),
                },
                Err(error) => error.to_string(),
            },
            Ok(answer) => {
                if answer.status == 409 {
                    extra = locked.next().copied().unwrap_or_default();
                }
                remedy = remedy_of(&answer);
                explain(&answer)
            }
            Err(unanswered) => unanswered.to_string(),
        };
        let (fault, own_remedy) = with_remedy(&fault);
        let left = retry_policy.total.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(NoNode::NotInTime {
                seconds: retry_policy.total.as_secs(),
                fault: fault.to_owned(),
                remedy: own_remedy.map_or_else(|| enrol(&macs), str::to_owned),
            });
        }
        let pause = (extra + backoff.pause()).min(left);
        let remedy = remedy.map(|remedy| remedy(&macs));
        let remedy = remedy.or_else(|| own_remedy.map(str::to_owned));
        let advice = remedy.as_ref().map(|remedy| format!(" -- {remedy}"));
        tracing::warn!(
            "lookup at {}: {fault}; asking again in {:.0} s or when a NIC appears{}",
            service.base(),
            pause.as_secs_f64().ceil(),
            advice.unwrap_or_default()
        );
        status::report_retry("lookup", fault, remedy);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = query.other_nics_than(&macs) => {
                backoff.reset();
                tokio::time::sleep(NICS_SETTLE.min(left)).await;
            }
        }
    }
}

fn explain(answer: &Answer) -> String {
    match answer.status {
        404 => format!(
            "{} (Ironic has no node with these MAC addresses that waits for its agent)",
            fault(answer)
        ),
        403 => format!("{}{FORBIDDEN}", fault(answer)),
        409 => format!("{} (the node is locked)", fault(answer)),
        _ => fault(answer),
    }
}

fn enrol(macs: &[String]) -> String {
    let macs = macs.join(", ");
    format!(
        "enrol a port with one of these MAC addresses, or start its inspection or deployment: {macs}"
    )
}

/// What the operator can do about the answer, with the machine's MAC addresses.
type Remedy = fn(&[String]) -> String;

fn remedy_of(answer: &Answer) -> Option<Remedy> {
    match answer.status {
        404 => Some(enrol),
        403 => Some(|_| FORBIDDEN_REMEDY.to_owned()),
        409 => Some(|_| {
            "Ironic works on the node; if this lasts, look at the node's last error and reservation"
                .to_owned()
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_encoded_as_the_original_does() {
        let query = Query {
            network: watch::channel(NetworkState::default()).1,
            with_bmc_nics: false,
            boot_mac: None,
            node_uuid: Some("6d85-11".into()),
        };
        let macs = ["52:54:00:00:00:02", "52:54:00:00:00:03"].map(str::to_owned);
        assert_eq!(
            query.to_text(&macs),
            "addresses=52%3A54%3A00%3A00%3A00%3A02%2C52%3A54%3A00%3A00%3A00%3A03&node_uuid=6d85-11"
        );
    }
}
