//! Retries the NTP server, because the first NIC that gets an address may not be the
//! NIC that leads to the server.

use std::net::IpAddr;
use std::time::Duration;

use landfall_network::NetworkState;
use landfall_network::state::NicState;
use landfall_report::failure::Failure;
use landfall_sys::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::Clock;

/// The pause has an upper limit, because a switch port with spanning tree begins to
/// forward packets without any event on this machine.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Clock {
    /// Queries this NTP server until it has set the clock. Retries when the addresses or
    /// the preferred NIC of this machine change or the first DNS server appears, and
    /// otherwise after growing pauses.
    ///
    /// # Errors
    /// If the clock is not set within `limit`. The error contains the reason of the last
    /// failure.
    pub async fn set_by_ntp_within(
        &mut self,
        limit: Duration,
        server: &str,
        network: &mut watch::Receiver<NetworkState>,
    ) -> Result<(), Failure> {
        let end = Instant::now() + limit;
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        loop {
            let before = Ways::of(&network.borrow_and_update());
            let Err(fault) = self.set_by_ntp(server).await else {
                return Ok(());
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(fault);
            }
            let pause = backoff.pause().min(left);
            tracing::debug!("NTP: {fault}; asking again in {} s", pause.as_secs());
            let other_ways = network.wait_for(|state| Ways::of(state) != before);
            let changed = timeout(pause, other_ways).await;
            match changed.map(|changed| changed.is_ok()) {
                Ok(true) => backoff.reset(),
                // The network task has ended, so its last state does not change any more.
                Ok(false) => sleep(pause).await,
                Err(_) => {}
            }
        }
    }
}

/// The parts of the network's state that decide where packets go.
#[derive(PartialEq, Eq)]
struct Ways {
    addresses: Vec<(u32, IpAddr)>,
    preferred: Option<u32>,
    has_dns: bool,
}

impl Ways {
    fn of(state: &NetworkState) -> Ways {
        let online = state.nics.iter().filter(|nic| nic.is_online());
        let addresses = |nic: &NicState| -> Vec<(u32, IpAddr)> {
            let usable = nic.addresses.iter().filter(|address| address.usable);
            usable
                .map(|address| (nic.index, address.prefix.address))
                .collect()
        };
        Ways {
            addresses: online.flat_map(addresses).collect(),
            preferred: state.preferred,
            has_dns: !state.dns.is_empty(),
        }
    }
}
