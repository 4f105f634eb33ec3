//! One walk from a NIC to the service in separate steps, so that the failing step is
//! known. All sockets are bound to the NIC, so that the routes of other NICs have no
//! effect. If no NIC is chosen, the kernel's routes apply.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use landfall_http_client::{
    Answer, NoAnswer, ServiceClient, ZonedUrl, exchange, status_and_reason_of,
};
use landfall_network::reach::{self, Step, StepResult};
use landfall_network::{Way, network_on_link, routes_of, way_to};
use landfall_report::status::ON_LINK;
use nix::net::if_::if_nametoindex;
use reqwest::{Method, Url};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::expected::Expected;

/// Long enough for the resolver to ask each of three servers once. It waits about 5 s for
/// each (resolv.conf(5)).
const DNS_LIMIT: Duration = Duration::from_secs(20);
/// Ends after the kernel's third retransmission (after 1, 3 and 7 s).
const TCP_LIMIT: Duration = Duration::from_secs(8);
/// How long to wait for an answer before the walk tests the connection separately. The
/// walk does not begin with this test, because some servers log every connection
/// without a request.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How long to wait for one URL before the next one is tried in parallel.
const NEXT_URL: Duration = Duration::from_millis(300);
/// The maximum number of addresses of one name that are tried at once.
const ADDRESS_LIMIT: usize = 8;

/// No host in this network answers for the address or its gateway (ARP), as in a wrong
/// VLAN. The agent does not use the kernel's text, because docs/my-host-hangs.md
/// explains this one.
const NO_NEIGHBOUR: &str = "no route to host";

/// The NIC from which a walk starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    /// The kernel's index of the NIC.
    pub index: u32,
    pub name: String,
}

/// What one attempt to reach a URL over a NIC has found.
#[derive(Debug)]
pub(super) struct Walk {
    pub url: String,
    /// The steps from [`Step::Route`] on.
    pub steps: Vec<StepResult>,
    pub outcome: Outcome,
}

/// How a walk ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Expected(Answer),
    /// A redirect that the download follows. It may lead to the file, or to the login page
    /// of another network.
    Redirect(Answer),
    /// An unexpected answer, and what is wrong with it.
    Other(Answer, String),
    None(NoAnswer),
}

/// The settings of a walk.
#[derive(Debug, Clone)]
pub(super) struct Walker {
    pub client: ServiceClient,
    /// The NIC. `None` if the kernel's routes choose it.
    pub start: Option<Start>,
    /// The time limit of one request.
    pub limit: Duration,
    /// The kind of answer that ends the search.
    pub expected: Expected,
}

impl Walker {
    /// Walks to these URLs until one of them gives the expected answer or a redirect
    /// that the download follows. Starts with the next URL when the previous URL has
    /// failed or has not answered in time. Returns the successful walk, or all failed
    /// walks if none succeeds.
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
                    Some(walk) => match walk.outcome {
                        Outcome::Expected(_) | Outcome::Redirect(_) => return vec![walk],
                        Outcome::Other(..) | Outcome::None(_) => failed.push(walk),
                    },
                    None if waiting.is_none() => return failed,
                    None => {}
                },
                () = tokio::time::sleep(NEXT_URL), if waiting.is_some() => {}
            }
        }
    }

    /// Whether this NIC can lead to the URL. A link-local address belongs to one
    /// interface. No NIC leads to the loopback address, not even the NIC that has a
    /// default route.
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
                Ok(()) => match &answer.redirect {
                    Some(redirect) => {
                        let found = format!("redirects to {}", redirect.to);
                        steps.push(StepResult::done(Step::Http, found));
                        Outcome::Redirect(answer)
                    }
                    None => {
                        let found = format!("status {}", answer.status);
                        steps.push(StepResult::done(Step::Http, found));
                        Outcome::Expected(answer)
                    }
                },
                Err(found) => {
                    let found = found.to_string();
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
        // A proxy resolves the name and connects on our behalf.
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
            // The request took too long, so find the step that does not finish.
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

    /// At most [`ADDRESS_LIMIT`] addresses of the host, without those that this NIC has
    /// no route to. If no NIC is chosen, routes do not matter. Fails if the name does not
    /// resolve, or if this NIC has no route to any of them.
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
                let resolved = resolve(host, port).await;
                let resolved = resolved.map_err(|text| fail(steps, Step::Dns, text))?;
                let known: Vec<_> = resolved
                    .iter()
                    .map(|known| known.ip().to_string())
                    .collect();
                steps.push(StepResult::done(Step::Dns, known.join(" ")));
                resolved
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
                let text = format!("no route to {}", known.join(" "));
                let fault = fail(steps, Step::Route, text);
                steps.sort_by_key(|step| step.step);
                return Err(fault);
            }
            Some(Way::Via(gateway)) => format!("via {gateway}"),
            Some(Way::OnLink) => ON_LINK.to_owned(),
        };
        steps.insert(0, StepResult::done(Step::Route, route));
        Ok(with_way)
    }

    /// Connects to all addresses at once. One success is enough, because the HTTP
    /// client also falls back from one address family to the other.
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
        let mut silent = None;
        while let Some((target, result)) = attempts.next().await {
            match result {
                Ok(()) => {
                    steps.push(StepResult::done(Step::Tcp, "ok"));
                    return Ok(());
                }
                Err(text) => {
                    if text == NO_NEIGHBOUR {
                        silent = silent.or(Some(target.ip()));
                    }
                    faults.push(match alone {
                        true => text,
                        false => format!("{}: {text}", target.ip()),
                    });
                }
            }
        }
        let fault = fail(steps, Step::Tcp, faults.join(", "));
        // Add the remedy to the screen only: the log has a line for each attempt.
        if let Some(silent) = silent
            && let Some(remedy) = self.remedy_on_link(silent).await
            && let Some(step) = steps.last_mut()
        {
            step.text = format!("{} -- {remedy}", step.text);
        }
        Err(fault)
    }

    /// What the operator should check if no host answers for this address, although the
    /// address is on the link of the NIC. `None` if a gateway leads to the address,
    /// because the gateway may be the silent host.
    async fn remedy_on_link(&self, address: IpAddr) -> Option<String> {
        let start = self.start.as_ref()?;
        let routes = routes_of(start.index).await.unwrap_or_default();
        let length = network_on_link(address, &routes)?.length;
        let nic = &start.name;
        // A default route without a gateway says nothing about the netmask.
        (length > 0).then(|| {
            format!(
                "nobody answers for {address} on the link of {nic}: check the prefix length /{length} (the netmask), the VLAN of the switch port, and that the host is up; a switch port may take 50 s to forward"
            )
        })
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
            Ok(Err(error)) if error.kind() == io::ErrorKind::HostUnreachable => {
                Err(NO_NEIGHBOUR.to_owned())
            }
            Ok(Err(error)) => Err(in_words(&error)),
            Err(_) => Err(format!("no answer in {} s", TCP_LIMIT.as_secs())),
        }
    }

    /// Sends the request without testing the steps before HTTP separately.
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
            // A signed link is only valid for GET, so HEAD would be rejected.
            Expected::File => {
                status_and_reason_of(request(url)?.header("Range", "bytes=0-0")).await
            }
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

/// The kernel needs the interface of a link-local address.
fn in_zone(mut address: SocketAddr, zone: Option<&str>) -> SocketAddr {
    let index = zone.and_then(|zone| if_nametoindex(zone).ok());
    if let (SocketAddr::V6(v6), Some(index)) = (&mut address, index) {
        v6.set_scope_id(index);
    }
    address
}

/// Records a failed step.
fn fail(steps: &mut Vec<StepResult>, step: Step, text: String) -> NoAnswer {
    steps.push(StepResult::failed(step, text.as_str()));
    NoAnswer::because(format!("{}: {text}", step.name()))
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    match timeout(DNS_LIMIT, tokio::net::lookup_host((host, port))).await {
        Ok(Ok(found)) => Ok(found.take(ADDRESS_LIMIT).collect()),
        // Shorten the error `failed to lookup address information: Name or service not
        // known`.
        Ok(Err(error)) => Err(format!("{host}: {}", last_words(&error.to_string()))),
        Err(_) => Err(format!("{host}: no answer in {} s", DNS_LIMIT.as_secs())),
    }
}

fn last_words(text: &str) -> String {
    let words = text.rsplit(": ").next().unwrap_or(text);
    words.to_ascii_lowercase()
}

/// Removes the number from `Connection refused (os error 111)`.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_ascii_lowercase(),
        None => text,
    }
}

/// The number of the walk's successful steps. Of two walks, the one with more steps came
/// closer to the service.
pub(super) fn length(walk: &Walk) -> usize {
    let done = |step: &&StepResult| step.outcome == reach::Outcome::Done;
    walk.steps.iter().filter(done).count()
}

#[cfg(test)]
mod tests;
