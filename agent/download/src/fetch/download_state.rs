//! Tracks the progress of a file, independent of the mirror that sends it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use landfall_report::failure::Failure;

use super::pace::Pace;
use super::{Event, Events, Place, Request};
use crate::resume::Resource;

/// Why a connection ended before the end of the file.
pub(super) enum Break {
    /// A temporary error; the server may have asked for a pause.
    Later(String, Option<Duration>),
    /// The server ignores Range and could only send the whole file again.
    StartOver,
    /// A permanent error of this mirror.
    Final(Failure),
    /// The reader no longer exists.
    Stopped,
}

impl Break {
    /// Marks the failure as permanent: no later attempt can succeed.
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
    Break::Final(Failure::image_download(format!("{shown}: {reason}")).hint_from_details())
}

/// A file that is being delivered to the reader.
pub(super) struct DownloadState<'a> {
    pub(super) request: &'a Request,
    events: &'a Events,
    /// What the first mirror reported about the file.
    pub(super) file: Option<Resource>,
    /// Number of bytes delivered from the start of the file.
    pub(super) received: u64,
    begun: bool,
}

impl<'a> DownloadState<'a> {
    /// `known`: a file whose download has begun earlier, and the offset at which to
    /// continue.
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

    /// Whether all bytes have arrived. False if the length is unknown.
    pub(super) fn is_complete(&self) -> bool {
        self.total() == Some(self.received)
    }

    /// Records that a server or a file begins to deliver: first `skip` bytes that the
    /// reader already has, then new bytes. The first call sends [`Event::Begin`] to the
    /// reader.
    pub(super) async fn begin_at(&mut self, place: Place, skip: u64) -> Outcome<()> {
        let file = match self.file.take() {
            // A 206 response contains the length that a chunked 200 response lacks.
            Some(known) => Resource {
                total: known.total.or(place.resource.total),
                ..known
            },
            None => place.resource.clone(),
        };
        self.file = Some(file);
        if !self.begun {
            self.begun = true;
            return self.send(Event::Begin(place)).await;
        }
        if place.by_range {
            tracing::info!("image: resumed at byte {} by Range", self.received);
        } else if skip > 0 {
            tracing::info!(
                "image: the server ignores Range, reading {skip} bytes again to continue at byte {}",
                self.received
            );
        }
        Ok(())
    }

    /// Passes bytes to the reader. Waiting for the reader does not count against
    /// the speed of the server.
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
