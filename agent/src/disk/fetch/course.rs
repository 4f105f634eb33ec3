//! How far a file has come, whichever place it comes from.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::pace::Pace;
use super::{Event, Events, Place, Request, download_error};
use crate::disk::resume::Resource;
use crate::failure::Failure;

/// Why one connection did not bring the file to its end.
pub(super) enum Break {
    /// Worth another try, after the pause that the server asked for.
    Later(String, Option<Duration>),
    /// This place could only send all of it once more.
    Anew,
    /// No other try at this place would mend it.
    Final(Failure),
    /// Nobody waits for the file any more.
    Stopped,
}

impl Break {
    /// The same, where no other attempt will ever mend it.
    pub(super) fn permanently(self) -> Self {
        match self {
            Self::Final(failure) => Self::Final(failure.permanently()),
            other => other,
        }
    }
}

pub(super) type Outcome<T> = std::result::Result<T, Break>;

pub(super) fn later(reason: impl Into<String>) -> Break {
    Break::Later(reason.into(), None)
}

pub(super) fn final_at(shown: &str, reason: impl std::fmt::Display) -> Break {
    Break::Final(download_error(format!("{shown}: {reason}")))
}

/// A file on its way to the reader.
pub(super) struct Course<'a> {
    pub(super) request: &'a Request,
    events: &'a Events,
    /// What the place said where the file began.
    pub(super) file: Option<Resource>,
    /// Up to which byte the file has been delivered.
    pub(super) received: u64,
    begun: bool,
}

impl<'a> Course<'a> {
    /// `known` is a file that was begun before, and from which byte it goes on.
    pub(super) fn new(
        request: &'a Request,
        events: &'a Events,
        known: Option<(Resource, u64)>,
    ) -> Self {
        let (file, received) = known.map_or((None, 0), |(file, at)| (Some(file), at));
        Self {
            request,
            events,
            file,
            received,
            begun: false,
        }
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.file.as_ref().and_then(|file| file.total)
    }

    pub(super) fn total_text(&self) -> String {
        self.total()
            .map_or_else(|| "unknown".to_owned(), |total| total.to_string())
    }

    /// Everything is there, as far as the length is known.
    pub(super) fn is_complete(&self) -> bool {
        self.total() == Some(self.received)
    }

    /// A place has the file, and begins to send it: `skip` bytes that are there
    /// already, then what is wanted.
    pub(super) async fn begin_at(
        &mut self,
        url: &str,
        resource: Resource,
        skip: u64,
        by_range: bool,
    ) -> Outcome<()> {
        let file = match self.file.take() {
            // A 206 tells the length that a chunked 200 kept to itself.
            Some(known) => Resource {
                total: known.total.or(resource.total),
                ..known
            },
            None => resource.clone(),
        };
        self.file = Some(file);
        if !self.begun {
            self.begun = true;
            let place = Place {
                url: url.to_owned(),
                resource,
                by_range,
            };
            return self.send(Event::Begin(place)).await;
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

    /// The next bytes of the file. The time that the reader takes for them is
    /// not the sender's.
    pub(super) async fn deliver(
        &mut self,
        shown: &str,
        bytes: Bytes,
        pace: &mut Pace,
    ) -> Outcome<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.received += bytes.len() as u64;
        let handed_over = Instant::now();
        self.send(Event::Chunk(bytes)).await?;
        pace.excuse(handed_over.elapsed());
        if self.total().is_some_and(|total| self.received > total) {
            let total = self.total_text();
            return Err(final_at(
                shown,
                format!("expected {total} bytes, found more"),
            ));
        }
        Ok(())
    }

    async fn send(&self, event: Event) -> Outcome<()> {
        self.events
            .send(Ok(event))
            .await
            .map_err(|_| Break::Stopped)
    }
}
