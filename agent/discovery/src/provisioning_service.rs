//! Finds the provisioning service, or another server that the boot depends on: the
//! first of the given URLs that answers.

use std::mem;
use std::time::Duration;

use landfall_http_client::ServiceClient;
use landfall_network::NetworkState;
use landfall_network::reach::Reach;
use landfall_report::failure::{Failure, Result};
use landfall_sys::backoff::Backoff;
use reqwest::Url;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::expected::Expected;
use super::mdns::{Question, ask_network};
use super::mdns_advert::Endpoint;
use super::other_answers::GRACE;
use super::reach_screen;
use super::reached::Reached;
use super::search::{News, Search, Untrusted};
use super::walk::Walker;
use crate::clock::{Clock, Occasion};

/// The pauses between mDNS queries without an answer.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long to try a URL from mDNS before the agent queries mDNS again.
const MDNS_URL_LIMIT: Duration = Duration::from_secs(120);
/// How long to wait until the network prefers a NIC. The network needs a few requests
/// to the kernel for this.
const PREFERENCE_LIMIT: Duration = Duration::from_secs(2);

/// The name of Ironic's API on the console.
pub const PROVISIONING_SERVICE: &str = "provisioning service";

/// What to look for, where, and how long to wait for one answer.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The name of the server, for the console.
    pub what: &'static str,
    /// The source of the URLs.
    pub place: Place,
    /// The kind of answer that ends the search.
    pub expected: Expected,
    /// The time limit of one attempt.
    pub timeout: Duration,
    /// Whether to give up if the server's certificate can never become trusted. If
    /// false, the search continues, because the server may get another certificate.
    pub must_be_trusted: bool,
}

/// The source of the URLs of a service.
#[derive(Debug, Clone)]
pub enum Place {
    /// Base URLs of a service, or URLs of one file, tried in this order.
    Urls(Vec<String>),
    /// Ask the network by mDNS, again in each round.
    Mdns(Question),
}

/// A service that answered.
#[derive(Debug, Clone)]
pub struct FoundService {
    /// All base URLs without a trailing slash: first the URL that answered, then the
    /// URLs after it in the list, then the URLs before it.
    pub urls: Vec<String>,
    /// The answer to `GET /`, which contains the API version.
    pub document: String,
    /// Settings from the mDNS answer.
    pub settings: Vec<(String, String)>,
}

/// Tries every URL from every NIC until one URL answers, with growing pauses. A change
/// of a NIC ends the pause of that NIC. The search does not give up: the service may be
/// rebooting, and this machine has nothing else to do. Meanwhile the console shows how
/// far each NIC has come.
///
/// An unexpected HTTP answer only counts if no better answer comes within a minute,
/// because a proxy in the network of another NIC may be faster than the service. (The
/// time is 10 s if only a NIC that has not appeared yet could bring a better answer.) A
/// redirect only counts if no other NIC reaches the file within a few seconds, because
/// the redirect may come from a captive portal. After the search the network prefers the
/// NIC that reached the service. The `Date` header of the answer can set the clock, see
/// [`Clock::compare_with`].
///
/// # Errors
/// If the server is not trusted and [must be trusted](Wanted::must_be_trusted).
pub async fn find(
    client: &ServiceClient,
    wanted: &Wanted,
    network: &mut watch::Receiver<NetworkState>,
    reach: &watch::Sender<Reach>,
    clock: &mut Clock,
) -> Result<FoundService> {
    // Remove the results of an earlier search, which was for another service.
    reach.send_if_modified(|reach| !mem::take(&mut reach.ways).is_empty());
    loop {
        let (urls, settings, limit) = match &wanted.place {
            Place::Urls(urls) => (urls.clone(), Vec::new(), None),
            Place::Mdns(question) => {
                let (url, settings) = query_mdns(question, network).await;
                (vec![url], settings, Some(MDNS_URL_LIMIT))
            }
        };
        let mut urls: Vec<String> = urls
            .iter()
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        let search = search(client, wanted, &urls, network, reach, clock);
        let reached = match limit {
            None => search.await?,
            // The service may have moved since it published the URL.
            Some(limit) => match tokio::time::timeout(limit, search).await {
                Ok(reached) => reached?,
                Err(_) => continue,
            },
        };
        let first = urls.iter().position(|url| *url == reached.url);
        urls.rotate_left(first.unwrap_or(0));
        return Ok(FoundService {
            urls,
            document: reached.answer.body,
            settings,
        });
    }
}

/// Repeats the mDNS query until an answer contains a URL.
async fn query_mdns(
    question: &Question,
    network: &mut watch::Receiver<NetworkState>,
) -> (String, Vec<(String, String)>) {
    let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        match ask_network(question).await {
            Ok((instance, Endpoint { url, settings })) => {
                tracing::info!("mDNS: {instance} is at {url}");
                return (url, settings);
            }
            Err(fault) => tracing::warn!("mDNS: {fault}"),
        }
        let pause = backoff.pause();
        tracing::info!(
            "asking again in {:.0} s or when the network changes",
            pause.as_secs_f64().ceil()
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = network.changed() => match changed {
                Ok(()) => backoff.reset(),
                // The network task has ended, so its last state does not change any more.
                Err(_) => tokio::time::sleep(pause).await,
            },
        }
    }
}

async fn search(
    client: &ServiceClient,
    wanted: &Wanted,
    urls: &[String],
    network: &mut watch::Receiver<NetworkState>,
    reach: &watch::Sender<Reach>,
    clock: &mut Clock,
) -> Result<Reached> {
    let timeout = wanted.timeout;
    let mut search = Search::new(client, urls, timeout, wanted.expected);
    let mut give_up: Option<(Instant, Failure)> = None;
    loop {
        let news = search.news(network, reach);
        let news = match &give_up {
            None => news.await,
            Some((at, why)) => match timeout_at(*at, news).await {
                Ok(news) => news,
                // Before giving up, use any other answer: the server that sent it is trusted.
                Err(_) => News::Reached(search.take_other().ok_or_else(|| why.clone())?),
            },
        };
        match news {
            News::Reached(reached) => {
                prefer(wanted.what, &reached, network, reach).await;
                if let Some(date) = &reached.answer.date {
                    clock.compare_with(date, &reached.url, Occasion::Answer);
                }
                return Ok(reached);
            }
            News::Untrusted(untrusted) => {
                // Our clock may be wrong, so request the date of the service. If that
                // does not set the clock, continue without a correction.
                if untrusted.about_time && clock_by(client, &untrusted, timeout, clock).await {
                    search.begin_again();
                    give_up = None;
                    continue;
                }
                if wanted.must_be_trusted && untrusted.for_good {
                    // Another NIC may lead to the right server.
                    let at = Instant::now() + GRACE;
                    give_up.get_or_insert_with(|| (at, not_trusted(untrusted)));
                }
            }
        }
    }
}

/// Reports the NIC that reached the service, and waits until the kernel prefers its
/// routes.
async fn prefer(
    what: &str,
    reached: &Reached,
    network: &mut watch::Receiver<NetworkState>,
    reach: &watch::Sender<Reach>,
) {
    let (url, redirect) = (&reached.url, reached.redirect_in_words());
    let Some(over) = reached.over else {
        tracing::info!("{what} answers at {url}{redirect}");
        // It is not known which NIC the kernel chose, and the failed steps of the NICs
        // are outdated, so clear them.
        reach.send_if_modified(|reach| !mem::take(&mut reach.ways).is_empty());
        return;
    };
    let way = reach_screen::short(over, &network.borrow(), &reach.borrow());
    tracing::info!("{what} answers at {url}, {way}{redirect}");
    reach.send_modify(|reach| reach.over = Some(over));
    let preferred = network.wait_for(|state| state.preferred == Some(over));
    // The agent continues without a preference, because the routes may lead to the
    // service anyway.
    let _ = tokio::time::timeout(PREFERENCE_LIMIT, preferred).await;
}

fn not_trusted(Untrusted { url, reason, .. }: Untrusted) -> Failure {
    Failure::image_download(format!("{url}: {reason}"))
        .hint_from_details()
        .permanently()
}

/// Whether the date of the server's answer has set our clock. Sends the request over
/// the NIC that received the certificate, because the default route over another NIC
/// may lead nowhere.
async fn clock_by(
    client: &ServiceClient,
    untrusted: &Untrusted,
    timeout: Duration,
    clock: &mut Clock,
) -> bool {
    let Ok(anybody) = client.trusting_anybody() else {
        return false;
    };
    let walker = Walker {
        client: anybody,
        start: untrusted.start.clone(),
        limit: timeout,
        expected: Expected::File,
    };
    let url = root_of(&untrusted.url);
    let answer = walker.get(&url).await.ok();
    let date = answer.and_then(|answer| answer.date);
    date.is_some_and(|date| clock.compare_with(&date, &url, Occasion::RefusedCertificate))
}

/// The URL of the server without user, path and query, because these may be secret and
/// must not be sent to a server that is not authenticated.
fn root_of(url: &str) -> String {
    match Url::parse(url) {
        Ok(parsed) if parsed.has_host() => format!("{}/", parsed.origin().ascii_serialization()),
        // The URL parser rejects a link-local address with a zone.
        _ => {
            let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/")
        }
    }
}

#[cfg(test)]
mod tests;
