//! Decides which connections stay open when too many clients connect.
//!
//! Any host that reaches the port can open connections, with or without the token. The
//! limit on all connections must not lock out the conductor. So a new connection is
//! always accepted, and the oldest connection of the host with the most connections is
//! closed instead. Hosts that have shown the token have their own limit.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The maximum number of connections from all hosts that have not shown the token.
/// Each connection may use a TLS session and a buffer for requests, together about
/// 100 KiB.
const STRANGERS: usize = 128;
const OF_ONE_STRANGER: usize = 16;
/// The maximum for one host that has shown the token. A conductor uses two or three
/// connections at once.
const OF_ONE_ACQUAINTANCE: usize = 64;

/// All connections, grouped by host. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    hosts: HashMap<IpAddr, Host>,
    next: u64,
}

#[derive(Debug, Default)]
struct Host {
    has_shown_token: bool,
    /// The connections of the host, in the order in which they were opened.
    connections: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one connection. It is freed on drop.
#[derive(Debug)]
pub(super) struct Place {
    caller: Caller,
    number: u64,
    needed: Arc<Notify>,
}

/// The host at the other end of a connection. The server passes it to the handlers of the
/// requests.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    host: IpAddr,
    places: Places,
}

impl Places {
    /// Registers a connection from this host. Closes another connection if there
    /// are too many.
    pub(super) fn take(&self, host: IpAddr) -> Place {
        let host = host.to_canonical();
        let mut table = self.lock();
        table.make_room_for(host);
        let number = table.next;
        table.next += 1;
        let needed = Arc::new(Notify::new());
        let connections = &mut table.hosts.entry(host).or_default().connections;
        connections.insert(number, Arc::clone(&needed));
        Place {
            caller: Caller {
                host,
                places: self.clone(),
            },
            number,
            needed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn make_room_for(&mut self, host: IpAddr) {
        let own = self.hosts.get(&host);
        let count = own.map_or(0, |own| own.connections.len());
        if own.is_some_and(|own| own.has_shown_token) {
            if count >= OF_ONE_ACQUAINTANCE {
                self.close_oldest_of(host);
            }
        } else if count >= OF_ONE_STRANGER {
            self.close_oldest_of(host);
        } else {
            let strangers = || self.hosts.iter().filter(|(_, host)| !host.has_shown_token);
            let all: usize = strangers().map(|(_, host)| host.connections.len()).sum();
            // If two hosts have equally many connections, choose the host whose oldest
            // connection is older.
            let greediest = strangers().max_by_key(|(_, host)| {
                let oldest = host.connections.first_key_value();
                let oldest = oldest.map_or(u64::MAX, |(number, _)| *number);
                (host.connections.len(), std::cmp::Reverse(oldest))
            });
            if all >= STRANGERS
                && let Some((&host, _)) = greediest
            {
                self.close_oldest_of(host);
            }
        }
    }

    fn close_oldest_of(&mut self, host: IpAddr) {
        let Some(own) = self.hosts.get_mut(&host) else {
            return;
        };
        if let Some((_, connection)) = own.connections.pop_first() {
            connection.notify_one();
        }
        if own.connections.is_empty() && !own.has_shown_token {
            self.hosts.remove(&host);
        }
    }
}

impl Place {
    /// Returns when this connection must be closed to make room for another one.
    pub(super) async fn needed(&self) {
        self.needed.notified().await;
    }

    pub(super) fn caller(&self) -> Caller {
        self.caller.clone()
    }
}

impl Caller {
    /// Call this when the host has shown the token. From then on, connections of other
    /// hosts can no longer close those of this host.
    pub(super) fn has_shown_token(&self) {
        // The table has no entry for this host if its connection was closed for another
        // host while the request was read. Make an entry in this case: the host has
        // shown the token, so its later connections must be protected.
        let mut table = self.places.lock();
        table.hosts.entry(self.host).or_default().has_shown_token = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.caller.places.lock();
        if let Some(host) = table.hosts.get_mut(&self.caller.host) {
            host.connections.remove(&self.number);
            // Keep an entry for a host that has shown the token: there are only a few of
            // them.
            if host.connections.is_empty() && !host.has_shown_token {
                table.hosts.remove(&self.caller.host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use std::net::Ipv4Addr;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn held<'a>(places: impl IntoIterator<Item = &'a Place>) -> usize {
        let kept = |place: &&Place| place.needed().now_or_never().is_none();
        places.into_iter().filter(kept).count()
    }

    #[test]
    fn a_host_gives_way_to_itself_first() {
        let places = Places::default();
        let greedy: Vec<Place> = (0..20).map(|_| places.take(host(66))).collect();
        assert_eq!(held(&greedy[..4]), 0, "the oldest");
        assert_eq!(held(&greedy[4..]), OF_ONE_STRANGER);
        drop(greedy);
        assert!(places.lock().hosts.is_empty());
    }

    #[test]
    fn the_greediest_makes_room() {
        let places = Places::default();
        let others: Vec<Place> = (0..8)
            .flat_map(|last| (0..OF_ONE_STRANGER).map(move |_| host(last)))
            .map(|host| places.take(host))
            .collect();
        assert_eq!(held(&others), STRANGERS);
        let conductor = places.take(host(100));
        assert_eq!(held(&others), STRANGERS - 1);
        assert_eq!(held([&conductor]), 1);
    }

    #[test]
    fn hosts_without_number_take_nothing_from_whom_we_know() {
        let places = Places::default();
        let conductor = places.take(host(1));
        conductor.caller().has_shown_token();
        // Opens one connection from each of 10,000 addresses. An IPv6 link has even
        // more addresses.
        let flood: Vec<Place> = (0..10_000_u32)
            .map(|number| places.take(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))))
            .collect();
        assert_eq!(held([&conductor]), 1);
        assert_eq!(held(&flood), STRANGERS);
        assert_eq!(held(&flood[10_000 - STRANGERS..]), STRANGERS, "the newest");
        assert_eq!(places.lock().hosts.len(), STRANGERS + 1);
        let more: Vec<Place> = (0..10).map(|_| places.take(host(1))).collect();
        assert_eq!(held(&more), 10);
        drop((conductor, more));
        assert!(places.lock().hosts[&host(1)].has_shown_token, "remembered");
    }

    #[test]
    fn a_host_is_remembered_that_lost_its_place_while_its_token_was_read() {
        let places = Places::default();
        let conductor = places.take(host(1));
        let flood: Vec<Place> = (0..10_000_u32)
            .map(|number| places.take(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))))
            .collect();
        assert_eq!(held([&conductor]), 0);
        conductor.caller().has_shown_token();
        drop(conductor);
        let next = places.take(host(1));
        let more: Vec<Place> = (0..10_000_u32)
            .map(|number| places.take(IpAddr::V4(Ipv4Addr::from(0x0b00_0000 + number))))
            .collect();
        assert_eq!(held([&next]), 1);
        drop((flood, more));
    }

    #[test]
    fn ipv4_in_ipv6_is_the_same_host() {
        let places = Places::default();
        let known = places.take(host(1));
        known.caller().has_shown_token();
        let mapped = places.take("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(places.lock().hosts.len(), 1);
        drop((known, mapped));
    }
}
