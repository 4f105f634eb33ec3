//! One URL being downloaded: connection after connection, each from the byte
//! that the last one came to.

use std::time::{Duration, Instant};

use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, IF_RANGE,
    LAST_MODIFIED, RANGE, RETRY_AFTER,
};

use super::pace::{PROGRESS, Pace};
use super::{Event, Events, Patience, Place, Request, download_error, shown};
use crate::backoff::Backoff;
use crate::disk::resume::{Answer, Resource, Verdict, judge};
use crate::failure::{Failure, Result};
use crate::http_client::{is_untrusted, why};

/// Why one connection did not bring the file to its end.
enum Break {
    /// Worth another try, after the pause that the server asked for.
    Later(String, Option<Duration>),
    Final(Failure),
}

impl From<Failure> for Break {
    fn from(failure: Failure) -> Self {
        Self::Final(failure)
    }
}

fn later(reason: impl Into<String>) -> Break {
    Break::Later(reason.into(), None)
}

/// One URL being downloaded, over as many connections as it takes.
pub(super) struct Transfer<'a> {
    client: &'a reqwest::Client,
    events: &'a Events,
    url: &'a str,
    shown: String,
    authorization: Option<&'a str>,
    patience: &'a Patience,
    known: Option<Resource>,
    received: u64,
    begun: bool,
}

impl<'a> Transfer<'a> {
    /// Nothing is asked before `run`.
    pub(super) fn new(
        request: &'a Request,
        client: &'a reqwest::Client,
        events: &'a Events,
        url: &'a str,
    ) -> Self {
        Self {
            client,
            events,
            url,
            shown: shown(url),
            authorization: request.authorization.as_deref(),
            patience: &request.patience,
            known: None,
            received: 0,
            begun: false,
        }
    }

    /// Has it begin in the middle of a file that is known.
    pub(super) fn go_on_from(&mut self, resource: Resource, at: u64) {
        (self.known, self.received) = (Some(resource), at);
    }

    /// Up to which byte the file has been delivered.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Downloads to the end of the file.
    ///
    /// # Errors
    /// What no other connection would mend, or that patience has ended.
    pub(super) async fn run(&mut self) -> Result<()> {
        let mut backoff = Backoff::new(self.patience.first_pause, self.patience.longest_pause);
        let (mut mark, mut since) = (self.received, Instant::now());
        let mut tries = 0;
        loop {
            let (reason, asked) = match self.connection().await {
                Ok(()) => return Ok(()),
                Err(Break::Final(failure)) => return Err(failure),
                Err(Break::Later(reason, asked)) => (reason, asked),
            };
            if self.received >= mark + PROGRESS {
                (mark, since) = (self.received, Instant::now());
                backoff.reset();
                tries = 0;
            }
            if since.elapsed() >= self.patience.give_up && tries >= self.patience.retries {
                return Err(download_error(format!(
                    "{}: {reason}; gave up at byte {} of {} after {} s without progress",
                    self.shown,
                    self.received,
                    self.total_text(),
                    since.elapsed().as_secs(),
                ))
                .hint("is the image server up and reachable from this host?"));
            }
            let wait = asked.unwrap_or_else(|| backoff.pause());
            let place = if self.known.is_some() {
                format!(
                    "connection lost at byte {} of {}",
                    self.received,
                    self.total_text()
                )
            } else {
                "no answer yet".to_owned()
            };
            tracing::warn!(
                "image {}: {place} ({reason}), trying again in {:.1} s",
                self.shown,
                wait.as_secs_f64()
            );
            tokio::time::sleep(wait).await;
            tries += 1;
        }
    }

    fn total_text(&self) -> String {
        match self.known.as_ref().and_then(|known| known.total) {
            Some(total) => total.to_string(),
            None => "unknown".to_owned(),
        }
    }

    /// Makes one connection and reads from it to the end of the file.
    async fn connection(&mut self) -> std::result::Result<(), Break> {
        let mut response = self.ask().await?;
        let answer = answer_of(&response);
        let (resource, mut skip) = match judge(self.known.as_ref(), self.received, &answer) {
            Verdict::Go { resource, skip } => (resource, skip),
            Verdict::Later(reason, asked) => return Err(Break::Later(reason, asked)),
            Verdict::Never(reason) => {
                return Err(download_error(format!("{}: {reason}", self.shown)).into());
            }
            Verdict::Changed(difference) => {
                return Err(download_error(format!(
                    "{}: the file changed on the server at byte {}: {difference}",
                    self.shown, self.received
                ))
                .hint("deploy again: the new file must be read from its start")
                .into());
            }
        };
        self.begin_or_resume(resource, skip, answer.status == 206)
            .await?;
        let total = self.known.as_ref().and_then(|known| known.total);
        let mut pace = Pace::new(self.patience.give_up.max(self.patience.stall));

        while total != Some(self.received) {
            let chunk = match tokio::time::timeout(self.patience.stall, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) if total.is_none() && skip == 0 => break,
                Ok(Ok(None)) => return Err(later("the body ended early")),
                Ok(Err(e)) => return Err(later(why(&e))),
                Err(_) => {
                    let seconds = self.patience.stall.as_secs();
                    return Err(later(format!("no byte for {seconds} s")));
                }
            };
            // Bytes that are read again count, too: there are only so many.
            pace.received(chunk.len() as u64).map_err(later)?;
            let known_already = skip.min(chunk.len() as u64);
            skip -= known_already;
            // Cannot be cut: it is at most the chunk's length.
            let fresh = chunk.slice(usize::try_from(known_already).unwrap_or(usize::MAX)..);
            if !fresh.is_empty() {
                self.received += fresh.len() as u64;
                let handed_over = Instant::now();
                self.deliver(Event::Chunk(fresh)).await?;
                pace.excuse(handed_over.elapsed());
            }
            if total.is_some_and(|total| self.received > total) {
                return Err(download_error(format!(
                    "{}: expected {} bytes, found more",
                    self.shown,
                    self.total_text()
                ))
                .into());
            }
        }
        Ok(())
    }

    async fn begin_or_resume(
        &mut self,
        resource: Resource,
        skip: u64,
        by_range: bool,
    ) -> std::result::Result<(), Break> {
        let resource = match self.known.take() {
            // A 206 tells the length that a chunked 200 kept to itself.
            Some(known) => Resource {
                total: known.total.or(resource.total),
                ..known
            },
            None => resource,
        };
        self.known = Some(resource.clone());
        if !self.begun {
            self.begun = true;
            let place = Place {
                url: self.url.to_owned(),
                resource,
                by_range,
            };
            return self.deliver(Event::Begin(place)).await;
        }
        if by_range {
            tracing::info!("image: resumed at byte {} by Range", self.received);
        } else if skip > 0 {
            tracing::info!(
                "image: the server ignores Range, reading {skip} bytes again to go on at byte {}",
                self.received
            );
        }
        Ok(())
    }

    async fn ask(&self) -> std::result::Result<reqwest::Response, Break> {
        // An encoding would put other bytes on the wire than the checksum is of.
        let mut request = self
            .client
            .get(self.url)
            .header(ACCEPT_ENCODING, "identity");
        if let Some(value) = self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if self.received > 0 {
            request = request.header(RANGE, format!("bytes={}-", self.received));
            if let Some(validator) = self.known.as_ref().and_then(Resource::validator) {
                request = request.header(IF_RANGE, validator);
            }
        }
        match tokio::time::timeout(self.patience.stall, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(e)) if is_untrusted(&e) || e.is_builder() || e.is_redirect() => {
                Err(download_error(format!("{}: {}", self.shown, why(&e))).into())
            }
            Ok(Err(e)) => Err(later(why(&e))),
            Err(_) => Err(later("no answer")),
        }
    }

    async fn deliver(&self, event: Event) -> std::result::Result<(), Break> {
        // Never seen by anyone: the reader is gone.
        self.events
            .send(Ok(event))
            .await
            .map_err(|_| download_error("the download was stopped").into())
    }
}

fn answer_of(response: &reqwest::Response) -> Answer {
    let text = |name: HeaderName| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    Answer {
        status: response.status().as_u16(),
        content_length: text(CONTENT_LENGTH).and_then(|value| value.parse().ok()),
        content_range: text(CONTENT_RANGE),
        etag: text(ETAG),
        last_modified: text(LAST_MODIFIED),
        retry_after: text(RETRY_AFTER),
    }
}
