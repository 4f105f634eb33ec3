//! The provisioning service: the first of the given URLs that answers.

use std::time::Duration;

use reqwest::Method;
use tokio::sync::watch;

use super::mdns::{Question, ask_network};
use super::mdns_advert::Endpoint;
use crate::backoff::Backoff;
use crate::clock::{Clock, Occasion};
use crate::http_client::{Answer, NoAnswer, ServiceClient, exchange};

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Where to look and how long to wait for one answer.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where the URLs are.
    pub place: Place,
    /// Limit of one try.
    pub timeout: Duration,
}

/// Where the URLs of a service come from.
#[derive(Debug, Clone)]
pub enum Place {
    /// Base URLs, tried in this order.
    Urls(Vec<String>),
    /// The network is asked, again in each round.
    Mdns(Question),
}

/// A service that answered.
#[derive(Debug, Clone)]
pub struct Found {
    /// All base URLs, without a slash at the end: the one that answered, then
    /// those behind it in the list, then those before it.
    pub urls: Vec<String>,
    /// What `GET /` answered: the API version is in it.
    pub document: String,
    /// Settings that came with an mDNS answer.
    pub settings: Vec<(String, String)>,
}

/// Tries every URL until one answers, with growing pauses; a change of the
/// network ends a pause at once. Does not give up: the service may be rebooting
/// itself, and this machine has nothing better to do.
///
/// The date of the answer sets a clock that is obviously wrong.
pub async fn find<T>(
    client: &ServiceClient,
    wanted: &Wanted,
    network: &mut watch::Receiver<T>,
    clock: &mut Clock,
) -> Found {
    let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        if let Some(found) = one_round(client, wanted, clock).await {
            return found;
        }
        let pause = backoff.pause();
        tracing::info!(
            "looking for the provisioning service again in {:.0} s or when the network changes",
            pause.as_secs_f64().ceil()
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = network.changed() => match changed {
                Ok(()) => backoff.reset(),
                // The network's task is gone; its last state stays.
                Err(_) => tokio::time::sleep(pause).await,
            },
        }
    }
}

async fn one_round(client: &ServiceClient, wanted: &Wanted, clock: &mut Clock) -> Option<Found> {
    let (urls, settings) = match &wanted.place {
        Place::Urls(urls) => (urls.clone(), Vec::new()),
        Place::Mdns(question) => match ask_network(question).await {
            Ok((instance, Endpoint { url, settings })) => {
                tracing::info!("mDNS: {instance} is at {url}");
                (vec![url], settings)
            }
            Err(fault) => {
                tracing::warn!("mDNS: {fault}");
                return None;
            }
        },
    };
    let mut urls: Vec<String> = urls
        .iter()
        .map(|url| url.trim_end_matches('/').to_owned())
        .collect();
    for (number, url) in urls.iter().enumerate() {
        match ask(client, url, wanted.timeout, clock).await {
            Ok(document) => {
                tracing::info!("provisioning service answers at {url}");
                urls.rotate_left(number);
                return Some(Found {
                    urls,
                    document,
                    settings,
                });
            }
            Err(fault) => tracing::warn!("no answer from {url}: {fault}"),
        }
    }
    None
}

/// Any HTTP answer counts: a 503 comes from a service too. A certificate that is
/// refused for its dates may mean that our clock is wrong: then the service is
/// asked for the date alone, and once more.
async fn ask(
    client: &ServiceClient,
    base: &str,
    timeout: Duration,
    clock: &mut Clock,
) -> Result<String, String> {
    let url = format!("{base}/");
    let answer = match get(client, &url, timeout).await {
        Err(fault) if fault.about_time && date_helps(client, &url, timeout, clock).await => {
            get(client, &url, timeout).await
        }
        answer => answer,
    };
    let answer = answer.map_err(|fault| fault.text)?;
    if let Some(date) = &answer.date {
        clock.compare_with(date, base, Occasion::Answer);
    }
    Ok(answer.body)
}

async fn date_helps(
    client: &ServiceClient,
    url: &str,
    timeout: Duration,
    clock: &mut Clock,
) -> bool {
    let Ok(anybody) = client.trusting_anybody() else {
        return false;
    };
    let date = match get(&anybody, url, timeout).await {
        Ok(answer) => answer.date,
        Err(_) => None,
    };
    date.is_some_and(|date| clock.compare_with(&date, url, Occasion::RefusedCertificate))
}

async fn get(client: &ServiceClient, url: &str, timeout: Duration) -> Result<Answer, NoAnswer> {
    let request = client
        .request(Method::GET, url)
        .map_err(|failure| NoAnswer::because(failure.details))?;
    exchange(
        request
            .header("Accept", "application/json")
            .timeout(timeout),
    )
    .await
}

#[cfg(test)]
mod tests;
