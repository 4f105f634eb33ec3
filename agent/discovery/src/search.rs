//! Searches for the service from all NICs at once. The first NIC that reaches it
//! wins, and no NIC waits for another.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use landfall_http_client::{NoAnswer, ServiceClient};
use landfall_network::NetworkState;
use landfall_network::reach::Reach;
use landfall_network::state::{AddressState, NicState};
use landfall_report::failure::split_remedy;
use landfall_sys::backoff::Backoff;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::expected::Expected;
use super::other_answers::{GRACE, GRACE_ALONE, GRACE_REDIRECT, Other, OtherAnswers};
use super::reach_screen;
use super::reached::{Place, Reached};
use super::walk::{Outcome, Start, Walk, Walker, length};

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// A switch port forwards packets only 30 to 50 s after its carrier comes up.
/// With this pause an attempt follows soon after that.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// After this many attempts a quick success is unlikely, so the pauses get
/// longer.
const TRIES_IN_HASTE: u32 = 15;
const LONGEST_PAUSE_LATER: Duration = Duration::from_secs(60);

/// When the console first shows how far the NICs have come, if no attempt has ended
/// before.
const FIRST_SCREEN: Duration = Duration::from_secs(15);
/// The minimum time between two screens that differ.
const SCREEN_PAUSE: Duration = Duration::from_secs(5);
/// The minimum time between two screens that are the same.
const SCREEN_AGAIN: Duration = Duration::from_secs(60);

/// A server whose certificate is not trusted.
#[derive(Debug, Clone)]
pub(super) struct Untrusted {
    pub url: String,
    /// The NIC that was used, or `None` if the route decided.
    pub start: Option<Start>,
    /// Why the server is not trusted.
    pub reason: String,
    /// Whether the dates of the certificate are the problem, so that the clock may
    /// be wrong.
    pub about_time: bool,
    /// Whether a later attempt would fail in the same way. That is so unless the
    /// certificate is not valid yet, by our clock.
    pub for_good: bool,
}

/// A result of the search.
#[derive(Debug)]
pub(super) enum News {
    /// A server has answered. The search is over.
    Reached(Reached),
    /// The caller must decide about this server. The search can continue.
    Untrusted(Untrusted),
}

/// A search in progress.
pub(super) struct Search {
    client: ServiceClient,
    urls: Vec<String>,
    limit: Duration,
    expected: Expected,
    others: OtherAnswers,
    tries: BTreeMap<Place, Try>,
    walks: JoinSet<(Place, u64, Vec<Walk>)>,
    started: u64,
    screen: Screen,
}

/// The state of the search from one place.
struct Try {
    start: Option<Start>,
    /// The addresses of the NIC during the attempts.
    addresses: Vec<AddressState>,
    backoff: Backoff,
    failures: u32,
    /// The URLs of untrusted servers that the console already shows.
    said: BTreeSet<String>,
    state: TryState,
}

enum TryState {
    Walking(u64, AbortHandle),
    Pausing(Instant),
}

impl Search {
    pub(super) fn new(
        client: &ServiceClient,
        urls: &[String],
        limit: Duration,
        expected: Expected,
    ) -> Self {
        Self {
            client: client.clone(),
            urls: urls.to_vec(),
            limit,
            expected,
            others: OtherAnswers::default(),
            tries: BTreeMap::new(),
            walks: JoinSet::new(),
            started: 0,
            screen: Screen::new(),
        }
    }

    /// Continues the search until there is news. The future may be dropped: the next
    /// call continues the same search.
    pub(super) async fn news(
        &mut self,
        network: &mut watch::Receiver<NetworkState>,
        reach: &watch::Sender<Reach>,
    ) -> News {
        let mut has_network = true;
        loop {
            let state = network.borrow_and_update().clone();
            self.follow(&state, has_network, reach);
            let grace = self.grace(&state);
            if let Some(Other { reached, found }) = self.others.take_due(grace) {
                if let Some(found) = found {
                    self.warn_of(&reached.url, &found);
                }
                return News::Reached(reached);
            }
            let wake = { self.start_due().into_iter().chain(self.others.due(grace)) }.min();
            let service = self.urls.join(" ");
            let show_at = self.screen.show(&service, &state, &reach.borrow());
            tokio::select! {
                Some(ended) = self.walks.join_next() => {
                    // An aborted walk has no result. A newer walk has replaced it.
                    let Ok((place, number, walks)) = ended else { continue };
                    if let Some(news) = self.take(place, number, walks, reach) {
                        return news;
                    }
                }
                changed = network.changed(), if has_network => has_network = changed.is_ok(),
                () = sleep_until(wake.map_or(show_at, |wake| wake.min(show_at))) => {}
            }
        }
    }

    /// Warns that the search ends with an unexpected answer.
    fn warn_of(&self, url: &str, found: &str) {
        let (found, remedy) = split_remedy(found);
        if self.urls.len() == 1 {
            tracing::warn!(
                "{url} answers with {found}, and there is no other server to try: using this one{remedy}"
            );
        } else {
            tracing::warn!(
                "{url} answers with {found}, and no server gave a better answer: using this one{remedy}"
            );
        }
    }

    /// Starts, stops and restarts walks when the NICs change.
    fn follow(&mut self, state: &NetworkState, has_network: bool, reach: &watch::Sender<Reach>) {
        let online: Vec<&NicState> = state.nics.iter().filter(|nic| nic.is_online()).collect();
        let gone: Vec<Place> = self.tries.keys().copied().collect();
        for place in gone.into_iter().flatten() {
            if !online.iter().any(|nic| nic.index == place) {
                self.tries.remove(&Some(place));
                self.others.forget(Some(place));
                reach.send_if_modified(|reach| reach.ways.remove(&place).is_some());
            }
        }
        for nic in &online {
            let usable: Vec<_> = nic.addresses.iter().filter(|a| a.usable).cloned().collect();
            let known = self.tries.get(&Some(nic.index));
            if known.is_some_and(|known| known.addresses == usable) {
                continue;
            }
            let start = Start {
                index: nic.index,
                name: nic.name.clone(),
            };
            self.tries
                .insert(Some(nic.index), Try::new(Some(start), usable));
        }
        // Also try without binding to a NIC: the service may be reached over the
        // loopback or a tunnel.
        let try_without_nic = match online.is_empty() {
            false => self.tries.values().all(|known| known.failures > 0),
            // Without an address on any NIC, wait. Link-local addresses alone may be
            // enough.
            true => !has_network || state.nics.iter().any(|nic| !nic.addresses.is_empty()),
        };
        if try_without_nic && !self.tries.contains_key(&None) {
            self.tries.insert(None, Try::new(None, Vec::new()));
        }
    }

    /// How long to wait for a better answer. The wait is short if there is only one URL
    /// and working servers answered over every NIC: then only a NIC whose driver loads
    /// late could bring a better answer. A redirect does not wait for such a NIC, and only
    /// for a moment for the others.
    fn grace(&self, state: &NetworkState) -> Duration {
        let is_last = |nic: &NicState| self.others.works_over(nic.index) || never_comes(nic);
        let all_answered = state.nics.iter().all(is_last);
        let alone = self.urls.len() == 1 && self.others.all_work() && all_answered;
        match (self.others.has_redirect(), all_answered) {
            (true, true) => Duration::ZERO,
            (true, false) => GRACE_REDIRECT,
            (false, _) if alone => GRACE_ALONE,
            (false, _) => GRACE,
        }
    }

    /// Starts the walks that are due. Returns the time of the next one.
    fn start_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        for (place, known) in &mut self.tries {
            let TryState::Pausing(until) = &known.state else {
                continue;
            };
            if *until > now {
                next = Some(next.map_or(*until, |next| next.min(*until)));
                continue;
            }
            self.started += 1;
            let (place, number) = (*place, self.started);
            let walker = Walker {
                client: self.client.clone(),
                start: known.start.clone(),
                limit: self.limit,
                expected: self.expected,
            };
            let urls = self.urls.clone();
            let walk = async move { (place, number, walker.walk_to_any(&urls).await) };
            known.state = TryState::Walking(number, self.walks.spawn(walk));
        }
        next
    }

    fn take(
        &mut self,
        place: Place,
        number: u64,
        walks: Vec<Walk>,
        reach: &watch::Sender<Reach>,
    ) -> Option<News> {
        let known = self.tries.get_mut(&place)?;
        if !matches!(&known.state, TryState::Walking(current, _) if *current == number) {
            return None;
        }
        if let (Some(index), Some(best)) = (place, walks.iter().max_by_key(|walk| length(walk))) {
            reach.send_if_modified(|reach| {
                let before = reach.ways.insert(index, best.steps.clone());
                before.as_ref() != Some(&best.steps)
            });
        }
        let pause = known.failed();
        let expected = self.expected;
        self.others.forget(place);
        let mut news = None;
        for walk in walks {
            let url = walk.url;
            let reached = |url, answer| Reached {
                url,
                answer,
                over: place,
            };
            match walk.outcome {
                Outcome::Expected(answer) => return Some(News::Reached(reached(url, answer))),
                Outcome::Redirect(answer) => {
                    let reached = reached(url, answer);
                    let found = None;
                    self.others.keep(place, Other { reached, found });
                }
                Outcome::Other(answer, found) => {
                    known.log(
                        &format!("expected {expected}, found another answer at {url}"),
                        &found,
                        pause,
                    );
                    let reached = reached(url, answer);
                    let found = Some(found);
                    self.others.keep(place, Other { reached, found });
                }
                Outcome::None(fault) => {
                    known.report(&url, &fault, pause);
                    if fault.about_time || fault.untrusted_for_good {
                        news = Some(News::Untrusted(Untrusted {
                            url,
                            start: known.start.clone(),
                            reason: fault.text,
                            about_time: fault.about_time,
                            for_good: fault.untrusted_for_good,
                        }));
                    }
                }
            }
        }
        news
    }

    /// The best unexpected answer, if there is one.
    pub(super) fn take_other(&mut self) -> Option<Reached> {
        let other = self.others.take_due(Duration::ZERO)?;
        Some(other.reached)
    }

    /// Retries everything at once, because the clock has just been set.
    pub(super) fn begin_again(&mut self) {
        for known in self.tries.values_mut() {
            known.state = TryState::Pausing(Instant::now());
        }
    }
}

/// Whether the NIC will never reach the service: it gets no address, like a port of
/// a bond or a NIC that the plan leaves out, or it has no carrier and none is
/// expected.
fn never_comes(nic: &NicState) -> bool {
    !nic.shall_have_address || !(nic.carrier || nic.awaits_carrier)
}

impl Try {
    fn new(start: Option<Start>, addresses: Vec<AddressState>) -> Self {
        Self {
            start,
            addresses,
            backoff: Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE),
            failures: 0,
            said: BTreeSet::new(),
            state: TryState::Pausing(Instant::now()),
        }
    }

    fn failed(&mut self) -> Duration {
        self.failures += 1;
        if self.failures == TRIES_IN_HASTE {
            self.backoff = Backoff::new(LONGEST_PAUSE, LONGEST_PAUSE_LATER);
        }
        let pause = self.backoff.pause();
        self.state = TryState::Pausing(Instant::now() + pause);
        pause
    }

    /// Reports a failed attempt. An untrusted certificate is reported only once,
    /// because only an operator can fix it.
    fn report(&mut self, url: &str, fault: &NoAnswer, pause: Duration) {
        let text = &fault.text;
        if self.is_said(url, fault) {
            return tracing::debug!("no answer from {url}: {text}");
        }
        self.log(&format!("no answer from {url}"), text, pause);
    }

    /// Compares only URLs: the reason contains the current time, so it differs at
    /// each attempt.
    fn is_said(&mut self, url: &str, fault: &NoAnswer) -> bool {
        fault.untrusted_for_good && !self.said.insert(url.to_owned())
    }

    fn log(&self, what: &str, fault: &str, pause: Duration) {
        let again = format!("again in {:.0} s", pause.as_secs_f64().ceil());
        let (fault, remedy) = split_remedy(fault);
        match &self.start {
            Some(start) => {
                let name = &start.name;
                tracing::warn!("{what}: {name}: {fault}; {again}{remedy}");
            }
            None => tracing::debug!("{what}: {fault}; {again}{remedy}"),
        }
    }
}

impl Drop for Try {
    fn drop(&mut self) {
        if let TryState::Walking(_, task) = &self.state {
            task.abort();
        }
    }
}

/// The lines that the console showed last, and when.
struct Screen {
    begun: Instant,
    shown: Option<(Instant, Vec<String>)>,
}

impl Screen {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            shown: None,
        }
    }

    /// Shows the screen if it is due. Returns the time when to check again.
    fn show(&mut self, service: &str, state: &NetworkState, reach: &Reach) -> Instant {
        let now = Instant::now();
        let lines = reach_screen::screen(service, state, reach);
        let due = match &self.shown {
            None if reach.ways.is_empty() => self.begun + FIRST_SCREEN,
            // Wait for this pause even after the first failure: the next attempt comes soon
            // and may succeed.
            None => self.begun + SCREEN_PAUSE,
            Some((at, shown)) if *shown != lines => *at + SCREEN_PAUSE,
            Some((at, _)) => *at + SCREEN_AGAIN,
        };
        if now < due {
            return due;
        }
        for line in &lines {
            tracing::info!("{line}");
        }
        self.shown = Some((now, lines));
        now + SCREEN_PAUSE
    }
}

#[cfg(test)]
mod tests;
