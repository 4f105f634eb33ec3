//! The provisioning service, or another that the boot depends on: the first of
//! the given URLs that answers.

use std::time::Duration;

use reqwest::Url;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::expected::Expected;
use super::mdns::{Question, ask_network};
use super::mdns_advert::Endpoint;
use super::other_answers::GRACE;
use super::reach_screen;
use super::search::{News, Reached, Search, Untrusted};
use super::walk::Walker;
use crate::backoff::Backoff;
use crate::clock::{Clock, Occasion};
use crate::failure::{Class, Failure, Result};
use crate::http_client::ServiceClient;
use crate::network::NetworkState;
use crate::network::reach::Reach;

/// Between two questions by mDNS that nobody has answered.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a URL is tried that came by mDNS.
const ASK_AGAIN: Duration = Duration::from_secs(120);
/// How long the network may take to prefer a NIC: some requests to the kernel.
const PREFERENCE_LIMIT: Duration = Duration::from_secs(2);

/// What the service of Ironic's API is called on the console.
pub const PROVISIONING_SERVICE: &str = "provisioning service";

/// Where to look and how long to wait for one answer.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What answers there, for the console.
    pub what: &'static str,
    /// Where the URLs are.
    pub place: Place,
    /// Which answers are those of the service.
    pub expected: Expected,
    /// Limit of one try.
    pub timeout: Duration,
    /// Give up if the server shows a certificate that will never be trusted.
    /// Without it the search goes on: the server may get another.
    pub must_be_trusted: bool,
}

/// Where the URLs of a service come from.
#[derive(Debug, Clone)]
pub enum Place {
    /// Base URLs of a service, or those of one file, tried in this order.
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

/// Tries every URL from every NIC until one answers, with growing pauses; a
/// change of the network ends the pause of the NIC that it is about. Does not
/// give up: the service may be rebooting itself, and this machine has nothing
/// better to do. Meanwhile the console shows how far each NIC has come.
///
/// Any other HTTP answer than the expected one counts only if nothing better
/// has come within a minute: a proxy in the network of another NIC may be
/// faster. The NIC that led to the service is preferred from now on; the date
/// of the answer sets a clock that is obviously wrong.
///
/// # Errors
/// That a server which [must be trusted](Wanted::must_be_trusted) is not.
pub async fn find(
    client: &ServiceClient,
    wanted: &Wanted,
    network: &mut watch::Receiver<NetworkState>,
    reach: &watch::Sender<Reach>,
    clock: &mut Clock,
) -> Result<Found> {
    loop {
        let (urls, settings, limit) = match &wanted.place {
            Place::Urls(urls) => (urls.clone(), Vec::new(), None),
            Place::Mdns(question) => {
                let (url, settings) = heard(question, network).await;
                (vec![url], settings, Some(ASK_AGAIN))
            }
        };
        let mut urls: Vec<String> = urls
            .iter()
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        let search = search(client, wanted, &urls, network, reach, clock);
        let reached = match limit {
            None => search.await?,
            // Whoever has published the URL may have moved.
            Some(limit) => match tokio::time::timeout(limit, search).await {
                Ok(reached) => reached?,
                Err(_) => continue,
            },
        };
        let first = urls.iter().position(|url| *url == reached.url);
        urls.rotate_left(first.unwrap_or(0));
        return Ok(Found {
            urls,
            document: reached.answer.body,
            settings,
        });
    }
}

/// Asks the network for the service until somebody says where it is.
async fn heard(
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
                // The network's task is gone; its last state stays.
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
                // A server that can be trusted has answered something.
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
                // Our clock may be wrong: then the service is asked for the date
                // alone. Without one the clock has to be taken as it is.
                if untrusted.about_time && clock_by(client, &untrusted, timeout, clock).await {
                    search.begin_again();
                    give_up = None;
                    continue;
                }
                if wanted.must_be_trusted && untrusted.for_good {
                    // Another NIC may lead to the right one.
                    let at = Instant::now() + GRACE;
                    give_up.get_or_insert_with(|| (at, not_trusted(untrusted)));
                }
            }
        }
    }
}

/// Says over which NIC the service was reached, and waits until the kernel
/// sends everything there.
async fn prefer(
    what: &str,
    reached: &Reached,
    network: &mut watch::Receiver<NetworkState>,
    reach: &watch::Sender<Reach>,
) {
    let url = &reached.url;
    let Some(over) = reached.over else {
        tracing::info!("{what} answers at {url}");
        return;
    };
    let way = reach_screen::short(over, &network.borrow(), &reach.borrow());
    tracing::info!("{what} answers at {url}, {way}");
    reach.send_modify(|reach| reach.over = Some(over));
    let preferred = network.wait_for(|state| state.preferred == Some(over));
    // Without it the routes may lead there all the same.
    let _ = tokio::time::timeout(PREFERENCE_LIMIT, preferred).await;
}

fn not_trusted(Untrusted { url, reason, .. }: Untrusted) -> Failure {
    Failure::new(Class::ImageDownloadError, format!("{url}: {reason}")).permanently()
}

/// Whether the date of the server's answer has set our clock. Asks over the NIC
/// that has met the certificate: the default route of another may lead nowhere.
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

/// The server alone, without what may be secret: user, file and query are not for
/// somebody who has not proven who it is.
fn root_of(url: &str) -> String {
    match Url::parse(url) {
        Ok(parsed) if parsed.has_host() => format!("{}/", parsed.origin().ascii_serialization()),
        // A link-local address with its zone, which has none of them.
        _ => format!("{url}/"),
    }
}

#[cfg(test)]
mod tests;
