//! The client's state machine (RFC 8415, 18.2), without sockets and clocks.
//!
//! All times count from a moment that the caller chooses. The caller passes in
//! each event, does what [`Machine::on`] returns, and calls again at
//! [`Machine::wakes`].

use std::net::Ipv6Addr;
use std::time::Duration;

use super::exchange::{Exchange, Held, Offer, Phase};
use super::lease::Lease;
use super::message::{Answer, Request, Status};
use super::retransmission::{self as rules, Repeats};
use super::{Event, Identity, Want};
use crate::dhcp::{AT_FIRST, LONGEST_WAIT_AT_FIRST};

/// In seconds. RFC 8415, 7.6: the client delays its first message by up to this time, so
/// that machines that received the same advertisement do not all send at once.
const LONGEST_DELAY: f64 = 1.0;
/// Shortest pause before another search after a server has refused its own offer or taken
/// back a lease, and after a Decline. Without the pause, a server could make the client
/// send messages continuously.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// After this time without an answer the client reports the silence. If its time limit is
/// shorter, it reports at the time limit.
const SILENCE: Duration = Duration::from_secs(30);
/// A server with this preference is accepted at once (RFC 8415, 18.2.1).
const PREFERRED: u8 = 255;

#[derive(Debug, Clone)]
pub enum Input<'a> {
    /// Time has passed.
    Time,
    /// A packet has arrived from this sender.
    Payload(&'a [u8], Ipv6Addr),
    /// Another machine on the link has the leased address.
    Duplicate,
}

/// What the caller must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send this message to the address of all servers.
    Send(Vec<u8>),
    /// Report this event.
    Report(Event),
}

#[derive(Debug)]
pub struct Machine {
    identity: Identity,
    host_name: Option<String>,
    /// Returns a random number from 0 to 1.
    random: fn() -> f64,
    state: State,
    /// When the client reports that no server answers. `None` after the report, and while
    /// the client expects no answer.
    complaint: Option<Duration>,
    searching_since: Duration,
    timeout: Duration,
    longest_search: Duration,
}

#[derive(Debug)]
enum State {
    /// The client waits until this time and then begins the phase.
    Pause(Duration, Phase),
    Asking(Exchange),
    /// The client holds a lease, with or without an address.
    Bound(Held),
}

impl Machine {
    pub fn new(
        identity: Identity,
        host_name: Option<String>,
        want: Want,
        timeout: Duration,
        now: Duration,
        random: fn() -> f64,
    ) -> Machine {
        let phase = match want {
            Want::Address(None) => Phase::Solicit(None),
            Want::Address(Some(lease)) => Phase::Confirm(Held { lease, since: now }),
            Want::Information => Phase::Information,
        };
        let delay = Duration::from_secs_f64(LONGEST_DELAY * random());
        Machine {
            identity,
            host_name,
            random,
            state: State::Pause(now + delay, phase),
            complaint: Some(now + SILENCE.min(timeout)),
            searching_since: now,
            timeout,
            longest_search: rules::LONGEST_SEARCH,
        }
    }

    /// When to call [`Machine::on`] with [`Input::Time`]; `None` means never.
    pub fn wakes(&self) -> Option<Duration> {
        let next = match &self.state {
            State::Pause(until, _) => Some(*until),
            State::Asking(exchange) => {
                let limit = exchange.limit.unwrap_or(Duration::MAX);
                Some(exchange.again.min(limit))
            }
            State::Bound(held) => held.at(held.lease.renew_after),
        };
        match (next, self.complaint) {
            (Some(next), Some(complaint)) => Some(next.min(complaint)),
            (next, complaint) => next.or(complaint),
        }
    }

    /// Handles an input and returns what the caller must do.
    pub fn on(&mut self, now: Duration, input: Input<'_>) -> Vec<Output> {
        let mut outputs = Vec::new();
        match input {
            Input::Time => self.on_time(now, &mut outputs),
            Input::Payload(payload, from) => {
                if let State::Asking(exchange) = &self.state
                    && let Some(answer) =
                        Answer::parse(payload, exchange.transaction, &self.identity)
                {
                    self.on_answer(now, &answer, from, &mut outputs);
                }
            }
            Input::Duplicate => self.on_duplicate(now, &mut outputs),
        }
        outputs
    }

    fn on_time(&mut self, now: Duration, outputs: &mut Vec<Output>) {
        if self.complaint.is_some_and(|at| at <= now) {
            self.complaint = None;
            let silence = now.saturating_sub(self.searching_since);
            outputs.push(Output::Report(Event::Silent(silence)));
        }
        let due = match &self.state {
            State::Pause(until, _) => *until <= now,
            State::Asking(exchange) => {
                exchange.again <= now || exchange.limit.is_some_and(|limit| limit <= now)
            }
            State::Bound(held) => held.at(held.lease.renew_after).is_some_and(|at| at <= now),
        };
        if !due {
            return;
        }
        match &mut self.state {
            State::Pause(_, phase) => {
                let phase = phase.clone();
                self.begin(phase, now, outputs);
            }
            State::Asking(exchange) => {
                if exchange.limit.is_some_and(|limit| limit <= now) {
                    let phase = exchange.phase.clone();
                    self.give_up(phase, now, outputs);
                } else if let Phase::Solicit(Some(offer)) = &exchange.phase {
                    let offer = offer.clone();
                    self.begin(Phase::Request(offer), now, outputs);
                } else {
                    self.repeat(now, outputs);
                }
            }
            State::Bound(held) if held.lease.address.is_some() => {
                let held = held.clone();
                self.begin(Phase::Renew(held), now, outputs);
            }
            State::Bound(_) => self.begin(Phase::Information, now, outputs),
        }
    }

    /// Starts a phase and sends its first message.
    fn begin(&mut self, phase: Phase, now: Duration, outputs: &mut Vec<Output>) {
        let (rule, limit) = phase.rule(now, self.longest_search);
        let number = ((self.random)() * f64::from(1 << 24)) as u32;
        let [_, transaction @ ..] = number.to_be_bytes();
        self.state = State::Asking(Exchange {
            phase,
            transaction,
            began: now,
            asked: now,
            repeats: Repeats::new(rule),
            again: now,
            limit,
        });
        self.repeat(now, outputs);
    }

    /// Sends the message of the current exchange, unless the maximum number has been
    /// sent.
    fn repeat(&mut self, now: Duration, outputs: &mut Vec<Output>) {
        let random = (self.random)() * 2.0 - 1.0;
        let State::Asking(exchange) = &mut self.state else {
            return;
        };
        if let Phase::Solicit(_) = exchange.phase {
            let searched = now.saturating_sub(self.searching_since);
            // If a server has set the longest wait, it has received a message of this
            // client, so the switch port already forwards frames.
            let is_at_first = searched < AT_FIRST && self.longest_search == rules::LONGEST_SEARCH;
            exchange.repeats.set_longest(match is_at_first {
                true => LONGEST_WAIT_AT_FIRST,
                false => self.longest_search,
            });
        }
        let Some(wait) = exchange.repeats.next(random) else {
            let phase = exchange.phase.clone();
            self.give_up(phase, now, outputs);
            return;
        };
        exchange.asked = now;
        exchange.again = now + wait;
        let elapsed = now.saturating_sub(exchange.began).as_millis() / 10;
        let (kind, server, address) = exchange.phase.question();
        let request = Request {
            kind,
            transaction: exchange.transaction,
            elapsed: u16::try_from(elapsed).unwrap_or(u16::MAX),
            server,
            address,
        };
        outputs.push(
            match request.encode(&self.identity, self.host_name.as_deref()) {
                Ok(message) => Output::Send(message),
                Err(error) => Output::Report(Event::Trouble(error.to_string())),
            },
        );
    }

    /// Continues after a phase that ended without an answer.
    fn give_up(&mut self, phase: Phase, now: Duration, outputs: &mut Vec<Output>) {
        match phase {
            // No server has objected to the lease, so the client keeps it (18.2.3).
            Phase::Confirm(held) if held.end().is_none_or(|end| now < end) => {
                self.hold(held, now, outputs);
            }
            Phase::Renew(held) => self.begin(Phase::Rebind(held), now, outputs),
            Phase::Confirm(_) | Phase::Rebind(_) => {
                outputs.push(Output::Report(Event::Lost));
                self.search(now, outputs);
            }
            Phase::Decline(_) => self.search_later(now),
            Phase::Solicit(_) | Phase::Request(_) | Phase::Information => {
                self.begin(Phase::Solicit(None), now, outputs);
            }
        }
    }

    fn search(&mut self, now: Duration, outputs: &mut Vec<Output>) {
        self.expect_answer(now);
        self.begin(Phase::Solicit(None), now, outputs);
    }

    fn search_later(&mut self, now: Duration) {
        self.expect_answer(now);
        let pause = REFUSED_PAUSE.mul_f64(1.0 + (self.random)() / 2.0);
        self.state = State::Pause(now + pause, Phase::Solicit(None));
    }

    fn expect_answer(&mut self, now: Duration) {
        self.searching_since = now;
        self.complaint = Some(now + SILENCE.min(self.timeout));
    }

    /// Reports and keeps a lease that began at `held.since`.
    fn hold(&mut self, held: Held, now: Duration, outputs: &mut Vec<Output>) {
        self.complaint = None;
        let left = held.lease.after(now.saturating_sub(held.since));
        let left = left.unwrap_or_else(|| (*held.lease).clone());
        outputs.push(Output::Report(Event::Bound(Box::new(left))));
        self.state = State::Bound(held);
    }

    fn on_duplicate(&mut self, now: Duration, outputs: &mut Vec<Output>) {
        let held = match &self.state {
            State::Bound(held) if held.lease.address.is_some() => held,
            State::Asking(exchange) => match &exchange.phase {
                Phase::Confirm(held) | Phase::Renew(held) | Phase::Rebind(held) => held,
                _ => return,
            },
            _ => return,
        };
        let held = held.clone();
        self.begin(Phase::Decline(held), now, outputs);
    }

    fn on_answer(
        &mut self,
        now: Duration,
        answer: &Answer,
        from: Ipv6Addr,
        outputs: &mut Vec<Output>,
    ) {
        if let Some(longest) = answer.longest_search
            && rules::SERVERS_LIMIT.contains(&longest)
        {
            self.longest_search = Duration::from_secs(longest.into());
        }
        let State::Asking(exchange) = &mut self.state else {
            return;
        };
        let granted = Lease::of_address(answer, from);
        // As for IPv4, the lease begins at the time of the client's request.
        let since = exchange.asked;
        match (&mut exchange.phase, answer.is_reply) {
            (Phase::Solicit(best), false) => {
                let Some(lease) = granted else {
                    self.refused(answer, outputs);
                    return;
                };
                let offer = Offer::of(&lease, answer.preference);
                // During the first wait the client collects offers (18.2.1).
                if answer.preference == PREFERRED || exchange.repeats.sent() > 1 {
                    if let Some(offer) = offer {
                        self.begin(Phase::Request(offer), now, outputs);
                    }
                } else if best
                    .as_ref()
                    .is_none_or(|best| best.preference < answer.preference)
                {
                    *best = offer;
                }
            }
            (Phase::Solicit(_), true) => {
                if let Some(lease) = granted.filter(|_| answer.rapid_commit) {
                    self.hold(Held::new(lease, since), now, outputs);
                }
            }
            (Phase::Request(offer), true) if offer.server == answer.server => match granted {
                Some(lease) => self.hold(Held::new(lease, since), now, outputs),
                None => {
                    self.refused(answer, outputs);
                    self.search_later(now);
                }
            },
            (Phase::Confirm(kept), true) => {
                if answer.status.code == Status::NOT_ON_LINK {
                    outputs.push(Output::Report(Event::Lost));
                    self.search(now, outputs);
                } else if answer.status.code == 0 {
                    let kept = kept.clone();
                    self.hold(kept, now, outputs);
                }
            }
            (Phase::Renew(kept) | Phase::Rebind(kept), true) => {
                let kept = kept.clone();
                self.renewed(now, &kept, answer, granted, since, outputs);
            }
            (Phase::Decline(_), true) => self.search_later(now),
            (Phase::Information, true) => {
                let lease = Lease::of_information(answer, from);
                self.hold(Held::new(lease, now), now, outputs);
            }
            _ => {}
        }
    }

    /// Handles the answer to a Renew or Rebind (18.2.10.1).
    fn renewed(
        &mut self,
        now: Duration,
        kept: &Held,
        answer: &Answer,
        granted: Option<Lease>,
        since: Duration,
        outputs: &mut Vec<Output>,
    ) {
        if let Some(lease) = granted {
            return self.hold(Held::new(lease, since), now, outputs);
        }
        let (Some(association), Some(address)) = (&answer.association, kept.address()) else {
            // The answer does not mention the address. Another server may still renew it.
            return;
        };
        let taken_back = association
            .addresses
            .iter()
            .any(|(known, _)| known.address == address && known.valid == 0);
        if association.status.code == Status::NO_BINDING && !taken_back {
            // A server that does not know the address may still grant it.
            let offer = Offer {
                server: answer.server.clone(),
                address,
                preference: 0,
            };
            self.begin(Phase::Request(offer), now, outputs);
        } else if taken_back || association.status.code == Status::NO_ADDRESS {
            outputs.push(Output::Report(Event::Lost));
            self.search_later(now);
        }
    }

    /// Reports, once per search, that a DHCPv6 server offered no address, and why. Does
    /// nothing if this search has reported [`Event::Silent`].
    fn refused(&mut self, answer: &Answer, outputs: &mut Vec<Output>) {
        if self.complaint.take().is_none() {
            return;
        }
        let association = answer.association.as_ref().map(|a| &a.status);
        let status = [Some(&answer.status), association]
            .into_iter()
            .flatten()
            .find(|status| status.code != 0);
        let text = match status {
            Some(status) if !status.text.is_empty() => status.text.clone(),
            Some(status) => format!("status {}", status.code),
            None => "no address in its answer".to_owned(),
        };
        outputs.push(Output::Report(Event::Refused(text)));
    }
}

#[cfg(test)]
mod tests;
