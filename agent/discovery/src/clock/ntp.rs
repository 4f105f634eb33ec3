//! Asks an NTP server for the time.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use rsntp::{AsyncSntpClient, Config};
use tokio::net::lookup_host;

/// The time limit for the answer of one address.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// The maximum number of addresses of one name.
const ADDRESS_LIMIT: usize = 4;
/// How often all addresses are tried. The first packet to a new address may be lost
/// during neighbour discovery.
const ROUNDS: usize = 2;
const PORT: u16 = 123;

/// The current time according to this server: an address or a name, optionally with
/// a port. Takes at most half a minute.
///
/// # Errors
/// If no address has answered, with the last reason.
pub(super) async fn time_of(server: &str) -> Result<SystemTime, String> {
    let addresses = tokio::time::timeout(ANSWER_LIMIT, addresses_of(server))
        .await
        .map_err(|_| format!("cannot resolve {server}: no answer in time"))??;
    let mut fault = format!("{server} has no address");
    for address in (0..ROUNDS).flat_map(|_| addresses.iter().take(ADDRESS_LIMIT)) {
        match ask(*address).await {
            Ok(time) => return Ok(time),
            Err(error) => fault = format!("{address}: {error}"),
        }
    }
    Err(fault)
}

async fn addresses_of(server: &str) -> Result<Vec<SocketAddr>, String> {
    // An IPv6 address contains colons. So a text that is not an address with a port
    // is treated as a host.
    if let Ok(address) = server.parse() {
        return Ok(vec![address]);
    }
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, port.parse().unwrap_or(PORT)),
        _ => (server, PORT),
    };
    let addresses = lookup_host((host, port))
        .await
        .map_err(|error| format!("cannot resolve {host}: {error}"))?;
    Ok(addresses.collect())
}

async fn ask(address: SocketAddr) -> Result<SystemTime, String> {
    let any = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let config = Config::default().bind_address(any).timeout(ANSWER_LIMIT);
    let answer = AsyncSntpClient::with_config(config)
        .synchronize(address)
        .await
        .map_err(|error| error.to_string())?;
    let seconds = answer.clock_offset().as_secs_f64();
    let offset = Duration::try_from_secs_f64(seconds.abs())
        .map_err(|_| format!("expected a time, found an offset of {seconds} s"))?;
    let now = SystemTime::now();
    let time = if seconds < 0.0 {
        now.checked_sub(offset)
    } else {
        now.checked_add(offset)
    };
    time.ok_or_else(|| format!("expected a time, found an offset of {seconds} s"))
}
