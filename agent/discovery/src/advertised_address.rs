//! Finds the address of this machine that Ironic can call back.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use landfall_http_client::ZonedUrl;
use landfall_network::{AddressOrigin, NetworkState};
use landfall_report::failure::Failure;
use landfall_sys::state_file::StateFile;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{if_indextoname, if_nametoindex};
use reqwest::Url;
use tokio::sync::watch;

/// How long to wait for a lost address to return: a DHCP server that withdraws a lease
/// may assign the same address again.
const ADDRESS_MAY_RETURN: Duration = Duration::from_secs(3);

/// The operator's settings for the address.
#[derive(Debug, Clone)]
pub struct AdvertiseRules {
    /// Use this host, whatever addresses the machine has (`ipa-advertise-host`).
    pub host: Option<String>,
    /// Use an address of this NIC, IPv4 if it has one (`ipa-network-interface`).
    pub interface: Option<String>,
    /// The number of attempts (`ipa-ip-lookup-attempts`).
    pub attempts: u32,
    /// The pause between two attempts (`ipa-ip-lookup-timeout`).
    pub pause: Duration,
}

/// The host in the callback URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advertised {
    /// An address of this machine, or one that is forwarded to it.
    Address(IpAddr),
    /// A name that the operator has configured.
    Name(String),
}

impl Advertised {
    fn parse(text: &str) -> Self {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        bare.parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Address)
    }

    /// The host as it appears in a URL: IPv6 addresses are in brackets.
    pub fn in_url(&self) -> String {
        match self {
            Self::Address(IpAddr::V6(address)) => format!("[{address}]"),
            other => other.to_string(),
        }
    }
}

impl std::fmt::Display for Advertised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Determines the address at which the service can call back the agent. A configured
/// host takes precedence. Next comes the address that the agent used before a restart,
/// if the machine still has it, because Ironic rejects a changed callback URL.
/// Otherwise it is the address of the configured interface or, if no interface is
/// configured, the source address of the route to the service at `urls`.
///
/// # Errors
/// If [`AdvertiseRules::attempts`] attempts found no address. The error contains the
/// reason of the last attempt.
pub async fn advertise(
    rules: &AdvertiseRules,
    urls: &[String],
    network: &mut watch::Receiver<NetworkState>,
    kept: &StateFile,
) -> Result<Advertised, Failure> {
    if let Some(host) = &rules.host {
        return Ok(Advertised::parse(host));
    }
    let mut fault = String::new();
    for attempt in 0..rules.attempts.max(1) {
        if attempt > 0 {
            tracing::warn!("{fault}; looking again within {} s", rules.pause.as_secs());
            // A change of the network ends the pause early. If the network task has
            // ended, the pause has its full length.
            tokio::select! {
                () = tokio::time::sleep(rules.pause) => {}
                Ok(()) = network.changed() => {}
            }
        }
        let state = network.borrow_and_update().clone();
        if let Some(address) = kept_address(kept).filter(|address| has(&state, *address)) {
            return Ok(Advertised::Address(address));
        }
        let found = match &rules.interface {
            Some(interface) => address_of(&state, interface),
            None => first_source(urls).await,
        };
        match found {
            Ok(address) => {
                kept.store_or_warn(address.to_string().as_bytes());
                return Ok(Advertised::Address(address));
            }
            Err(text) => fault = text,
        }
    }
    Err(Failure::other(format!(
        "no address for Ironic to call back: {fault}"
    )))
}

/// Waits until the machine has lost the address and has another address that can
/// replace it. Waits forever if `address` is a name, or an address that the machine
/// does not have.
pub async fn address_lost(address: &Advertised, network: &mut watch::Receiver<NetworkState>) {
    let Advertised::Address(address) = address else {
        return std::future::pending().await;
    };
    if !has(&network.borrow_and_update(), *address) {
        return std::future::pending().await;
    }
    let is_lost = |state: &NetworkState| !has(state, *address) && state.is_online();
    loop {
        if network.wait_for(is_lost).await.is_err() {
            // The network task has ended, so its last state does not change any more.
            return std::future::pending().await;
        }
        tokio::time::sleep(ADDRESS_MAY_RETURN).await;
        if is_lost(&network.borrow_and_update()) {
            return;
        }
    }
}

fn kept_address(file: &StateFile) -> Option<IpAddr> {
    String::from_utf8(file.load().ok()??).ok()?.parse().ok()
}

fn has(state: &NetworkState, address: IpAddr) -> bool {
    let mut all = state.nics.iter().flat_map(|nic| &nic.addresses);
    all.any(|known| known.usable && known.prefix.address == address)
}

/// The IPv4 address of this NIC, or another address if it has no IPv4 address. Link-local
/// addresses are ignored.
fn address_of(state: &NetworkState, interface: &str) -> Result<IpAddr, String> {
    let nic = state
        .nics
        .iter()
        .find(|nic| nic.name == interface)
        .ok_or_else(|| format!("ipa-network-interface={interface}: there is no such NIC"))?;
    let usable = || {
        nic.addresses
            .iter()
            .filter(|known| known.usable && known.origin != AddressOrigin::LinkLocal)
            .map(|known| known.prefix.address)
    };
    usable()
        .find(IpAddr::is_ipv4)
        .or_else(|| usable().next())
        .ok_or_else(|| format!("ipa-network-interface={interface}: the NIC has no address"))
}

/// The first source address that another host can reach, on the route to one of
/// these URLs.
///
/// # Errors
/// If no URL has such an address. The error contains the reason for the last URL.
pub async fn source_towards(urls: &[String]) -> Result<IpAddr, Failure> {
    first_source(urls).await.map_err(Failure::other)
}

async fn first_source(urls: &[String]) -> Result<IpAddr, String> {
    let mut fault = "no URL".to_owned();
    for url in urls {
        match source_towards_one(url).await {
            Ok(source) => return Ok(source),
            Err(text) => fault = text,
        }
    }
    Err(fault)
}

async fn source_towards_one(url: &str) -> Result<IpAddr, String> {
    let mut fault = format!("{url}: the host has no address");
    for address in addresses_of(url).await? {
        match source_address_towards(address) {
            Ok(source) => return Ok(source),
            Err(text) => fault = text,
        }
    }
    Err(fault)
}

/// The socket addresses of a URL's host.
async fn addresses_of(url: &str) -> Result<Vec<SocketAddr>, String> {
    let zoned = ZonedUrl::parse(url);
    let parsed = Url::parse(&zoned.url).map_err(|error| format!("{url}: {error}"))?;
    let host = parsed.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = parsed.port_or_known_default().unwrap_or_default();
    if let (Ok(address), Some(interface)) = (host.parse::<Ipv6Addr>(), &zoned.interface) {
        let index = if_nametoindex(interface.as_str())
            .map_err(|_| format!("{url}: there is no interface {interface}"))?;
        return Ok(vec![SocketAddrV6::new(address, port, 0, index).into()]);
    }
    tokio::net::lookup_host((host, port))
        .await
        .map(Iterator::collect)
        .map_err(|error| format!("cannot resolve {host}: {error}"))
}

/// The source address of the kernel's route to `service`. If this is a link-local
/// address, which cannot be reached from another link, the function returns another
/// address of the same interface, or fails if there is none or if `service` is not
/// link-local.
fn source_address_towards(service: SocketAddr) -> Result<IpAddr, String> {
    let source =
        route_source(service).map_err(|error| format!("no route to {}: {error}", service.ip()))?;
    if !is_link_local(source) {
        return Ok(source);
    }
    let on_that_link = match service {
        SocketAddr::V6(service) => far_address_of(service.scope_id()),
        SocketAddr::V4(_) => None,
    };
    on_that_link.ok_or_else(|| {
        format!(
            "the route to {} leaves from the link-local address {source}",
            service.ip()
        )
    })
}

/// The source address that `ip route get` shows. Connecting a UDP socket determines
/// it without sending anything.
pub(super) fn route_source(service: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match service {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(service)?;
    Ok(socket.local_addr()?.ip())
}

/// An address of this interface that hosts beyond its link can reach. IPv6 takes
/// precedence, because a service with a link-local IPv6 address supports IPv6.
fn far_address_of(index: u32) -> Option<IpAddr> {
    let name = if_indextoname(index).ok()?.into_string().ok()?;
    let addresses: Vec<IpAddr> = getifaddrs()
        .ok()?
        .filter(|known| known.interface_name == name)
        .filter_map(|known| {
            let address = known.address?;
            let v6 = address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()));
            v6.or_else(|| Some(IpAddr::V4(address.as_sockaddr_in()?.ip())))
        })
        .filter(|address| !is_link_local(*address))
        .collect();
    let v6 = addresses.iter().find(|address| address.is_ipv6());
    v6.or(addresses.first()).copied()
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
