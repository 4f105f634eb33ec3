//! Searches for the service from all NICs at once, and uses the first NIC that reaches
//! it. No NIC waits for another.

mod attempts;
mod screen;

use std::collections::BTreeMap;
use std::time::Duration;

use landfall_http_client::ServiceClient;
use landfall_network::NetworkState;
use landfall_network::reach::Reach;
use landfall_network::state::NicState;
use landfall_report::failure::split_remedy;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::attempts::{Try, TryState};
use self::screen::Screen;
use super::expected::Expected;
use super::other_answers::{GRACE, GRACE_ALONE, GRACE_REDIRECT, Other, OtherAnswers};
use super::reached::{Place, Reached};
use super::walk::{Outcome, Start, Walk, Walker, length};

/// A server whose certificate is not trusted.
#[derive(Debug, Clone)]
pub(super) struct Untrusted {
    pub url: String,
    /// The NIC over which the server answered. `None` if the kernel chose it.
    pub start: Option<Start>,
    /// Why the server is not trusted.
    pub reason: String,
    /// Whether the certificate was rejected because of its dates; in that case the
    /// clock may be wrong.
    pub about_time: bool,
    /// Whether a later attempt would fail in the same way. False only if the certificate
    /// is not valid yet according to our clock.
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

    /// Continues the search until there is a result to return. The caller may drop the
    /// future: the next call continues the same search.
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
                    // An aborted walk has no result. Its NIC is offline, or a newer walk
                    // has replaced it.
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
            // If no NIC can reach beyond its link, try only if there are link-local
            // addresses: they may be sufficient.
            true => !has_network || state.nics.iter().any(|nic| !nic.addresses.is_empty()),
        };
        if try_without_nic && !self.tries.contains_key(&None) {
            self.tries.insert(None, Try::new(None, Vec::new()));
        }
    }

    /// How long to wait for a better answer. The wait is [`GRACE_ALONE`] if there is
    /// only one URL and working servers answered over every NIC: in that case only a
    /// NIC whose driver loads late could bring a better answer. For a redirect the
    /// search waits [`GRACE_REDIRECT`] for NICs without an answer, and does not wait
    /// for NICs that may appear late.
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

    /// Returns the best redirect or unexpected answer, without waiting for a better one.
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

/// Whether the NIC will never reach the service. Either the NIC gets no address (a port
/// of a bond, or a NIC that the plan leaves out), or it has no carrier and no carrier
/// is expected.
fn never_comes(nic: &NicState) -> bool {
    !nic.shall_have_address || !(nic.carrier || nic.awaits_carrier)
}

#[cfg(test)]
mod tests;
