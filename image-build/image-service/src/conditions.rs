//! Conditional requests (RFC 9110, section 13): whether the client already has this
//! version.

use std::time::{SystemTime, UNIX_EPOCH};

/// The headers of a request, `None` if they are not there or not text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conditions<'a> {
    pub if_match: Option<&'a str>,
    pub if_unmodified_since: Option<&'a str>,
    pub if_none_match: Option<&'a str>,
    pub if_modified_since: Option<&'a str>,
    pub if_range: Option<&'a str>,
}

/// The version that the server has.
#[derive(Debug, Clone, Copy)]
pub struct Version<'a> {
    /// The entity tag with its quotes; always a strong tag.
    pub etag: &'a str,
    /// `None` if the answer has no Last-Modified.
    pub last_modified: Option<SystemTime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Send the file.
    Send,
    /// Answer 304: the client already has this version.
    NotModified,
    /// Answer 412: a condition is not met.
    Failed,
}

/// Evaluates the conditions in the order of RFC 9110, section 13.2.2.
#[must_use]
pub fn judge(conditions: &Conditions<'_>, version: &Version<'_>) -> Verdict {
    if let Some(tags) = conditions.if_match {
        if !lists(tags, version.etag, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if let Some(date) = conditions.if_unmodified_since
        && is_later(version, date) == Some(true)
    {
        return Verdict::Failed;
    }
    if let Some(tags) = conditions.if_none_match {
        if lists(tags, version.etag, Comparison::Weak) {
            return Verdict::NotModified;
        }
    } else if let Some(date) = conditions.if_modified_since
        && is_later(version, date) == Some(false)
    {
        return Verdict::NotModified;
    }
    Verdict::Send
}

/// Whether `Range` applies: if there is no If-Range, or if If-Range names exactly
/// this version, because then the client continues a transfer.
#[must_use]
pub fn range_counts(conditions: &Conditions<'_>, version: &Version<'_>) -> bool {
    match conditions.if_range.map(str::trim) {
        None => true,
        Some(tag) if tag.starts_with('"') || tag.starts_with("W/") => tag == version.etag,
        Some(date) => {
            let modified = version.last_modified.map(seconds);
            modified.is_some() && parse(date) == modified
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether a list of entity tags contains this tag; `*` matches every tag.
fn lists(tags: &str, etag: &str, comparison: Comparison) -> bool {
    let mut rest = tags.trim();
    if rest == "*" {
        return true;
    }
    // Do not split at commas, because a tag may contain one.
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (is_weak, tag) = match rest.strip_prefix("W/") {
            Some(tag) => (true, tag),
            None => (false, rest),
        };
        let Some(end) = tag.strip_prefix('"').and_then(|inner| inner.find('"')) else {
            return false;
        };
        let (tag, after) = tag.split_at(end + 2);
        if tag == etag && !(is_weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = after;
    }
}

/// Whether the version is later than the date. `None` if the version has no date, or if
/// `date` is invalid: such a condition is ignored.
fn is_later(version: &Version<'_>, date: &str) -> Option<bool> {
    Some(seconds(version.last_modified?) > parse(date)?)
}

fn parse(date: &str) -> Option<u64> {
    httpdate::parse_http_date(date.trim()).ok().map(seconds)
}

/// HTTP dates have whole seconds.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn version() -> Version<'static> {
        Version {
            etag: "\"a,b\"",
            last_modified: Some(UNIX_EPOCH + Duration::from_millis(784_111_777_500)),
        }
    }

    #[test]
    fn the_client_may_have_it_already() {
        use Verdict::{Failed, NotModified, Send};
        let none = Conditions::default();
        for (header, value, expected) in [
            ("match", "\"a,b\"", Send),
            ("match", "*", Send),
            ("match", "\"x\", \"a,b\"", Send),
            ("match", "W/\"a,b\"", Failed),
            ("match", "\"x\"", Failed),
            ("match", "", Failed),
            ("none", "\"a,b\"", NotModified),
            ("none", "W/\"a,b\"", NotModified),
            ("none", "\"x\" ,W/\"a,b\"", NotModified),
            ("none", "*", NotModified),
            ("none", "\"x\"", Send),
            ("none", "a,b", Send),
            ("none", "\"a,b", Send),
            ("none", "", Send),
            ("since", AFTER, NotModified),
            ("since", SAME, NotModified),
            ("since", BEFORE, Send),
            ("since", "yesterday", Send),
            ("unmodified", AFTER, Send),
            ("unmodified", SAME, Send),
            ("unmodified", BEFORE, Failed),
            ("unmodified", "yesterday", Send),
        ] {
            let value = Some(value);
            let conditions = match header {
                "match" => Conditions {
                    if_match: value,
                    ..none
                },
                "none" => Conditions {
                    if_none_match: value,
                    ..none
                },
                "since" => Conditions {
                    if_modified_since: value,
                    ..none
                },
                _ => Conditions {
                    if_unmodified_since: value,
                    ..none
                },
            };
            assert_eq!(judge(&conditions, &version()), expected, "{conditions:?}");
        }
        // The tag takes precedence over the date.
        for (conditions, expected) in [
            (
                Conditions {
                    if_none_match: Some("\"x\""),
                    if_modified_since: Some(AFTER),
                    ..none
                },
                Send,
            ),
            (
                Conditions {
                    if_match: Some("*"),
                    if_unmodified_since: Some(BEFORE),
                    ..none
                },
                Send,
            ),
            (
                Conditions {
                    if_match: Some("\"x\""),
                    if_none_match: Some("*"),
                    ..none
                },
                Failed,
            ),
        ] {
            assert_eq!(judge(&conditions, &version()), expected, "{conditions:?}");
        }
        let undated = Version {
            last_modified: None,
            ..version()
        };
        let since = Conditions {
            if_modified_since: Some(AFTER),
            ..none
        };
        assert_eq!(judge(&since, &undated), Send);
    }

    #[test]
    fn a_transfer_continues_only_with_the_same_version() {
        for (if_range, expected) in [
            (None, true),
            (Some("\"a,b\""), true),
            (Some("W/\"a,b\""), false),
            (Some("\"x\""), false),
            (Some(SAME), true),
            (Some(BEFORE), false),
            (Some(AFTER), false),
            (Some("yesterday"), false),
            (Some(""), false),
        ] {
            let conditions = Conditions {
                if_range,
                ..Conditions::default()
            };
            assert_eq!(
                range_counts(&conditions, &version()),
                expected,
                "{if_range:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "[\"W/,a* ]{0,20}") {
            let conditions = Conditions {
                if_match: Some(&text),
                if_none_match: Some(&text),
                if_range: Some(&text),
                ..Conditions::default()
            };
            let _ = (judge(&conditions, &version()), range_counts(&conditions, &version()));
        }
    }
}
