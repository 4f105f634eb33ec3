//! One exchange of messages with the servers, for one purpose.

use std::net::Ipv6Addr;
use std::time::Duration;

use dhcproto::v6::MessageType;

use super::lease::Lease;
use super::retransmission::{self as rules, Repeats, Rule};

/// A message that the client repeats until a server answers, or until the message's limit
/// in time or number is reached.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) phase: Phase,
    pub(super) transaction: [u8; 3],
    pub(super) began: Duration,
    /// When the last message was sent.
    pub(super) asked: Duration,
    pub(super) repeats: Repeats,
    pub(super) again: Duration,
    pub(super) limit: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(super) enum Phase {
    Solicit(Option<Offer>),
    Request(Offer),
    Confirm(Held),
    Renew(Held),
    Rebind(Held),
    Decline(Held),
    Information,
}

/// An address that a server may grant.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) server: Vec<u8>,
    pub(super) address: Ipv6Addr,
    pub(super) preference: u8,
}

#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) lease: Box<Lease>,
    pub(super) since: Duration,
}

impl Held {
    pub(super) fn new(lease: Lease, since: Duration) -> Held {
        Held {
            lease: Box::new(lease),
            since,
        }
    }

    pub(super) fn address(&self) -> Option<Ipv6Addr> {
        self.lease.address.map(|address| address.address)
    }

    /// The time on the client's clock that is `after` past the start of the lease.
    pub(super) fn at(&self, after: Option<Duration>) -> Option<Duration> {
        after.map(|after| self.since + after)
    }

    /// When the address expires; `None` means never.
    pub(super) fn end(&self) -> Option<Duration> {
        self.at(self.lease.address.and_then(|address| address.valid))
    }
}

impl Offer {
    /// Returns `None` if the lease has no address.
    pub(super) fn of(lease: &Lease, preference: u8) -> Option<Offer> {
        Some(Offer {
            server: lease.server.clone(),
            address: lease.address?.address,
            preference,
        })
    }
}

impl Phase {
    /// Returns how the message is repeated, and the time when the phase ends at the
    /// latest (`None`: no limit). `longest_search` is the longest wait between the
    /// messages of a search.
    pub(super) fn rule(&self, now: Duration, longest_search: Duration) -> (Rule, Option<Duration>) {
        let search = |rule: Rule| Rule {
            longest: Some(longest_search),
            ..rule
        };
        match self {
            Phase::Solicit(_) => (search(rules::SOLICIT), None),
            Phase::Information => (search(rules::INFORMATION), None),
            Phase::Request(_) => (rules::REQUEST, None),
            Phase::Confirm(held) => {
                let limit = now + rules::CONFIRM_LIMIT;
                let end = held.end().unwrap_or(Duration::MAX);
                (rules::CONFIRM, Some(limit.min(end)))
            }
            Phase::Renew(held) => (rules::RENEW, held.at(held.lease.rebind_after)),
            Phase::Rebind(held) => (rules::RENEW, held.end()),
            Phase::Decline(_) => (rules::DECLINE, None),
        }
    }

    /// The message type, the DUID of the server that should answer, and the address in
    /// the message.
    pub(super) fn question(&self) -> (MessageType, Option<&[u8]>, Option<Ipv6Addr>) {
        match self {
            Phase::Solicit(_) => (MessageType::Solicit, None, None),
            Phase::Request(offer) => (
                MessageType::Request,
                Some(&offer.server),
                Some(offer.address),
            ),
            Phase::Confirm(held) => (MessageType::Confirm, None, held.address()),
            Phase::Renew(held) => (MessageType::Renew, Some(&held.lease.server), held.address()),
            Phase::Rebind(held) => (MessageType::Rebind, None, held.address()),
            Phase::Decline(held) => (
                MessageType::Decline,
                Some(&held.lease.server),
                held.address(),
            ),
            Phase::Information => (MessageType::InformationRequest, None, None),
        }
    }
}
