//! One walk from a NIC to the service, step by step, so that it is known which
//! one fails. All sockets are bound to the NIC: what a default route of another
//! would do is of no interest here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nix::net::if_::if_nametoindex;
use reqwest::{Method, Url};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::expected::Expected;
use crate::http_client::{Answer, NoAnswer, ServiceClient, ZonedUrl, exchange, status_of};
use crate::network::reach::{self, Step, StepResult};
use crate::network::{Way, routes_of, way_to};

/// The resolver asks up to three servers, 5 s each (resolv.conf(5)).
const DNS_LIMIT: Duration = Duration::from_secs(20);
/// After the kernel's third repetition (1, 3 and 7 s).
const TCP_LIMIT: Duration = Duration::from_secs(8);
/// How long an answer is waited for until it is asked whether there is anybody:
/// each connection without a request is a line in some server's log.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How long a URL may be silent until the next one is tried beside it.
const NEXT_URL: Duration = Duration::from_millis(300);
/// Most addresses of one name that are tried at once.
const ADDRESS_LIMIT: usize = 8;

/// From where a walk starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    /// The kernel's index of the NIC.
    pub index: u32,
    /// Its name.
    pub name: String,
}

/// What became of a walk.
#[derive(Debug)]
pub(super) struct Walk {
    /// Where to.
    pub url: String,
    /// Its steps from [`Step::Route`] on.
    pub steps: Vec<StepResult>,
    /// What the service says.
    pub outcome: Outcome,
}

/// How a walk ends.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With the expected answer.
    Expected(Answer),
    /// With an answer of somebody else, and what was found instead.
    Other(Answer, String),
    /// Without an answer.
    None(NoAnswer),
}

/// Who walks, and how.
#[derive(Debug, Clone)]
pub(super) struct Walker {
    /// For the requests.
    pub client: ServiceClient,
    /// `None`: by whatever route there is.
    pub start: Option<Start>,
    /// Limit of one request.
    pub limit: Duration,
    /// Which answers end the search.
    pub expected: Expected,
}

impl Walker {
    /// Walks to all of these until one answers. Each is tried when the one
    /// before it has failed or is silent. Returns the one that answered, else
    /// all of them.
    pub(super) async fn walk_to_any(&self, urls: &[String]) -> Vec<Walk> {
        let mut ahead = urls.iter().filter(|url| self.is_meant(url));
        let mut waiting = ahead.next();
        let mut running = FuturesUnordered::new();
        let mut failed = Vec::new();
        loop {
            if let Some(url) = waiting {
                running.push(self.walk(url));
                waiting = ahead.next();
            }
            tokio::select! {
                walk = running.next() => match walk {
                    Some(walk) if matches!(walk.outcome, Outcome::Expected(_)) => {
                        return vec![walk];
                    }
                    Some(walk) => failed.push(walk),
                    None if waiting.is_none() => return failed,
                    None => {}
                },
                () = tokio::time::sleep(NEXT_URL), if waiting.is_some() => {}
            }
        }
    }

    /// A link-local address belongs to one interface. No NIC leads to this
    /// machine's loopback, even if it has a default route.
    fn is_meant(&self, url: &str) -> bool {
        let Some(start) = &self.start else {
            return true;
        };
        let zoned = ZonedUrl::parse(url);
        match zoned.interface {
            Some(zone) => if_nametoindex(zone.as_str()) == Ok(start.index),
            None => !is_loopback(&zoned.url),
        }
    }

    async fn walk(&self, url: &str) -> Walk {
        let mut steps = Vec::new();
        let outcome = match self.go(url, &mut steps).await {
            Err(fault) => Outcome::None(fault),
            Ok(answer) => match self.expected.check(&answer) {
                Ok(()) => {
                    let status = format!("status {}", answer.status);
                    steps.push(StepResult::done(Step::Http, status));
                    Outcome::Expected(answer)
                }
                Err(found) => {
                    steps.push(StepResult::failed(Step::Http, found.as_str()));
                    Outcome::Other(answer, found)
                }
            },
        };
        Walk {
            url: url.to_owned(),
            steps,
            outcome,
        }
    }

    async fn go(&self, url: &str, steps: &mut Vec<StepResult>) -> Result<Answer, NoAnswer> {
        let zoned = ZonedUrl::parse(url);
        let parsed = Url::parse(&zoned.url);
        let parsed = parsed.map_err(|error| fail(steps, Step::Http, error.to_string()))?;
        let is_tls = parsed.scheme() == "https";
        // A proxy resolves and connects in our place.
        let targets = match self.client.has_proxy_for(parsed.scheme()) {
            true => Vec::new(),
            false => {
                let zone = zoned.interface.as_deref();
                self.targets(&parsed, zone, steps).await?
            }
        };
        let answer = self.get(url);
        tokio::pin!(answer);
        let mut is_connected = targets.is_empty();
        let answer = match timeout(FIRST_LOOK, &mut answer).await {
            Ok(answer) => answer,
            // Where does it hang?
            Err(_) => {
                self.connect(&targets, steps).await?;
                is_connected = true;
                answer.await
            }
        };
        let failed_at = match &answer {
            Err(fault) if fault.in_connecting => {
                if !is_connected {
                    self.connect(&targets, steps).await?;
                }
                if is_tls { Step::Tls } else { Step::Tcp }
            }
            _ => Step::Http,
        };
        let before = [Step::Tcp, Step::Tls].into_iter();
        for step in before.filter(|step| *step < failed_at && (is_tls || *step != Step::Tls)) {
            if steps.iter().all(|known| known.step != step) {
                steps.push(StepResult::done(step, "ok"));
            }
        }
        match answer {
            Ok(answer) => Ok(answer),
            Err(fault) => Err(NoAnswer {
                text: fail(steps, failed_at, fault.text).text,
                ..fault
            }),
        }
    }

    /// The addresses of the host to which there is a way.
    async fn targets(
        &self,
        url: &Url,
        zone: Option<&str>,
        steps: &mut Vec<StepResult>,
    ) -> Result<Vec<SocketAddr>, NoAnswer> {
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or_default();
        let addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![in_zone(SocketAddr::new(address, port), zone)],
            Err(_) => {
                let found = resolve(host, port).await;
                let found = found.map_err(|text| fail(steps, Step::Dns, text))?;
                let known: Vec<_> = found.iter().map(|known| known.ip().to_string()).collect();
                steps.push(StepResult::done(Step::Dns, known.join(" ")));
                found
            }
        };
        let Some(start) = &self.start else {
            return Ok(addresses);
        };
        let routes = routes_of(start.index).await.unwrap_or_default();
        let mut first = None;
        let with_way: Vec<_> = addresses
            .iter()
            .filter(|address| {
                let way = way_to(address.ip(), &routes);
                first = first.or(way);
                way.is_some()
            })
            .copied()
            .collect();
        let route = match first {
            None => {
                let known: Vec<_> = addresses.iter().map(|a| a.ip().to_string()).collect();
                let text = format!("none to {}", known.join(" "));
                let fault = fail(steps, Step::Route, text);
                steps.sort_by_key(|step| step.step);
                return Err(fault);
            }
            Some(Way::Via(gateway)) => format!("via {gateway}"),
            Some(Way::OnLink) => "on the link".to_owned(),
        };
        steps.insert(0, StepResult::done(Step::Route, route));
        Ok(with_way)
    }

    /// Connects to all of them at once; one that does is enough, as it is for
    /// the HTTP client, which goes from one address family to the other.
    async fn connect(
        &self,
        targets: &[SocketAddr],
        steps: &mut Vec<StepResult>,
    ) -> Result<(), NoAnswer> {
        if targets.is_empty() {
            return Ok(());
        }
        let alone = targets.len() == 1;
        let mut attempts: FuturesUnordered<_> = targets
            .iter()
            .map(|target| async move { (target, self.connect_to(*target).await) })
            .collect();
        let mut faults = Vec::new();
        while let Some((target, result)) = attempts.next().await {
            match result {
                Ok(()) => {
                    steps.push(StepResult::done(Step::Tcp, "ok"));
                    return Ok(());
                }
                Err(text) if alone => faults.push(text),
                Err(text) => faults.push(format!("{}: {text}", target.ip())),
            }
        }
        Err(fail(steps, Step::Tcp, faults.join(", ")))
    }

    async fn connect_to(&self, target: SocketAddr) -> Result<(), String> {
        let connect = async {
            let socket = match target {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            if let Some(start) = &self.start {
                socket.bind_device(Some(start.name.as_bytes()))?;
            }
            socket.connect(target).await.map(drop)
        };
        match timeout(TCP_LIMIT, connect).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(in_words(&error)),
            Err(_) => Err(format!("no answer in {} s", TCP_LIMIT.as_secs())),
        }
    }

    /// What is answered at a URL, without looking at the way.
    pub(super) async fn get(&self, url: &str) -> Result<Answer, NoAnswer> {
        let interface = self.start.as_ref().map(|start| start.name.as_str());
        let request = |url: &str| {
            let request = self.client.request_over(interface, Method::GET, url);
            let request = request.map_err(|failure| NoAnswer::because(failure.details))?;
            Ok::<_, NoAnswer>(request.timeout(self.limit))
        };
        match self.expected {
            Expected::Ironic => {
                let request = request(&format!("{}/", url.trim_end_matches('/')))?;
                exchange(request.header("Accept", "application/json")).await
            }
            // A signed link is for GET alone, so HEAD would be refused.
            Expected::File => status_of(request(url)?.header("Range", "bytes=0-0")).await,
        }
    }
}

fn is_loopback(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

/// The kernel wants to know the interface of a link-local address.
fn in_zone(mut address: SocketAddr, zone: Option<&str>) -> SocketAddr {
    let index = zone.and_then(|zone| if_nametoindex(zone).ok());
    if let (SocketAddr::V6(v6), Some(index)) = (&mut address, index) {
        v6.set_scope_id(index);
    }
    address
}

/// Notes a step that was tried in vain.
fn fail(steps: &mut Vec<StepResult>, step: Step, text: String) -> NoAnswer {
    steps.push(StepResult::failed(step, text.as_str()));
    NoAnswer::because(format!("{}: {text}", step.name()))
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    match timeout(DNS_LIMIT, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(found)) => Ok(found.take(ADDRESS_LIMIT).collect()),
        // `failed to lookup address information: Name or service not known`
        Ok(Err(error)) => Err(format!("{host}: {}", last_words(&error.to_string()))),
        Err(_) => Err(format!("{host}: no answer in {} s", DNS_LIMIT.as_secs())),
    }
}

fn last_words(text: &str) -> String {
    let words = text.rsplit(": ").next().unwrap_or(text);
    words.to_ascii_lowercase()
}

/// `Connection refused (os error 111)`: the words are enough.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_ascii_lowercase(),
        None => text,
    }
}

/// How far a walk came: the number of steps that are done.
pub(super) fn length(walk: &Walk) -> usize {
    let done = |step: &&StepResult| step.outcome == reach::Outcome::Done;
    walk.steps.iter().filter(done).count()
}

#[cfg(test)]
mod tests;
