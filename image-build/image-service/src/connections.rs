//! Keeps the open connections, and decides which of them is closed when there are too
//! many.
//!
//! A load balancer opens all its connections from one address, so there is no limit for
//! an address. The service first closes the connection whose client has taken no byte of
//! an answer for the longest time, if that is 10 s or more. If there is no such
//! connection, it closes a connection of the address that has the most connections, in
//! favour of an address that has fewer: otherwise one client that sends small requests
//! all the time could keep all BMCs out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::base::Memory;
use crate::metrics::Metrics;

/// How long a client must have taken no bytes before the service may close its connection
/// in favour of another one.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    start: Instant,
    metrics: Metrics,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, Arc<Connection>>,
    next: u64,
}

/// One connection. The handlers of its requests receive it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: IpAddr,
    start: Instant,
    /// Milliseconds from `start` to the last time when the client took bytes of an
    /// answer. What a client sends does not count: a client that sends a request
    /// byte by byte makes no progress.
    progress: AtomicU64,
    close: Notify,
    /// The file that is being sent, for sendfile(2).
    sending: Mutex<Option<Memory>>,
}

impl Connection {
    pub(crate) fn made_progress(&self) {
        self.progress.store(millis(self.start), Ordering::Relaxed);
    }

    /// The time since the client last took bytes of an answer, or since it connected.
    pub(crate) fn quiet(&self) -> Duration {
        let since = self.progress.load(Ordering::Relaxed);
        Duration::from_millis(millis(self.start).saturating_sub(since))
    }

    /// Ends the connection, so that another client has room.
    pub(crate) fn give_way(&self) {
        self.close.notify_one();
    }

    /// Returns when the connection must make room for another one.
    pub(crate) async fn must_close(&self) {
        self.close.notified().await;
    }

    pub(crate) fn set_sending(&self, memory: &Memory) {
        *self.sending.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory.clone());
    }

    pub(crate) fn sending(&self) -> Option<Memory> {
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        sending.clone()
    }
}

fn millis(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Connections {
    pub(crate) fn new(most: usize, metrics: Metrics) -> Self {
        Self {
            most,
            start: Instant::now(),
            metrics,
            table: Mutex::default(),
        }
    }

    /// Adds a connection. If there are too many, closes another one. `None` if all
    /// clients have recently taken bytes, and no address has more connections than the
    /// client's address would have.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let client = client.to_canonical();
        let mut table = self.lock();
        if table.open.len() >= self.most {
            let other = table.quietest().or_else(|| table.of_greediest(client));
            let Some(other) = other.and_then(|number| table.open.remove(&number)) else {
                self.metrics.closed("too many");
                return None;
            };
            other.give_way();
            self.metrics.closed("gave way");
        }
        let connection = Arc::new(Connection {
            client,
            start: self.start,
            progress: AtomicU64::new(millis(self.start)),
            close: Notify::new(),
            sending: Mutex::default(),
        });
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Arc::clone(&connection));
        self.metrics.connections.inc();
        Some(Place {
            number,
            connection,
            connections: Arc::clone(self),
        })
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The connection that has been quiet for the longest time, if that is at least
    /// [`GIVES_WAY_AFTER`].
    fn quietest(&self) -> Option<u64> {
        self.open
            .iter()
            .max_by_key(|(_, connection)| connection.quiet())
            .filter(|(_, connection)| connection.quiet() >= GIVES_WAY_AFTER)
            .map(|(number, _)| *number)
    }

    /// The connection that has been quiet for the longest time, among those of the
    /// address with the most connections. `None` if that address has no more connections
    /// than the client's address would have.
    fn of_greediest(&self, client: IpAddr) -> Option<u64> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.open.values() {
            *counts.entry(site(connection.client)).or_default() += 1;
        }
        let own = counts.get(&site(client)).copied().unwrap_or_default();
        let (greediest, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        if count <= own + 1 {
            return None;
        }
        self.open
            .iter()
            .filter(|(_, connection)| site(connection.client) == greediest)
            .max_by_key(|(_, connection)| connection.quiet())
            .map(|(number, _)| *number)
    }
}

/// The IPv4 address, or the /64 network of an IPv6 address, because a client can have
/// any number of addresses in its /64 network.
pub(crate) fn site(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

/// The place of one connection. It is freed on drop.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    pub(crate) connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number);
        self.connections.metrics.connections.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn the_quietest_connection_is_closed_and_active_ones_stay() {
        let mut connections = Connections::new(3, Metrics::default());
        // As if the service had been running for an hour.
        connections.start = Instant::now()
            .checked_sub(Duration::from_secs(3600))
            .unwrap();
        let connections = Arc::new(connections);
        let places: Vec<Place> = (0..3).map(|_| connections.enter(CLIENT).unwrap()).collect();
        assert!(connections.enter(CLIENT).is_none(), "all are fresh");
        let quiet_for = |place: &Place, seconds: u64| {
            let now = millis(connections.start);
            place
                .connection
                .progress
                .store(now - seconds * 1000, Ordering::Relaxed);
        };
        quiet_for(&places[0], 20);
        quiet_for(&places[1], 30);
        let _new = connections.enter(CLIENT).unwrap();
        let closed = |place: &Place| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            std::pin::pin!(place.connection.must_close())
                .poll(&mut context)
                .is_ready()
        };
        assert_eq!(
            places.iter().map(closed).collect::<Vec<_>>(),
            [false, true, false]
        );
        places[0].connection.made_progress();
        assert!(connections.enter(CLIENT).is_none());
        drop(places);
        assert_eq!(connections.lock().open.len(), 1);
        assert_eq!(connections.metrics.connections.get(), 1);
    }

    /// One client cannot keep all others out with small requests.
    #[test]
    fn the_address_that_has_the_most_shares() {
        let connections = Arc::new(Connections::new(4, Metrics::default()));
        let enter = |text: &str| connections.enter(text.parse().unwrap());
        let greedy: Vec<Place> = (1..=4)
            .map(|at| enter(&format!("2001:db8::{at}")).unwrap())
            .collect();
        let count = |places: &[Place]| {
            let table = connections.lock();
            let is_open = |place: &&Place| table.open.contains_key(&place.number);
            places.iter().filter(is_open).count()
        };
        assert!(enter("2001:db8::5").is_none(), "the same network");
        let _first = enter("192.0.2.1").unwrap();
        let _second = enter("::ffff:192.0.2.1").unwrap();
        assert_eq!(count(&greedy), 2);
        assert!(enter("192.0.2.1").is_none(), "both have the same");
        let _other = enter("192.0.2.2").unwrap();
        assert_eq!(connections.lock().open.len(), 4);
    }
}
