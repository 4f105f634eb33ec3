//! Turns a server's answer into a lease that can be applied.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::message::{Address, Answer, Association};

/// RFC 8415, 7.7: a time that means forever.
const INFINITE: u32 = u32::MAX;
/// The default and the minimum time in seconds after which the client asks for the
/// configuration again: `IRT_DEFAULT` and `IRT_MINIMUM` (RFC 8415, 7.6).
const REFRESH: u32 = 86_400;
const SHORTEST_REFRESH: u32 = 600;
/// The shortest valid lifetime that the client accepts, in seconds. It would renew a
/// shorter lease without a pause.
const SHORTEST_LEASE: u32 = 10;

/// A lease from a DHCPv6 server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// `None` if the client asked for information only.
    pub address: Option<LeasedAddress>,
    /// Source address of the answer.
    pub from: Ipv6Addr,
    /// The server's DUID.
    pub server: Vec<u8>,
    /// The time until the client sends its next request. If it has an address, it asks
    /// the same server; otherwise it asks any server for the information. `None` means
    /// never.
    pub renew_after: Option<Duration>,
    /// When to ask any server for the address (T2); `None` means never.
    pub rebind_after: Option<Duration>,
    pub dns: Vec<Ipv6Addr>,
    pub search: Vec<String>,
    pub ntp: Vec<Ipv6Addr>,
}

/// An address and its lifetimes; `None` means forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedAddress {
    /// The leased address. It has no prefix: only routers know which addresses are on
    /// the link (RFC 8415, 18.2.10.1).
    pub address: Ipv6Addr,
    /// How long new connections may use the address as their source.
    pub preferred: Option<Duration>,
    /// How long the address may be used at all.
    pub valid: Option<Duration>,
}

impl Lease {
    /// The lease that an answer grants or offers. `None` if the answer has no
    /// usable address.
    pub fn of_address(answer: &Answer, from: Ipv6Addr) -> Option<Lease> {
        let association = answer.association.as_ref()?;
        let address = usable_address(association)?;
        let (renew, rebind) = renewal(association, address);
        Some(Lease {
            address: Some(LeasedAddress {
                address: address.address,
                preferred: time(address.preferred),
                valid: time(address.valid),
            }),
            renew_after: time(renew),
            rebind_after: time(rebind),
            ..Lease::of_information(answer, from)
        })
    }

    /// A lease with the configuration in the answer, but without an address.
    pub fn of_information(answer: &Answer, from: Ipv6Addr) -> Lease {
        Lease {
            address: None,
            from,
            server: answer.server.clone(),
            renew_after: time(answer.refresh.unwrap_or(REFRESH).max(SHORTEST_REFRESH)),
            rebind_after: None,
            dns: answer.dns.clone(),
            search: answer.search.clone(),
            ntp: answer.ntp.clone(),
        }
    }

    /// The lease with the times that remain after `passed`. `None` if its address
    /// has expired.
    pub fn after(&self, passed: Duration) -> Option<Lease> {
        let left = |time: Option<Duration>| time.map(|time| time.saturating_sub(passed));
        let address = self.address.map(|address| LeasedAddress {
            preferred: left(address.preferred),
            valid: left(address.valid),
            ..address
        });
        if address.is_some_and(|address| address.valid == Some(Duration::ZERO)) {
            return None;
        }
        Some(Lease {
            address,
            renew_after: left(self.renew_after),
            rebind_after: left(self.rebind_after),
            ..self.clone()
        })
    }
}

fn usable_address(association: &Association) -> Option<Address> {
    if association.status.code != 0 {
        return None;
    }
    let is_usable = |address: &Address| {
        let ip = address.address;
        address.valid >= SHORTEST_LEASE
            && !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.is_unicast_link_local())
    };
    let mut granted = association.addresses.iter();
    granted
        .find(|(address, status)| status.code == 0 && is_usable(address))
        .map(|(address, _)| *address)
}

/// T1 and T2: the server's values, or 0.5 and 0.8 of the preferred lifetime (RFC 8415,
/// 21.4). Both are limited to the valid lifetime of the address.
fn renewal(association: &Association, address: Address) -> (u32, u32) {
    // A preferred lifetime of zero is allowed. Then the valid lifetime is the base.
    let base = match address.preferred {
        0 => address.valid,
        preferred => preferred,
    };
    let share = |tenths: u64| match base {
        INFINITE => INFINITE,
        // The cast is lossless: the result is below `base`.
        base => (u64::from(base) * tenths / 10) as u32,
    };
    let rebind = match association.rebind {
        0 => share(8),
        given => given,
    };
    let latest = match address.valid {
        INFINITE => INFINITE,
        valid => valid - 1,
    };
    let rebind = rebind.clamp(2, latest);
    let renew = match association.renew {
        0 => share(5),
        given => given,
    };
    (renew.clamp(1, rebind), rebind)
}

fn time(seconds: u32) -> Option<Duration> {
    (seconds != INFINITE).then(|| Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp6::message::Status;
    use proptest::prelude::*;

    const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const OURS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x77);

    fn answer(renew: u32, rebind: u32, preferred: u32, valid: u32) -> Answer {
        let address = Address {
            address: OURS,
            preferred,
            valid,
        };
        Answer {
            is_reply: true,
            server: vec![1],
            association: Some(Association {
                renew,
                rebind,
                addresses: vec![(address, Status::default())],
                ..Association::default()
            }),
            ..Answer::default()
        }
    }

    #[test]
    fn times_are_the_servers_or_shares_of_the_preferred_time() {
        for (renew, rebind, preferred, valid, expected) in [
            (100, 200, 1000, 2000, (Some(100), Some(200))),
            (0, 0, 1000, 2000, (Some(500), Some(800))),
            (0, 0, 0, 1000, (Some(500), Some(800))),
            (0, 0, INFINITE, INFINITE, (None, None)),
            (900, 5000, 1000, 2000, (Some(900), Some(1999))),
            (3000, 5000, 1000, 2000, (Some(1999), Some(1999))),
            (INFINITE, INFINITE, 10, 20, (Some(19), Some(19))),
        ] {
            let answer = answer(renew, rebind, preferred, valid);
            let lease = Lease::of_address(&answer, FROM).unwrap();
            let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
            let found = (seconds(lease.renew_after), seconds(lease.rebind_after));
            assert_eq!(found, expected, "{renew} {rebind} {preferred} {valid}");
        }
    }

    #[test]
    fn invalid_answers_give_no_lease() {
        let of = |answer: &Answer| Lease::of_address(answer, FROM);
        assert!(of(&answer(0, 0, 0, 0)).is_none());
        assert!(of(&answer(0, 0, 9, 9)).is_none());
        let refusal = Status {
            code: Status::NO_ADDRESS,
            text: "pool is empty".to_owned(),
        };
        let mut refused = answer(0, 0, 100, 100);
        refused.association.as_mut().unwrap().status = refusal.clone();
        assert!(of(&refused).is_none());
        let mut refused = answer(0, 0, 100, 100);
        refused.association.as_mut().unwrap().addresses[0].1 = refusal;
        assert!(of(&refused).is_none());
        for address in ["::", "::1", "ff02::1", "fe80::2"] {
            let mut odd = answer(0, 0, 100, 100);
            odd.association.as_mut().unwrap().addresses[0].0.address = address.parse().unwrap();
            assert!(of(&odd).is_none(), "{address}");
        }
    }

    #[test]
    fn remaining_times_of_a_lease() {
        let lease = Lease::of_address(&answer(100, 200, 300, 400), FROM).unwrap();
        let left = lease.after(Duration::from_secs(150)).unwrap();
        assert_eq!(left.renew_after, Some(Duration::ZERO));
        assert_eq!(left.rebind_after, Some(Duration::from_secs(50)));
        let address = left.address.unwrap();
        assert_eq!(address.preferred, Some(Duration::from_secs(150)));
        assert_eq!(address.valid, Some(Duration::from_secs(250)));
        assert!(lease.after(Duration::from_secs(400)).is_none());
    }

    proptest! {
        #[test]
        fn every_lease_is_renewed_before_it_ends(
            renew: u32, rebind: u32, preferred: u32, valid: u32,
        ) {
            let Some(lease) = Lease::of_address(&answer(renew, rebind, preferred, valid), FROM)
            else {
                return Ok(());
            };
            let end = lease.address.unwrap().valid.unwrap_or(Duration::MAX);
            let rebind = lease.rebind_after.unwrap_or(Duration::MAX);
            prop_assert!(lease.renew_after.unwrap_or(Duration::MAX) <= rebind);
            prop_assert!(rebind < end || end == Duration::MAX);
        }
    }
}
