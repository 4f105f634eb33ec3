//! Downloads one file from several mirrors: chooses the next mirror and decides when
//! to give up.
//!
//! After a temporary error, the agent tries the next mirror at once. It pauses when all
//! mirrors have failed. If a connection made progress, the agent pauses and then stays
//! with its mirror, because that mirror is proven to have the file. After a permanent
//! error, or if the mirror has a different file, the agent does not use the mirror again.

use std::time::{Duration, Instant};

use landfall_report::failure::{Failure, Result, split_remedy};
use landfall_sys::backoff::Backoff;

use super::download_state::{Break, DownloadState, Outcome, final_at};
use super::local::Local;
use super::location::Location;
use super::mirror::Mirror;
use super::pace::PROGRESS;
use super::transfer::Transfer;
use super::{Events, Request};
use crate::resume::Resource;

/// Downloads the file to its end, from any of the mirrors.
///
/// # Errors
/// If no mirror is left, or if there was no progress for too long.
pub(super) async fn fetch(
    request: &Request,
    client: &reqwest::Client,
    events: &Events,
    known: Option<(Resource, u64)>,
) -> Result<()> {
    let mut mirrors: Vec<Mirror<'_>> = request.urls.iter().map(|url| Mirror::new(url)).collect();
    if let (Some(first), Some((resource, _))) = (mirrors.first_mut(), &known) {
        first.known = Some(resource.clone());
    }
    let mut state = DownloadState::new(request, events, known);
    let mut budget = RetryBudget::new(request, state.received);
    let mut at = 0;
    loop {
        let before = state.received;
        let start_over = budget.tries > 0 || !mirrors_that_resume(&mirrors, at);
        let outcome = read_from(&mut mirrors[at], &mut state, client, start_over).await;
        let (reason, asked) = match outcome {
            Ok(()) | Err(Break::Stopped) => return Ok(()),
            Err(Break::Final(failure)) => {
                mirrors[at].lost = Some(failure.clone());
                let Some(next) = after(&mirrors, at) else {
                    return Err(all_lost(&mirrors, failure));
                };
                tracing::warn!("{failure}; continuing with {}", mirrors[next].shown);
                at = next;
                continue;
            }
            Err(Break::StartOver) => {
                mirrors[at].starts_over = true;
                let next = after(&mirrors, at).unwrap_or(at);
                tracing::info!(
                    "image {}: the server ignores Range; continuing with {}",
                    mirrors[at].shown,
                    mirrors[next].shown
                );
                at = next;
                continue;
            }
            Err(Break::Later(reason, asked)) => (reason, asked),
        };
        budget.got_to(state.received);
        mirrors[at].trouble = Some(reason.clone());
        if budget.is_over() {
            return Err(given_up(&mirrors, &state, &budget));
        }
        let brought = state.received >= before + PROGRESS;
        let next = match after(&mirrors, at) {
            Some(next) if !brought => next,
            _ => at,
        };
        let what = match state.file {
            Some(_) => format!(
                "connection lost at byte {} of {}",
                state.received,
                state.total_text()
            ),
            None => "no answer yet".to_owned(),
        };
        let (from, to) = (&mirrors[at].shown, &mirrors[next].shown);
        let (reason, remedy) = split_remedy(&reason);
        let usable = mirrors.iter().filter(|mirror| mirror.lost.is_none());
        match budget.pause(brought, usable.count(), asked) {
            None => tracing::warn!("image {from}: {what} ({reason}), continuing with {to}{remedy}"),
            Some(wait) => {
                let how = if next == at {
                    "trying again".to_owned()
                } else {
                    format!("trying {to}")
                };
                tracing::warn!(
                    "image {from}: {what} ({reason}), {how} in {:.1} s{remedy}",
                    wait.as_secs_f64()
                );
                tokio::time::sleep(wait).await;
            }
        }
        at = next;
    }
}

/// Reads the file from this mirror until its end or an error. `start_over` is whether a
/// server that ignores Range may send a large part of the file a second time. If
/// `start_over` is false, such a server causes [`Break::StartOver`].
async fn read_from(
    mirror: &mut Mirror<'_>,
    state: &mut DownloadState<'_>,
    client: &reqwest::Client,
    start_over: bool,
) -> Outcome<()> {
    let location =
        Location::parse(mirror.url).map_err(|error| final_at(&mirror.shown, error.to_string()))?;
    if location == Location::Server {
        Transfer::new(mirror, client).go_on(state, start_over).await
    } else {
        Local::new(mirror, location).go_on(state).await
    }
}

/// The next usable mirror after `at`, but not `at` itself. `None` if there is no other
/// usable mirror. Prefers a mirror that may support Range.
fn after(mirrors: &[Mirror<'_>], at: usize) -> Option<usize> {
    let others = || (1..mirrors.len()).map(|step| (at + step) % mirrors.len());
    let left = |at: &usize| mirrors[*at].lost.is_none();
    others()
        .filter(left)
        .find(|at| !mirrors[*at].starts_over)
        .or_else(|| others().find(left))
}

/// Whether any mirror other than `except` may support Range.
fn mirrors_that_resume(mirrors: &[Mirror<'_>], except: usize) -> bool {
    let mut others = mirrors.iter().enumerate().filter(|(at, _)| *at != except);
    others.any(|(_, mirror)| mirror.lost.is_none() && !mirror.starts_over)
}

/// Tracks how long the download has made no progress.
struct RetryBudget {
    give_up: Duration,
    retries: u32,
    backoff: Backoff,
    mark: u64,
    since: Instant,
    /// Pauses since the last progress.
    tries: u32,
    /// Failures since the last pause.
    failures: usize,
}

impl RetryBudget {
    fn new(request: &Request, received: u64) -> Self {
        let retry_policy = &request.retry_policy;
        Self {
            give_up: retry_policy.give_up,
            retries: retry_policy.retries,
            backoff: Backoff::new(retry_policy.first_pause, retry_policy.longest_pause),
            mark: received,
            since: Instant::now(),
            tries: 0,
            failures: 0,
        }
    }

    fn got_to(&mut self, received: u64) {
        if received >= self.mark + PROGRESS {
            (self.mark, self.since) = (received, Instant::now());
            self.backoff.reset();
            (self.tries, self.failures) = (0, 0);
        }
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() >= self.give_up && self.tries >= self.retries
    }

    /// Returns how long to wait before the next connection, or `None` for no wait.
    /// `brought` is whether the last connection made progress. `asked` is the pause
    /// that the server requested.
    fn pause(
        &mut self,
        brought: bool,
        mirrors: usize,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        self.failures += 1;
        if !brought && self.failures < mirrors {
            return None;
        }
        self.failures = 0;
        if !brought {
            self.tries += 1;
        }
        // With several mirrors, ignore the pause that one server requested, because
        // another mirror may be available again.
        let asked = asked.filter(|_| mirrors == 1);
        Some(asked.unwrap_or_else(|| self.backoff.pause()))
    }
}

fn given_up(mirrors: &[Mirror<'_>], state: &DownloadState<'_>, budget: &RetryBudget) -> Failure {
    let troubles: Vec<String> = mirrors.iter().filter_map(why_not).collect();
    Failure::image_download(format!(
        "{}; gave up at byte {} of {} after {} s without progress",
        troubles.join("; "),
        state.received,
        state.total_text(),
        budget.since.elapsed().as_secs(),
    ))
    .hint("check that the image server is up and reachable from this host")
}

/// The error if no mirror is left; it lists the error of each mirror.
fn all_lost(mirrors: &[Mirror<'_>], last: Failure) -> Failure {
    if mirrors.len() == 1 {
        return last;
    }
    let troubles: Vec<String> = mirrors.iter().filter_map(why_not).collect();
    let mut lost = mirrors.iter().filter_map(|mirror| mirror.lost.as_ref());
    Failure {
        permanent: lost.all(|failure| failure.permanent),
        details: format!("no URL of the image is usable: {}", troubles.join("; ")),
        ..last
    }
}

fn why_not(mirror: &Mirror<'_>) -> Option<String> {
    match (&mirror.lost, &mirror.trouble) {
        (Some(failure), _) => Some(failure.details.clone()),
        (None, Some(trouble)) => Some(format!("{}: {trouble}", mirror.shown)),
        (None, None) => None,
    }
}
