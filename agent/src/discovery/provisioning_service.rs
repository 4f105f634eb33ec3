//! The provisioning service: the first of the given URLs that answers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reqwest::{Method, Url};
use tokio::sync::watch;

use super::advertised_address::source_address_towards;
use crate::backoff::Backoff;
use crate::http_client::{ServiceClient, exchange};

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Where to look and how long to wait for one answer.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Base URLs, tried in this order.
    pub urls: Vec<String>,
    /// Limit of one try.
    pub timeout: Duration,
}

/// A service that answered.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its base URL, without a slash at the end.
    pub base: String,
    /// What `GET /` answered: the API version is in it.
    pub document: String,
    /// Our address on the way there, by which the service can call back.
    pub source: IpAddr,
}

/// Tries every URL until one answers, with growing pauses; a change of the
/// network ends a pause at once. Does not give up: the service may be rebooting
/// itself, and this machine has nothing better to do.
pub async fn find<T>(
    client: &ServiceClient,
    wanted: &Wanted,
    network: &mut watch::Receiver<T>,
) -> Found {
    let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        for url in &wanted.urls {
            match ask(client, url, wanted.timeout).await {
                Ok(found) => {
                    tracing::info!("provisioning service answers at {}", found.base);
                    return found;
                }
                Err(fault) => tracing::warn!("no answer from {url}: {fault}"),
            }
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

/// Any HTTP answer counts: a 503 comes from a service too.
async fn ask(client: &ServiceClient, base: &str, timeout: Duration) -> Result<Found, String> {
    let base = base.trim_end_matches('/').to_owned();
    let url = Url::parse(&format!("{base}/")).map_err(|error| error.to_string())?;
    let source = source_towards(&url).await?;
    let request = client
        .request(Method::GET, url.as_str())
        .map_err(|failure| failure.details)?
        .header("Accept", "application/json")
        .timeout(timeout);
    let answer = exchange(request).await.map_err(|fault| fault.text)?;
    Ok(Found {
        base,
        document: answer.body,
        source,
    })
}

/// Resolves the host and asks the routes, so that "no such name" and "no
/// route" are told apart from "nobody listens".
async fn source_towards(url: &Url) -> Result<IpAddr, String> {
    let host = url.host_str().ok_or("the URL names no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().ok_or("the URL names no port")?;
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| format!("resolving {host}: {error}"))?
        .collect();
    let mut fault = format!("{host} has no address");
    for address in addresses {
        match source_address_towards(address) {
            Ok(source) => return Ok(source),
            Err(text) => fault = text,
        }
    }
    Err(fault)
}
