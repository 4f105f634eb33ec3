//! Looks for Ironic by multicast DNS (RFC 6762, RFC 6763).
//!
//! Ironic publishes the instance `baremetal` of the type `_openstack._tcp`. Ironic's
//! agent queries that instance by its name. Landfall browses the type, which finds the
//! same instance.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use landfall_http_client::ZonedUrl;
use landfall_report::failure::Failure;
use mdns_sd::{IfKind, Receiver, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent};

use super::advertised_address::route_source;
use super::mdns_advert::{Advert, AdvertAddress, AdvertError, Endpoint};

const SERVICE_TYPE: &str = "_openstack._tcp.local.";
/// The time limit of one attempt, and the pause after the first attempt. The
/// pause doubles each time, as in Ironic's agent.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How much longer to wait for the preferred instance after another instance has
/// answered.
const PREFERENCE_LIMIT: Duration = Duration::from_secs(1);
/// How much longer to wait for other addresses of an instance. The host of the instance
/// sends one packet for each address family and each NIC (measured: a link-local
/// address first, the IPv4 address some milliseconds later).
const SETTLING: Duration = Duration::from_millis(300);
/// The maximum number of events in one attempt. Without a limit, a flood of packets on
/// the link could extend the attempt.
const ANSWER_LIMIT: usize = 256;

/// The mDNS query: which instances are acceptable, and where to ask.
#[derive(Debug, Clone)]
pub struct Question {
    /// The acceptable instances, the preferred one first.
    pub instances: &'static [&'static str],
    /// The number of attempts.
    pub attempts: u32,
    /// Query only on the interfaces with these addresses. If none of these texts is an
    /// address, query on all interfaces.
    pub interfaces: Vec<String>,
    /// Reject an answer with plain http. Set if this boot verifies servers, because any
    /// host on the network can answer an mDNS query.
    pub https_only: bool,
}

/// Asks the network. Returns the name of the instance and its endpoint.
///
/// # Errors
/// If no host answered in time, or if the answer is unusable.
pub async fn ask_network(question: &Question) -> Result<(&'static str, Endpoint), Failure> {
    let mut pause = FIRST_PAUSE;
    let mut fault = String::new();
    for attempt in 0..question.attempts.max(1) {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        // Each attempt creates a new mDNS daemon, because interfaces may have come up
        // since the previous attempt.
        match attempt_once(question).await {
            Ok(found) => return Ok(found),
            Err(text) => fault = text,
        }
    }
    Err(Failure::other(fault))
}

async fn attempt_once(question: &Question) -> Result<(&'static str, Endpoint), String> {
    let failed = |error: mdns_sd::Error| error.to_string();
    let daemon = ServiceDaemon::new().map_err(failed)?;
    let listened = async {
        choose_interfaces(&daemon, &question.interfaces).map_err(failed)?;
        let answers = daemon.browse(SERVICE_TYPE).map_err(failed)?;
        best_answer(&answers, question).await
    }
    .await;
    // The daemon's thread ends on its own after this call.
    let _ = daemon.shutdown();
    listened
}

fn choose_interfaces(daemon: &ServiceDaemon, addresses: &[String]) -> mdns_sd::Result<()> {
    let chosen: Vec<IfKind> = addresses
        .iter()
        .filter_map(|text| match text.parse::<IpAddr>() {
            Ok(address) => Some(IfKind::Addr(address)),
            Err(_) => {
                tracing::warn!("mDNS: {text}: expected the address of an interface; ignored");
                None
            }
        })
        .collect();
    if !chosen.is_empty() {
        daemon.disable_interface(IfKind::All)?;
        daemon.enable_interface(chosen)?;
    }
    Ok(())
}

/// The best instance that is resolved within one attempt.
async fn best_answer(
    answers: &Receiver<ServiceEvent>,
    question: &Question,
) -> Result<(&'static str, Endpoint), String> {
    let instances = question.instances;
    let mut deadline = Instant::now() + ATTEMPT_LIMIT;
    let mut best: Option<(usize, Endpoint)> = None;
    let mut fault = format!(
        "nobody on this network publishes {} as {SERVICE_TYPE}",
        instances.join(" or ")
    );
    for _ in 0..ANSWER_LIMIT {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(Ok(event)) = tokio::time::timeout(left, answers.recv_async()).await else {
            break;
        };
        let ServiceEvent::ServiceResolved(service) = event else {
            continue;
        };
        let Some(rank) = instances
            .iter()
            .position(|name| is_instance(&service.fullname, name))
        else {
            continue;
        };
        let endpoint = endpoint_of(&service)
            .map_err(|error| error.to_string())
            .and_then(|endpoint| endpoint.allowed(question));
        match endpoint {
            // A later answer of the same instance contains more addresses.
            Ok(endpoint) if best.as_ref().is_none_or(|(known, _)| rank <= *known) => {
                let by_link_local = ZonedUrl::parse(&endpoint.url).interface.is_some();
                deadline = match rank {
                    // Any other address is better than a link-local address, so use the
                    // rest of the attempt to wait for another one.
                    0 if by_link_local => deadline,
                    0 => deadline.min(Instant::now() + SETTLING),
                    _ => deadline.min(Instant::now() + PREFERENCE_LIMIT),
                };
                best = Some((rank, endpoint));
            }
            Ok(_) => {}
            Err(text) => fault = format!("{}: {text}", instances[rank]),
        }
    }
    best.map(|(rank, endpoint)| (instances[rank], endpoint))
        .ok_or(fault)
}

/// DNS names are not case-sensitive.
fn is_instance(full_name: &str, instance: &str) -> bool {
    full_name.eq_ignore_ascii_case(&format!("{instance}.{SERVICE_TYPE}"))
}

impl Endpoint {
    fn allowed(self, question: &Question) -> Result<Self, String> {
        if question.https_only && !self.url.starts_with("https:") {
            return Err(format!(
                "its answer names {}: expected https, because this boot has a CA file",
                self.url
            ));
        }
        Ok(self)
    }
}

fn endpoint_of(service: &ResolvedService) -> Result<Endpoint, AdvertError> {
    let advert = Advert {
        host: service.host.clone(),
        port: service.port,
        addresses: service
            .addresses
            .iter()
            .map(|ip| AdvertAddress {
                address: ip.to_ip_addr(),
                interface: match ip {
                    ScopedIp::V6(ip) => Some(ip.scope_id().name.clone()),
                    _ => None,
                },
            })
            .collect(),
        txt: service
            .txt_properties
            .iter()
            .map(|entry| {
                let value = entry.val().unwrap_or_default();
                (entry.key().to_owned(), value.to_vec())
            })
            .collect(),
    };
    advert.endpoint(|address| route_source(address).is_ok())
}

#[cfg(test)]
mod tests;
