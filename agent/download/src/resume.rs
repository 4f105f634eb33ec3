//! Decides whether a broken download may continue at the byte where it broke. Compares
//! the server's current statements about the file with its first ones (RFC 9110,
//! sections 13.1.5 and 14). Does no I/O.
//!
//! The hasher and the decoder depend on all previous bytes and cannot go back. So a
//! download either continues with the same file or fails.

mod same_file;

use std::time::Duration;

pub use same_file::{NotSameFile, same_file};

/// The longest pause that the agent accepts in `Retry-After`. A longer pause is shortened
/// to this value.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(120);

/// What a server stated about the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resource {
    /// In bytes, if known.
    pub total: Option<u64>,
    /// The entity tag as sent, including `W/`.
    pub etag: Option<String>,
    /// The value of `Last-Modified` as sent.
    pub last_modified: Option<String>,
}

impl Resource {
    /// The value for `If-Range`: the entity tag if it is strong, because `If-Range`
    /// accepts no weak tag, otherwise the value of `Last-Modified`.
    pub fn validator(&self) -> Option<&str> {
        self.strong_tag().or(self.last_modified.as_deref())
    }

    /// The entity tag if it is strong: then equal tags guarantee equal bytes.
    fn strong_tag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }

    /// Describes how the server's current file (`now`) differs from this file, with
    /// which the download began. `None` if no difference is known.
    pub fn difference(&self, now: &Self) -> Option<String> {
        let differs = |what: &str, then: &Option<String>, now: &Option<String>| match (then, now) {
            (Some(then), Some(now)) if then != now => Some(format!("{what} was {then}, is {now}")),
            _ => None,
        };
        if let (Some(then), Some(now)) = (self.total, now.total)
            && then != now
        {
            return Some(format!("length was {then} bytes, is {now} bytes"));
        }
        // If several servers share one name, either their entity tags or their
        // modification times are equal, but not always both. If both answers have an
        // entity tag, the comparison therefore uses only the entity tags.
        if self.etag.is_some() && now.etag.is_some() {
            return differs("entity tag", &self.etag, &now.etag);
        }
        differs("Last-Modified", &self.last_modified, &now.last_modified)
    }
}

/// Whether the agent may use the body as received, although the server states a content
/// encoding. Object stores serve a file `image.raw.gz` with `Content-Encoding: gzip`,
/// although the body is the stored file without a further encoding.
///
/// If the caller detects compression from the content (`packed`), it can unpack the usual
/// encodings itself. Any other encoding is accepted only if the caller also compares a
/// digest of the bytes as received (`checked`).
pub fn may_be_taken_as_sent(encoding: &str, packed: bool, checked: bool) -> bool {
    const PACKINGS: [&str; 6] = ["gzip", "x-gzip", "zstd", "xz", "lz4", "bzip2"];
    let encoding = encoding.trim().to_ascii_lowercase();
    packed && (checked || PACKINGS.contains(&&*encoding))
}

/// The status and the relevant headers of an answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    /// In bytes.
    pub content_length: Option<u64>,
    pub content_range: Option<String>,
    pub content_type: Option<String>,
    /// `None` if the body is the file itself, or if it [`may_be_taken_as_sent`].
    pub content_encoding: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    pub retry_after: Option<String>,
}

/// What to do with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Read the body and drop its first `skip` bytes, because the agent already has them.
    Go {
        /// What the server states about the file now.
        resource: Resource,
        skip: u64,
    },
    /// A temporary error, and the pause that the server asks for, if it does.
    Later(String, Option<Duration>),
    /// A permanent error.
    Never(String),
    /// The file is not the one that the download began with.
    Changed(String),
}

/// Decides what to do with the answer to a request for the bytes from `received` to the
/// end. `known` is what the server stated in its first answer, or `None` for the first
/// request.
pub fn judge(known: Option<&Resource>, received: u64, answer: &Answer) -> Verdict {
    let mut now = Resource {
        total: answer.content_length,
        etag: answer.etag.clone(),
        last_modified: answer.last_modified.clone(),
    };
    if let Some(reason) = not_the_file(answer) {
        return Verdict::Never(reason);
    }
    let skip = match answer.status {
        200 => received,
        206 if received > 0 => {
            let Some((start, total)) = answer.content_range.as_deref().and_then(content_range)
            else {
                return Verdict::Never(format!(
                    "expected a Content-Range from byte {received}, found {}",
                    answer.content_range.as_deref().unwrap_or("none")
                ));
            };
            if start != received {
                return Verdict::Never(format!(
                    "asked for bytes from {received}, was sent bytes from {start}"
                ));
            }
            now.total = total;
            0
        }
        // The agent has all bytes of the file, but the connection broke before the last
        // chunk, which marks the end of a chunked body. The length of a chunked body is
        // unknown until then.
        416 if received > 0 && all_received(answer, received) => {
            now.total = Some(received);
            0
        }
        // The file that the server has now ends before `received`.
        416 => return Verdict::Changed(format!("the server has no byte {received} any more")),
        408 | 429 | 500..=599 => {
            return Verdict::Later(
                format!("HTTP status {}", answer.status),
                answer.retry_after.as_deref().and_then(retry_after),
            );
        }
        206 => {
            return Verdict::Never("asked for the whole file, was sent a part of it".to_owned());
        }
        status => return Verdict::Never(format!("HTTP status {status}")),
    };
    if let Some(difference) = known.and_then(|known| known.difference(&now)) {
        return Verdict::Changed(difference);
    }
    Verdict::Go {
        resource: now,
        skip,
    }
}

/// The reason why the body of a successful answer is not the file itself. `None` if the
/// body is the file.
fn not_the_file(answer: &Answer) -> Option<String> {
    if !matches!(answer.status, 200 | 206) {
        return None;
    }
    let encoding = answer.content_encoding.as_deref().map(str::trim);
    if let Some(encoding) = encoding
        && !encoding.is_empty()
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return Some(format!(
            "expected the file as it is, found Content-Encoding {encoding}: configure the server to send it unencoded"
        ));
    }
    // The agent requests a single range. A multipart body contains headers between the
    // bytes of the file.
    let parts = |kind: &String| {
        kind.trim()
            .to_ascii_lowercase()
            .starts_with("multipart/byteranges")
    };
    if answer.status == 206 && answer.content_type.as_ref().is_some_and(parts) {
        return Some("asked for one range, was sent multipart/byteranges".to_owned());
    }
    None
}

/// The first byte and the length of the whole file, from `bytes 100-199/200` or
/// `bytes 100-199/*`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let total = match total {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    let consistent = first <= last && total.is_none_or(|total| last < total);
    consistent.then_some((first, total))
}

/// Whether a 416 answer states that the whole file has `received` bytes. The
/// Content-Range is then for example `bytes */200` (RFC 9110, section 14.4).
fn all_received(answer: &Answer, received: u64) -> bool {
    let range = answer.content_range.as_deref();
    let total = range.and_then(|range| range.strip_prefix("bytes */"));
    total.and_then(|total| total.parse().ok()) == Some(received)
}

/// Reads `Retry-After` in seconds. Ignores its other form, a date, which would
/// depend on the clock.
fn retry_after(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Resource {
        Resource {
            total: Some(1000),
            etag: Some("\"a\"".into()),
            last_modified: Some("Mon".into()),
        }
    }

    fn answer(status: u16) -> Answer {
        Answer {
            status,
            content_length: Some(1000),
            etag: Some("\"a\"".into()),
            last_modified: Some("Mon".into()),
            ..Answer::default()
        }
    }

    fn partial(range: &str) -> Answer {
        Answer {
            content_length: Some(600),
            content_range: Some(range.into()),
            ..answer(206)
        }
    }

    #[test]
    fn first_answer() {
        let go = |answer: &Answer| judge(None, 0, answer);
        assert_eq!(
            go(&answer(200)),
            Verdict::Go {
                resource: known(),
                skip: 0
            }
        );
        for status in [204, 206, 301, 400, 401, 403, 404, 410] {
            assert!(
                matches!(go(&answer(status)), Verdict::Never(_)),
                "{status} is final"
            );
        }
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(
                matches!(go(&answer(status)), Verdict::Later(_, None)),
                "{status} may pass"
            );
        }
    }

    #[test]
    fn partial_content_goes_on() {
        for (range, goes_on) in [
            ("bytes 400-999/1000", true),
            ("bytes 400-999/*", true),
            ("bytes 0-999/1000", false),
            ("bytes 401-999/1000", false),
            ("bytes 400-999/999", false),
            ("bytes 400-399/1000", false),
            ("bytes */1000", false),
            ("octets 400-999/1000", false),
            ("", false),
        ] {
            let verdict = judge(Some(&known()), 400, &partial(range));
            assert_eq!(
                matches!(verdict, Verdict::Go { skip: 0, .. }),
                goes_on,
                "{range}: {verdict:?}"
            );
        }
    }

    #[test]
    fn ignored_range_means_skipping() {
        let verdict = judge(Some(&known()), 400, &answer(200));
        assert!(matches!(verdict, Verdict::Go { skip: 400, .. }));
    }

    #[test]
    fn another_file_is_never_mixed_in() {
        let mut other_tag = answer(200);
        other_tag.etag = Some("\"b\"".into());
        let mut other_length = answer(200);
        other_length.content_length = Some(999);
        let mut other_total = partial("bytes 400-1199/1200");
        other_total.etag = None;
        let mut other_time = answer(200);
        other_time.etag = None;
        other_time.last_modified = Some("Tue".into());
        let mut other_partial = partial("bytes 400-999/1000");
        other_partial.etag = Some("\"b\"".into());
        for changed in [
            other_tag,
            other_length,
            other_total,
            other_time,
            other_partial,
            answer(416),
        ] {
            let verdict = judge(Some(&known()), 400, &changed);
            assert!(
                matches!(verdict, Verdict::Changed(_)),
                "{changed:?}: {verdict:?}"
            );
        }
    }

    /// The body of the first answer was chunked, so the length of the file is not known.
    #[test]
    fn a_range_after_the_last_byte() {
        let known = Resource {
            total: None,
            ..known()
        };
        let unsatisfied = |total: u64| Answer {
            content_range: Some(format!("bytes */{total}")),
            ..answer(416)
        };
        let Verdict::Go { resource, skip: 0 } = judge(Some(&known), 400, &unsatisfied(400)) else {
            panic!("400 of 400 bytes are not taken as all");
        };
        assert_eq!(resource.total, Some(400));
        let mut other = unsatisfied(400);
        other.etag = Some("\"b\"".into());
        for changed in [unsatisfied(399), unsatisfied(401), answer(416), other] {
            let verdict = judge(Some(&known), 400, &changed);
            assert!(
                matches!(verdict, Verdict::Changed(_)),
                "{changed:?}: {verdict:?}"
            );
        }
    }

    #[test]
    fn same_tag_with_another_time_is_the_same_file() {
        let mut mirror = answer(200);
        mirror.last_modified = Some("Tue".into());
        assert!(matches!(
            judge(Some(&known()), 400, &mirror),
            Verdict::Go { .. }
        ));
    }

    #[test]
    fn an_encoding_must_be_the_packing_or_the_bytes_be_proven() {
        for (encoding, packed, checked, expected) in [
            ("gzip", true, false, true),
            (" X-GZIP", true, false, true),
            ("zstd", true, false, true),
            ("br", true, false, false),
            ("gzip, gzip", true, false, false),
            ("br", true, true, true),
            // The download of an Ignition config does not detect compression.
            ("gzip", false, false, false),
            ("gzip", false, true, false),
        ] {
            let found = may_be_taken_as_sent(encoding, packed, checked);
            assert_eq!(found, expected, "{encoding} {packed} {checked}");
        }
    }

    #[test]
    fn only_strong_validators_go_into_if_range() {
        assert_eq!(known().validator(), Some("\"a\""));
        let weak = Resource {
            etag: Some("W/\"a\"".into()),
            ..known()
        };
        assert_eq!(weak.validator(), Some("Mon"));
        assert_eq!(Resource::default().validator(), None);
    }

    #[test]
    fn retry_after_is_bounded() {
        let mut busy = answer(503);
        for (text, expected) in [
            ("7", Some(7)),
            ("99999", Some(120)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", None),
            ("-1", None),
        ] {
            busy.retry_after = Some(text.into());
            assert_eq!(
                judge(None, 0, &busy),
                Verdict::Later("HTTP status 503".into(), expected.map(Duration::from_secs))
            );
        }
    }
}
