//! DNS servers and search domains from router advertisements, with their lifetimes.

use std::net::Ipv6Addr;

use tokio::time::Instant;

use super::user_option::{Content, UserOption};

/// The maximum number of servers that are kept, and of domains: a link may have many
/// routers, or a malicious one. The resolver reads three servers and six domains.
const MOST: usize = 8;

/// The servers and domains that are valid now.
#[derive(Debug, Clone, Default)]
pub struct AdvertisedDns {
    servers: Vec<Timed<Ipv6Addr>>,
    domains: Vec<Timed<String>>,
}

/// An item and the end of its lifetime; `None` means forever.
#[derive(Debug, Clone)]
struct Timed<T> {
    item: T,
    until: Option<Instant>,
}

impl AdvertisedDns {
    /// Applies one option (RFC 8106, 6.1). Returns true if the resolver's servers
    /// or domains change.
    pub fn take(&mut self, option: UserOption, now: Instant) -> bool {
        let UserOption {
            lifetime, content, ..
        } = option;
        let until = lifetime.map(|lifetime| now + lifetime);
        match content {
            Content::Servers(servers) => merge(&mut self.servers, servers, until, now),
            Content::Domains(domains) => merge(&mut self.domains, domains, until, now),
        }
    }

    /// Removes expired items. Returns true if there were any.
    pub fn expire(&mut self, now: Instant) -> bool {
        let before = self.servers.len() + self.domains.len();
        self.servers.retain(|known| known.counts(now));
        self.domains.retain(|known| known.counts(now));
        self.servers.len() + self.domains.len() < before
    }

    /// The time when the next item expires.
    pub fn next_end(&self) -> Option<Instant> {
        let servers = self.servers.iter().filter_map(|known| known.until);
        let domains = self.domains.iter().filter_map(|known| known.until);
        servers.chain(domains).min()
    }

    /// The servers in the order in which they were first advertised.
    pub fn servers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.servers.iter().map(|known| known.item)
    }

    /// The domains in the order in which they were first advertised.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(|known| known.item.as_str())
    }
}

impl<T> Timed<T> {
    fn counts(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

fn merge<T: PartialEq>(
    list: &mut Vec<Timed<T>>,
    items: Vec<T>,
    until: Option<Instant>,
    now: Instant,
) -> bool {
    let mut changed = false;
    for item in items {
        let new = Timed { item, until };
        let known = list.iter().position(|known| known.item == new.item);
        match (known, new.counts(now)) {
            (Some(index), true) => list[index] = new,
            (Some(index), false) => {
                list.remove(index);
                changed = true;
            }
            (None, true) if list.len() < MOST => {
                list.push(new);
                changed = true;
            }
            // The option withdraws an item that is not in the list, or the list is full.
            // In a full list the known items stay, because they have worked so far.
            (None, _) => {}
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn servers(seconds: Option<u64>, last: &[u16]) -> UserOption {
        let address = |last: &u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, *last);
        UserOption {
            index: 1,
            lifetime: seconds.map(Duration::from_secs),
            content: Content::Servers(last.iter().map(address).collect()),
        }
    }

    fn shown(dns: &AdvertisedDns) -> Vec<u16> {
        dns.servers().map(|address| address.segments()[7]).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_latest_lifetime_of_each_entry_counts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut dns = AdvertisedDns::default();
        assert!(dns.take(servers(Some(60), &[1, 2]), at(0)));
        assert!(dns.take(servers(None, &[3]), at(0)));
        // A repeated option changes only the lifetime.
        assert!(!dns.take(servers(Some(60), &[1]), at(30)));
        assert_eq!(shown(&dns), [1, 2, 3]);
        assert_eq!(dns.next_end(), Some(at(60)));
        assert!(!dns.expire(at(59)));
        assert!(dns.expire(at(60)));
        assert_eq!(shown(&dns), [1, 3]);
        assert_eq!(dns.next_end(), Some(at(90)));
        // A lifetime of zero withdraws a server.
        assert!(dns.take(servers(Some(0), &[1]), at(61)));
        assert!(!dns.take(servers(Some(0), &[9]), at(61)));
        assert_eq!(shown(&dns), [3]);
        assert_eq!(dns.next_end(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_servers_does_not_displace_known_ones() {
        let mut dns = AdvertisedDns::default();
        let now = Instant::now();
        dns.take(servers(Some(60), &[1]), now);
        for last in 2..100 {
            dns.take(servers(None, &[last]), now);
        }
        assert_eq!(shown(&dns).len(), MOST);
        assert_eq!(shown(&dns)[0], 1);
    }
}
