//! Asks an NTP server for the time.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use rsntp::{AsyncSntpClient, Config};
use tokio::net::lookup_host;

/// The time limit for the answer of one address.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// The maximum number of addresses of one name that the agent queries.
const ADDRESS_LIMIT: usize = 4;
/// How many times the agent tries all addresses. The first packet to a new address may
/// be lost during neighbour discovery.
const ROUNDS: usize = 2;
const PORT: u16 = 123;

/// Why an NTP server gives no time.
#[derive(Debug, thiserror::Error)]
pub(super) enum NtpError {
    /// No DNS server answered in time. Check the DNS servers, or give the address of the NTP
    /// server in `ipa-ntp-server`.
    #[error("cannot resolve {0}: no answer in time")]
    NameTimeout(String),
    /// The name of the NTP server does not resolve; the reason follows. Check the name, and the
    /// DNS servers of the network.
    #[error("cannot resolve {host}: {error}")]
    Name { host: String, error: io::Error },
    /// The name of the NTP server has no address. Correct the name, or give an address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// This address was the last address of the server that the agent tried.
    #[error("{address}: {fault}")]
    Server { address: SocketAddr, fault: Fault },
}

/// Why one address gives no time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The message of the NTP client.
    #[error("{0}")]
    NoAnswer(String),
    /// The NTP server answered with an impossible time. The agent ignores it; use another
    /// server.
    #[error("expected a time, found an offset of {0} s")]
    Offset(f64),
}

/// The current time according to this server: an address or a name, optionally with
/// a port. Takes at most half a minute.
///
/// # Errors
/// If the name does not resolve, or if no address has given a possible time. The error
/// contains the reason of the last failure.
pub(super) async fn time_of(server: &str) -> Result<SystemTime, NtpError> {
    let addresses = tokio::time::timeout(ANSWER_LIMIT, addresses_of(server))
        .await
        .map_err(|_| NtpError::NameTimeout(server.to_owned()))??;
    let mut last = NtpError::NoAddress(server.to_owned());
    for address in (0..ROUNDS).flat_map(|_| addresses.iter().take(ADDRESS_LIMIT)) {
        let address = *address;
        match ask(address).await {
            Ok(time) => return Ok(time),
            Err(fault) => last = NtpError::Server { address, fault },
        }
    }
    Err(last)
}

async fn addresses_of(server: &str) -> Result<Vec<SocketAddr>, NtpError> {
    // A text that is not an address with a port is split into host and port only if it
    // has a single colon, because an IPv6 address has several.
    if let Ok(address) = server.parse() {
        return Ok(vec![address]);
    }
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, port.parse().unwrap_or(PORT)),
        _ => (server, PORT),
    };
    let addresses = lookup_host((host, port))
        .await
        .map_err(|error| NtpError::Name {
            host: host.to_owned(),
            error,
        })?;
    Ok(addresses.collect())
}

async fn ask(address: SocketAddr) -> Result<SystemTime, Fault> {
    let any = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let config = Config::default().bind_address(any).timeout(ANSWER_LIMIT);
    let answer = AsyncSntpClient::with_config(config)
        .synchronize(address)
        .await
        .map_err(|error| Fault::NoAnswer(error.to_string()))?;
    let seconds = answer.clock_offset().as_secs_f64();
    let offset = Duration::try_from_secs_f64(seconds.abs()).map_err(|_| Fault::Offset(seconds))?;
    let now = SystemTime::now();
    let time = if seconds < 0.0 {
        now.checked_sub(offset)
    } else {
        now.checked_add(offset)
    };
    time.ok_or(Fault::Offset(seconds))
}
