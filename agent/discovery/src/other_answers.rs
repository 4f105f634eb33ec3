//! Keeps unexpected answers and redirects, and uses one of them if no better answer comes
//! in time.
//!
//! If the front end of an Ironic does not forward `GET /`, that Ironic also gives an
//! unexpected answer. The search must still find it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::reached::{Place, Reached};

/// How long to wait for a better answer, or for an answer from a trusted server. A
/// switch port with spanning tree starts to forward only 30 to 50 s after its carrier
/// comes up, and DHCP takes more time.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// How long to wait if a better answer could only come from a NIC that has not appeared
/// yet. After this time, the drivers in the ramdisk have normally probed their devices.
pub(super) const GRACE_ALONE: Duration = Duration::from_secs(10);

/// How long to wait for a better answer than a redirect. The wait is short, because
/// mirrors and artifact stores redirect too. It is not zero, because the portal of
/// another network also redirects, and another NIC may be about to answer.
pub(super) const GRACE_REDIRECT: Duration = Duration::from_secs(5);

/// The latest unexpected answer or redirect from each place.
#[derive(Debug, Default)]
pub(super) struct OtherAnswers {
    since: Option<Instant>,
    redirected_since: Option<Instant>,
    by_place: BTreeMap<Place, Other>,
}

/// An unexpected answer, or a redirect that the download follows.
#[derive(Debug)]
pub(super) struct Other {
    pub reached: Reached,
    /// The reason why the answer is not the expected one. `None` if it is a redirect that
    /// the download follows.
    pub found: Option<String>,
}

impl OtherAnswers {
    /// Keeps an answer and replaces an earlier one from the same place.
    pub(super) fn keep(&mut self, place: Place, other: Other) {
        let now = Instant::now();
        self.since.get_or_insert(now);
        if other.is_redirect() {
            self.redirected_since.get_or_insert(now);
        }
        self.by_place.insert(place, other);
    }

    /// Drops the answer, because the place has failed since or has disappeared.
    pub(super) fn forget(&mut self, place: Place) {
        self.by_place.remove(&place);
    }

    /// The time at which the search must use the best of the kept answers. `None` if no
    /// answer is kept.
    pub(super) fn due(&self, grace: Duration) -> Option<Instant> {
        let since = match self.has_redirect() {
            true => self.redirected_since,
            false => self.since.filter(|_| !self.by_place.is_empty()),
        };
        since.map(|since| since + grace)
    }

    /// Whether one of the kept answers is a redirect that the download follows.
    pub(super) fn has_redirect(&self) -> bool {
        self.by_place.values().any(Other::is_redirect)
    }

    /// Whether there are kept answers and all of them come from working servers (status
    /// below 500).
    pub(super) fn all_work(&self) -> bool {
        !self.by_place.is_empty() && self.by_place.values().all(|other| !other.is_down())
    }

    /// Whether a working server (status below 500) answered over this NIC.
    pub(super) fn works_over(&self, index: u32) -> bool {
        let other = self.by_place.get(&Some(index));
        other.is_some_and(|other| !other.is_down())
    }

    /// Removes and returns the best answer if it is due. A redirect is better than any
    /// other answer. An answer of a working server is better than one of a failing
    /// server. An answer over a known NIC is better than one over an unknown NIC, because
    /// the network can prefer a known NIC from then on.
    pub(super) fn take_due(&mut self, grace: Duration) -> Option<Other> {
        if self.due(grace).is_none_or(|due| Instant::now() < due) {
            return None;
        }
        let best = self.by_place.iter().min_by_key(|(place, other)| {
            let is_other = !other.is_redirect();
            (is_other, other.is_down(), place.is_none())
        });
        let place = best.map(|(place, _)| *place)?;
        self.by_place.remove(&place)
    }
}

impl Other {
    fn is_redirect(&self) -> bool {
        self.found.is_none()
    }

    fn is_down(&self) -> bool {
        self.reached.answer.status >= 500
    }
}

#[cfg(test)]
mod tests {
    use landfall_http_client::fixtures::answer;

    use super::*;

    fn other(over: u32, status: u16) -> Other {
        Other {
            reached: Reached {
                url: "http://192.0.2.1:6385".to_owned(),
                answer: answer(status, ""),
                over: Some(over),
            },
            found: Some(format!("status {status}")),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_redirect_waits_from_its_own_time_on_and_is_the_best() {
        let mut others = OtherAnswers::default();
        others.keep(Some(1), other(1, 404));
        tokio::time::sleep(Duration::from_secs(30)).await;
        for _ in ["first", "again"] {
            let redirect = Other {
                found: None,
                ..other(2, 302)
            };
            others.forget(Some(2));
            others.keep(Some(2), redirect);
            assert!(others.take_due(GRACE_REDIRECT).is_none());
            tokio::time::sleep(GRACE_REDIRECT / 2).await;
        }
        let taken = others.take_due(GRACE_REDIRECT).unwrap();
        assert_eq!(taken.reached.over, Some(2));
        assert!(!others.has_redirect());
        assert!(others.take_due(GRACE).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unexpected_answer_has_to_do_after_a_minute() {
        let mut others = OtherAnswers::default();
        assert!(others.due(GRACE).is_none());
        others.keep(Some(1), other(1, 503));
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(others.take_due(GRACE).is_none());
        others.keep(None, other(0, 401));
        others.keep(Some(2), other(2, 401));
        others.keep(Some(1), other(1, 503));
        tokio::time::sleep(Duration::from_secs(20)).await;
        let taken = others.take_due(GRACE).unwrap();
        assert_eq!(taken.reached.over, Some(2));
        others.forget(Some(1));
        others.forget(None);
        assert!(others.take_due(GRACE).is_none());
    }
}
