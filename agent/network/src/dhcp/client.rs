//! Obtains a lease, renews it, and starts again when it is lost.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use dhcproto::v4::MessageType;
use landfall_network_plan::MacAddr;
use landfall_sys::backoff::between;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::conflict;
use super::lease::Lease;
use super::message::{Answer, Request};
use super::sockets::{Broadcast, Unicast};
use super::{AT_FIRST, Event, LONGEST_WAIT_AT_FIRST, Reporter, Settings};

/// RFC 2131, 4.1: the first wait is 4 s. Each further wait is twice as long, up to
/// 64 s. Every wait varies by up to one second.
const FIRST_WAIT: Duration = Duration::from_secs(4);
const LONGEST_WAIT: Duration = Duration::from_secs(64);
/// After this many Discover messages without a lease, the client reports
/// [`Event::Silent`]. If no server answers, this is after 20 s during [`AT_FIRST`], and
/// later after 28 s.
const SILENCE: u32 = 3;
/// How many times the client requests an offer that it has accepted, before it looks
/// for another offer.
const TAKE_TRIES: u32 = 3;
/// RFC 2131, 4.4.5: the client repeats a renewal after half of the remaining time, but
/// not sooner than this, except at T2.
const SHORTEST_RENEWAL_WAIT: Duration = Duration::from_secs(60);

/// RFC 2131, 3.1.5: the shortest pause after the client has declined an address.
const DECLINE_PAUSE: Duration = Duration::from_secs(10);

/// Gets an address and keeps it, until the receiver of the events is gone.
pub async fn run<T: Clone>(settings: Settings, reporter: Reporter<T>) {
    let mut settings = settings;
    while let Some(address) = one_lease(&settings, &reporter).await {
        settings.previous = address;
    }
}

/// Runs from the first message to the end of the lease. Returns the address to ask
/// for again, or an inner `None` if another machine has it. The outer `None` means
/// that the receiver of the events is gone.
async fn one_lease<T: Clone>(
    settings: &Settings,
    reporter: &Reporter<T>,
) -> Option<Option<Ipv4Addr>> {
    let (lease, since) = find(settings, reporter).await?;
    let address = ipv4(&lease);
    if let Some(owner) = owner(settings, address).await {
        decline(settings, &lease);
        reporter.report(Event::Taken(address, owner)).await?;
        sleep(DECLINE_PAUSE.mul_f64(between(1.0, 1.5))).await;
        return Some(None);
    }
    reporter.report(Event::Bound(lease.clone())).await?;
    keep(settings, lease, since, reporter).await?;
    reporter.report(Event::Lost).await?;
    Some(Some(address))
}

/// Returns the hardware address of another machine that has the IP address. `None` if
/// there is none, or if the link cannot be probed.
async fn owner(settings: &Settings, address: Ipv4Addr) -> Option<MacAddr> {
    let prober = conflict::ArpProber {
        index: settings.index,
        mac: settings.mac,
        // No other NIC of this machine has the address, so only packets from this NIC
        // must be ignored.
        own: vec![settings.mac],
    };
    let found = conflict::owner(&prober, address).await;
    found.unwrap_or_else(|error| {
        let name = &settings.name;
        tracing::debug!("{name} DHCP: cannot ask who has {address}: {error}");
        None
    })
}

fn decline(settings: &Settings, lease: &Lease) {
    let request = Request::Decline {
        address: ipv4(lease),
        server: lease.server,
    };
    let sent = encode(request, settings, random_transaction(), Instant::now())
        .and_then(|message| Broadcast::open(settings)?.send(&message));
    if let Err(error) = sent {
        tracing::debug!("{} DHCP: cannot decline the lease: {error}", settings.name);
    }
}

/// Asks until a server gives a lease. Returns the lease and the time of the
/// request, when the lease begins (RFC 2131, 4.4.1). `None` means that the receiver
/// of the events is gone.
async fn find<T: Clone>(
    settings: &Settings,
    reporter: &Reporter<T>,
) -> Option<(Box<Lease>, Instant)> {
    let began = Instant::now();
    loop {
        let mut search = match Broadcast::open(settings) {
            Ok(socket) => Search::new(settings, socket, began),
            Err(error) => {
                give_way(reporter, &error).await?;
                continue;
            }
        };
        match search.run(reporter).await {
            Ok(Outcome::Found(lease, since)) => return Some((lease, since)),
            Ok(Outcome::Nothing) => {}
            Ok(Outcome::ReceiverGone) => return None,
            Err(error) => give_way(reporter, &error).await?,
        }
    }
}

/// Reports an error and waits. The wait can be long, because the link is down or going
/// away, and a new client starts when the link returns.
async fn give_way<T: Clone>(reporter: &Reporter<T>, error: &io::Error) -> Option<()> {
    reporter.report(Event::Trouble(error.to_string())).await?;
    sleep(LONGEST_WAIT).await;
    Some(())
}

enum Outcome {
    Found(Box<Lease>, Instant),
    Nothing,
    ReceiverGone,
}

enum Taken {
    Lease(Box<Lease>, Instant),
    Refused,
    Silence,
}

/// One series of messages in one transaction.
struct Search<'a> {
    settings: &'a Settings,
    socket: Broadcast,
    transaction: u32,
    start: Instant,
    /// The start of the first series. [`AT_FIRST`] counts from here and not from `start`,
    /// because a series may be shorter than [`AT_FIRST`].
    began: Instant,
}

impl<'a> Search<'a> {
    fn new(settings: &'a Settings, socket: Broadcast, began: Instant) -> Search<'a> {
        Search {
            settings,
            socket,
            transaction: random_transaction(),
            start: Instant::now(),
            began,
        }
    }

    async fn run<T: Clone>(&mut self, reporter: &Reporter<T>) -> io::Result<Outcome> {
        let end = self.start + self.settings.series;
        let mut wait = FIRST_WAIT;
        let mut sent = 0;
        let mut logged = false;
        while Instant::now() < end {
            self.send(Request::Discover)?;
            sent += 1;
            let until = (Instant::now() + jittered(wait)).min(end);
            if let Some(offer) = self.offer(until).await? {
                match self.take(&offer).await? {
                    Taken::Lease(lease, since) => return Ok(Outcome::Found(lease, since)),
                    Taken::Refused => {
                        if reporter
                            .report(Event::Refused(offer.server))
                            .await
                            .is_none()
                        {
                            return Ok(Outcome::ReceiverGone);
                        }
                        // Wait until the end of the attempt. Otherwise a server that
                        // alternates between offers and refusals could make the client
                        // send without a pause.
                        sleep_until(until).await;
                    }
                    Taken::Silence => {}
                }
            }
            // A series may end before [`SILENCE`] messages have been sent.
            if !logged && (sent >= SILENCE || Instant::now() >= end) {
                logged = true;
                if reporter
                    .report(Event::Silent(self.start.elapsed()))
                    .await
                    .is_none()
                {
                    return Ok(Outcome::ReceiverGone);
                }
            }
            wait = next_wait(wait, self.began.elapsed());
        }
        Ok(Outcome::Nothing)
    }

    fn send(&self, request: Request) -> io::Result<()> {
        let message = encode(request, self.settings, self.transaction, self.start)?;
        self.socket.send(&message)
    }

    /// The first offer that is a valid lease.
    async fn offer(&self, until: Instant) -> io::Result<Option<Lease>> {
        while let Ok(payload) = timeout_at(until, self.socket.receive()).await {
            let answer = Answer::parse(&payload?, self.transaction, self.settings.mac);
            let Some(answer) = answer.filter(|a| a.kind == MessageType::Offer) else {
                continue;
            };
            match Lease::from_answer(&answer) {
                Ok(lease) => return Ok(Some(lease)),
                Err(reason) => {
                    let (name, address) = (&self.settings.name, answer.address);
                    tracing::debug!("{name} DHCP: offer of {address} not usable: {reason}");
                }
            }
        }
        Ok(None)
    }

    async fn take(&self, offer: &Lease) -> io::Result<Taken> {
        let request = Request::Take {
            address: ipv4(offer),
            server: offer.server,
        };
        let mut wait = FIRST_WAIT;
        for _ in 0..TAKE_TRIES {
            let asked = Instant::now();
            self.send(request)?;
            let until = asked + jittered(wait);
            while let Ok(payload) = timeout_at(until, self.socket.receive()).await {
                match decision(&payload?, self.transaction, self.settings) {
                    // Only the chosen server may grant the lease.
                    Some(Decision::Yes(lease)) if lease.server == offer.server => {
                        return Ok(Taken::Lease(lease, asked));
                    }
                    Some(Decision::No) => return Ok(Taken::Refused),
                    _ => {}
                }
            }
            wait *= 2;
        }
        Ok(Taken::Silence)
    }
}

enum Decision {
    Yes(Box<Lease>),
    No,
}

fn decision(payload: &[u8], transaction: u32, settings: &Settings) -> Option<Decision> {
    let answer = Answer::parse(payload, transaction, settings.mac)?;
    match answer.kind {
        MessageType::Ack => Lease::from_answer(&answer)
            .ok()
            .map(|lease| Decision::Yes(Box::new(lease))),
        MessageType::Nak => Some(Decision::No),
        _ => None,
    }
}

/// Renews a lease until it is lost. `None` means that the receiver of the events is
/// gone.
async fn keep<T: Clone>(
    settings: &Settings,
    mut lease: Box<Lease>,
    mut since: Instant,
    reporter: &Reporter<T>,
) -> Option<()> {
    loop {
        sleep_until(since + lease.renew_after).await;
        match renew(settings, &lease, since).await {
            Taken::Lease(renewed, asked) => {
                (lease, since) = (renewed, asked);
                reporter.report(Event::Bound(lease.clone())).await?;
            }
            Taken::Refused => return Some(()),
            Taken::Silence => match lease.lifetime {
                Some(lifetime) => {
                    sleep_until(since + lifetime).await;
                    return Some(());
                }
                None => since = Instant::now(),
            },
        }
    }
}

/// Asks the server of the lease until T2, then any server until the lease ends.
async fn renew(settings: &Settings, lease: &Lease, since: Instant) -> Taken {
    let address = ipv4(lease);
    let rebind = since + lease.rebind_after;
    let end = lease.lifetime.map_or(rebind, |lifetime| since + lifetime);
    let socket = match Unicast::open(settings, address) {
        Ok(socket) => socket,
        Err(error) => {
            let name = &settings.name;
            tracing::warn!("{name} DHCP: renewal of {address} is not possible: {error}");
            return Taken::Silence;
        }
    };
    let transaction = random_transaction();
    let start = Instant::now();
    while Instant::now() < end {
        let asked = Instant::now();
        let (server, phase_end) = if asked < rebind {
            (lease.server, rebind)
        } else {
            (Ipv4Addr::BROADCAST, end)
        };
        let message = encode(Request::Keep { address }, settings, transaction, start);
        // A message that cannot be sent now (no route while the link is down) counts as a
        // lost message.
        if let Ok(message) = message
            && let Err(error) = socket.send(&message, server).await
        {
            tracing::debug!("{} DHCP: cannot ask {server}: {error}", settings.name);
        }
        let left = phase_end.saturating_duration_since(asked);
        let until = (asked + (left / 2).max(SHORTEST_RENEWAL_WAIT)).min(phase_end);
        while let Ok(received) = timeout_at(until, socket.receive()).await {
            let Ok(payload) = received else {
                // The link is down. No message arrives before the link is up again, and
                // then a new client starts.
                sleep_until(until).await;
                break;
            };
            match decision(&payload, transaction, settings) {
                Some(Decision::Yes(lease)) if ipv4(&lease) == address => {
                    return Taken::Lease(lease, asked);
                }
                Some(Decision::No) => return Taken::Refused,
                _ => {}
            }
        }
    }
    Taken::Silence
}

fn encode(
    request: Request,
    settings: &Settings,
    transaction: u32,
    start: Instant,
) -> io::Result<Vec<u8>> {
    let seconds = u16::try_from(start.elapsed().as_secs()).unwrap_or(u16::MAX);
    request
        .encode(settings, transaction, seconds)
        .map_err(io::Error::other)
}

fn ipv4(lease: &Lease) -> Ipv4Addr {
    match lease.address.address {
        std::net::IpAddr::V4(address) => address,
        // A DHCPv4 lease never has an IPv6 address.
        std::net::IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// The wait that follows `wait`, if the client has already searched for `searched`.
fn next_wait(wait: Duration, searched: Duration) -> Duration {
    let longest = match searched < AT_FIRST {
        true => LONGEST_WAIT_AT_FIRST,
        false => LONGEST_WAIT,
    };
    (wait * 2).min(longest)
}

fn jittered(wait: Duration) -> Duration {
    let second = Duration::from_secs(1);
    wait - second + second.mul_f64(between(0.0, 2.0))
}

fn random_transaction() -> u32 {
    // The low bits of a version 4 UUID are random.
    uuid::Uuid::new_v4().as_u128() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times at which the client sends its messages if nobody answers, in
    /// seconds.
    fn times(until: u64) -> Vec<u64> {
        let mut now = Duration::ZERO;
        let mut wait = FIRST_WAIT;
        let mut times = Vec::new();
        while now.as_secs() < until {
            times.push(now.as_secs());
            now += wait;
            wait = next_wait(wait, now);
        }
        times
    }

    #[test]
    fn the_client_asks_often_while_a_switch_port_may_still_be_blocked() {
        let times = times(600);
        let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (time, pause) in times.iter().zip(&pauses) {
            assert!(*time >= 120 || *pause <= 8, "{pause} s at {time} s");
        }
        // A port with spanning tree forwards after 30 s. The next message must follow
        // within 8 s.
        assert!(times.iter().any(|time| (30..=38).contains(time)));
        // After that the RFC's waits apply: the client does not keep the high rate
        // forever.
        let last: Vec<u64> = pauses.into_iter().skip_while(|pause| *pause <= 8).collect();
        assert_eq!(last[..4], [16, 32, 64, 64]);
    }
}
