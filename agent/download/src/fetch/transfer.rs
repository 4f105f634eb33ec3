//! One connection to a server. It reads the file from byte `DownloadState::received` to
//! the end.

use std::time::Duration;

use landfall_http_client::{is_untrusted, is_untrusted_for_good, why};
use landfall_report::failure::Failure;
use reqwest::Url;
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, HeaderName, IF_RANGE, LAST_MODIFIED, RANGE, RETRY_AFTER,
};

use super::download_state::{Break, DownloadState, Outcome, final_at, later};
use super::mirror::Mirror;
use super::pace::{PROGRESS, Pace};
use super::{Place, Request, shown};
use crate::resume::{Answer, Resource, Verdict, judge, may_be_taken_as_sent};

pub(super) struct Transfer<'a, 'url> {
    mirror: &'a mut Mirror<'url>,
    client: &'a reqwest::Client,
}

impl<'a, 'url> Transfer<'a, 'url> {
    /// Prepares the connection; `go_on` connects.
    pub(super) fn new(mirror: &'a mut Mirror<'url>, client: &'a reqwest::Client) -> Self {
        Self { mirror, client }
    }

    /// Reads to the end of the file. `start_over` is whether a server that ignores
    /// Range may send more than [`PROGRESS`] bytes a second time.
    pub(super) async fn go_on(
        self,
        state: &mut DownloadState<'_>,
        start_over: bool,
    ) -> Outcome<()> {
        let stall = state.request.retry_policy.stall;
        let mut response = self.ask(state, stall).await?;
        let answer = answer_of(&response, state.request);
        let mirror = self.mirror;
        let (resource, mut skip) = match judge(mirror.known.as_ref(), state.received, &answer) {
            Verdict::Go { resource, skip } => (resource, skip),
            Verdict::Later(reason, asked) => return Err(Break::Later(reason, asked)),
            Verdict::Never(reason) => return Err(final_at(&mirror.shown, reason)),
            Verdict::Changed(difference) => {
                return Err(Break::Final(
                    Failure::image_download(format!(
                        "{}: the file changed on the server at byte {}: {difference}",
                        mirror.shown, state.received
                    ))
                    .hint("deploy again: the new file must be read from its start"),
                ));
            }
        };
        mirror.must_be_same(state, &resource)?;
        if skip > PROGRESS && !start_over {
            return Err(Break::StartOver);
        }
        mirror.known = Some(merged(mirror.known.take(), &resource));
        let place = Place {
            url: mirror.url.to_owned(),
            resource,
            by_range: answer.status == 206,
            redirected_to: redirected_to(mirror.url, response.url()),
        };
        state.begin_at(place, skip).await?;
        let retry_policy = &state.request.retry_policy;
        let mut pace = Pace::new(retry_policy.give_up.max(stall));
        while !state.is_complete() {
            let chunk = match tokio::time::timeout(stall, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) if state.total().is_none() && skip == 0 => break,
                Ok(Ok(None)) => return Err(later("the body ended early")),
                Ok(Err(e)) => return Err(later(why(&e))),
                Err(_) => return Err(later(format!("no byte for {} s", stall.as_secs()))),
            };
            // Skipped bytes count as progress as well. Their number is limited, so they
            // can only delay a timeout.
            pace.received(chunk.len() as u64)
                .map_err(|slow| later(slow.to_string()))?;
            let known_already = skip.min(chunk.len() as u64);
            skip -= known_already;
            // The cast is lossless: at most the length of the chunk.
            let fresh = chunk.slice(usize::try_from(known_already).unwrap_or(usize::MAX)..);
            state.deliver(&mirror.shown, fresh, &mut pace).await?;
        }
        Ok(())
    }

    async fn ask(&self, state: &DownloadState<'_>, stall: Duration) -> Outcome<reqwest::Response> {
        // Request no content encoding: the digest covers the bytes of the file, not the
        // encoded bytes.
        let mut request = self
            .client
            .get(self.mirror.url)
            .header(ACCEPT_ENCODING, "identity");
        if let Some(value) = &state.request.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if state.received > 0 {
            request = request.header(RANGE, format!("bytes={}-", state.received));
            if let Some(validator) = self.mirror.known.as_ref().and_then(Resource::validator) {
                request = request.header(IF_RANGE, validator);
            }
        }
        match tokio::time::timeout(stall, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(e)) if is_untrusted_for_good(&e) => {
                Err(final_at(&self.mirror.shown, why(&e)).permanently())
            }
            Ok(Err(e)) if is_untrusted(&e) || e.is_builder() || e.is_redirect() => {
                Err(final_at(&self.mirror.shown, why(&e)))
            }
            Ok(Err(e)) => Err(later(why(&e))),
            Err(_) => Err(later("no answer")),
        }
    }
}

/// Keeps what is known about the file. Adds the length if only the new response has it: a
/// 206 response has a length, a chunked 200 response has none.
fn merged(known: Option<Resource>, now: &Resource) -> Resource {
    match known {
        Some(known) => Resource {
            total: known.total.or(now.total),
            ..known
        },
        None => now.clone(),
    }
}

/// The URL that answered, without secrets, if a redirect led to it.
fn redirected_to(asked: &str, answered: &Url) -> Option<String> {
    let asked = Url::parse(asked).ok()?;
    // Remove the parts that the client does not send to the server, so that they cause no
    // difference.
    let as_sent = |url: &Url| {
        let mut url = url.clone();
        url.set_fragment(None);
        // These fail only for URLs without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url
    };
    let is_other = as_sent(&asked) != as_sent(answered);
    is_other.then(|| shown(answered.as_str()))
}

fn answer_of(response: &reqwest::Response, request: &Request) -> Answer {
    let text = |name: HeaderName| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    Answer {
        status: response.status().as_u16(),
        content_length: text(CONTENT_LENGTH).and_then(|value| value.parse().ok()),
        content_range: text(CONTENT_RANGE),
        content_type: text(CONTENT_TYPE),
        content_encoding: text(CONTENT_ENCODING)
            .filter(|encoding| !may_be_taken_as_sent(encoding, request.packed, request.checked)),
        etag: text(ETAG),
        last_modified: text(LAST_MODIFIED),
        retry_after: text(RETRY_AFTER),
    }
}
