//! Masks secrets in texts before they reach a log or a console, which other people see
//! too.

mod secret_values;

use std::borrow::Cow;

use secret_values::without_secret_values;

/// Returns the text with its secrets replaced by `***`: in URLs the user part
/// (`http://user:password@host`) and the values of a query (signed links), and the
/// values of names such as `ipa-agent-token=`. Other text stays unchanged.
///
/// Commas, quotes and brackets can be part of a password or of a query, and they can
/// also surround a URL. If a text can be read in both ways, the function masks it: a
/// log that hides too much is better than a log that shows a password.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    match without_secrets_of_urls(text) {
        Cow::Borrowed(text) => without_secret_values(text),
        Cow::Owned(text) => Cow::Owned(without_secret_values(&text).into_owned()),
    }
}

fn without_secrets_of_urls(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, after) = rest.split_at(at + MARK.len());
        out.push_str(before);
        let Some(slashes) = slashes_before_url(before, after) else {
            rest = after;
            continue;
        };
        let (slashes, after) = after.split_at(slashes);
        out.push_str(slashes);
        let (url, next) = after.split_at(end_of_url(before, after));
        push_masked(&mut out, url);
        rest = next;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The characters between a scheme and a host. The second slash is not included, because
/// users often leave it out.
const MARK: &str = ":/";

const SEPARATORS: &str = ",;'\"([{|";
/// Characters that follow the closing quote of a URL, in JSON, Python and prose.
const AFTER_QUOTE: &str = ",;:.)]}>";
/// Characters that can follow a URL without being part of it.
const TAIL: [char; 10] = [',', ';', ':', '.', '\'', '"', ')', ']', '}', '>'];

/// The number of slashes after [`MARK`] that precede the host or the path; `None` if the
/// mark does not belong to a URL. `http:/` with too few or too many slashes still counts
/// as the start of a URL, because a password can follow it too.
fn slashes_before_url(before: &str, after: &str) -> Option<usize> {
    let scheme = &before[without_scheme(before).len()..];
    let is_http = matches!(scheme, "http:/" | "https:/");
    match after.len() - after.trim_start_matches('/').len() {
        slashes if is_http => Some(slashes),
        0 => None,
        _ => Some(1),
    }
}

/// The text before the scheme of a URL. `before` ends with [`MARK`].
fn without_scheme(before: &str) -> &str {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let before = before.strip_suffix(MARK).unwrap_or(before);
    before.trim_end_matches(is_of_scheme)
}

/// Returns the byte offset in `text` at which the URL ends: at white space, at the
/// closing quote if a quote precedes the URL, or before the separator of the next URL of
/// a list. `before` ends with [`MARK`].
fn end_of_url(before: &str, text: &str) -> usize {
    let ends_here = |c: char| c.is_whitespace() || c.is_control();
    let end = text.find(ends_here).unwrap_or(text.len());
    let text = &text[..end];
    let text = &text[..closing_quote(without_scheme(before), text).unwrap_or(text.len())];
    // From here on, everything may be part of the query.
    let query = text.find('?').unwrap_or(text.len());
    for (mark, _) in text[..query].match_indices("://") {
        let first = without_scheme(&text[..mark]);
        let listed = first.trim_end_matches(|c| SEPARATORS.contains(c));
        // A URL can be part of another URL, as in `http://proxy/http://host/`.
        let holds_the_next = first.ends_with('/');
        if (holds_the_next || listed.len() < first.len()) && is_whole(listed) {
            return listed.len();
        }
    }
    text.len()
}

/// If `before` ends with an opening quote, finds the closing quote in `text` and returns
/// where its backslashes begin. A quote that is part of the URL has more backslashes.
fn closing_quote(before: &str, text: &str) -> Option<usize> {
    let quote = before.chars().next_back().filter(|c| "\"'".contains(*c))?;
    let backslashes = |text: &str| text.len() - text.trim_end_matches('\\').len();
    let opened_with = backslashes(&before[..before.len() - 1]);
    let is_closing = |at: usize| {
        let next = text[at + 1..].trim_start_matches('\\').chars().next();
        backslashes(&text[..at]) == opened_with
            && next.is_none_or(|next| AFTER_QUOTE.contains(next))
            && is_whole(&text[..at - opened_with])
    };
    let mut quotes = text.match_indices(quote).map(|(at, _)| at);
    Some(quotes.find(|at| is_closing(*at))? - opened_with)
}

/// True if `url` can be a whole URL, and not only the start of
/// `user:password@host`.
fn is_whole(url: &str) -> bool {
    let (authority, _) = split_authority(url);
    match authority.rsplit_once('@') {
        Some((_, host)) => !host.is_empty() && is_host(host),
        None => is_host(authority),
    }
}

fn split_authority(url: &str) -> (&str, &str) {
    url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()))
}

/// Appends a URL with its secrets masked. `url` is the text after `://`:
/// `user:password@host/path?query`.
fn push_masked(out: &mut String, url: &str) {
    let (authority, path) = split_authority(url);
    let (host, path) = match (authority.rsplit_once('@'), path.split_once('@')) {
        (Some((_, host)), None) => {
            out.push_str("***@");
            (host, path)
        }
        (None, after) if after.is_none() || is_host(authority) => (authority, path),
        // The password contains a slash or a question mark, so its rest is in `path`.
        (None, Some((_, rest))) if !rest.contains('@') => {
            out.push_str("***@");
            split_authority(rest)
        }
        // A password may continue to the end of the text, so the whole URL is masked.
        _ => {
            out.push_str("***");
            return out.push_str(tail_of(url));
        }
    };
    out.push_str(host);
    let Some((path, query)) = path.split_once('?') else {
        return out.push_str(path);
    };
    out.push_str(path);
    out.push('?');
    let tail = tail_of(query);
    if tail.len() < query.len() {
        out.push_str("***");
    }
    out.push_str(tail);
}

/// The characters at the end of `text` that can follow a URL without being part of
/// it.
fn tail_of(text: &str) -> &str {
    &text[text.trim_end_matches(TAIL).len()..]
}

/// True if `authority` can be a host with its port, and not the start of
/// `user:password`.
fn is_host(authority: &str) -> bool {
    let port = match authority.strip_prefix('[') {
        Some(address) => address
            .split_once(']')
            .and_then(|(_, port)| port.strip_prefix(':')),
        None => authority.split_once(':').map(|(_, port)| port),
    };
    port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        for (text, shown) in [
            ("quiet", "quiet"),
            ("http://192.0.2.1:6385", "http://192.0.2.1:6385"),
            ("http://[2001:db8::1]:6385/x", "http://[2001:db8::1]:6385/x"),
            ("http://user:pw@host/a", "http://***@host/a"),
            ("http://a:b@c@host", "http://***@host"),
            (
                "ipa-api-url=http://u:p@h:1,https://u:q@i",
                "ipa-api-url=http://***@h:1,https://***@i",
            ),
            (
                "https://h/i.raw?X-Amz-Signature=abc&x=1",
                "https://h/i.raw?***",
            ),
            ("https://h/i@2.raw", "https://h/i@2.raw"),
            ("GET http://u:p@h/ failed", "GET http://***@h/ failed"),
            // Passwords and queries as people type them.
            ("http://user:s3,cret@host/a", "http://***@host/a"),
            ("http://user:s3'cret@host/a", "http://***@host/a"),
            ("http://user:s3\"cret@host/a", "http://***@host/a"),
            ("http://user:s3/cr?et@host/a?b=c", "http://***@host/a?***"),
            ("https://h/i?a=1,sig=SECRET", "https://h/i?***"),
            ("https://h/i?a='1'&sig=SECRET", "https://h/i?***"),
            ("https://h/i?u=http://u:p@h/&s=SECRET", "https://h/i?***"),
            ("http://user:a<b>c@host/", "http://***@host/"),
            ("http://user:pw\";x@host/", "http://***@host/"),
            ("\"http://user:pw\";x@host/\";", "\"http://***@host/\";"),
            ("\"http://user:pw\\\"@host/\"]", "\"http://***@host/\"]"),
            ("http://user:pw,https://x@host/", "http://***@host/"),
            ("http://user:@a/b@host/", "http://***"),
            ("http://user:/@a@host/?s=1\"}", "http://***\"}"),
            ("https://h/i?a=1,https://x/&sig=SECRET", "https://h/i?***"),
            ("file:///a,http://u:p@h/b", "file:///a,http://***@h/b"),
            ("http:/user:pw@host/a?b=c", "http:/***@host/a?***"),
            ("https:///user:pw@host/a", "https:///***@host/a"),
            (
                "http://proxy/http://u:p@host/",
                "http://proxy/http://***@host/",
            ),
            // The text around a URL does not change.
            (
                "file:/etc/a@b file:///etc/a:b@c",
                "file:/etc/a@b file:///etc/a:b@c",
            ),
            (
                "\\\"http://h/i?sig=x\\\",\\\"b\\\"",
                "\\\"http://h/i?***\\\",\\\"b\\\"",
            ),
            (
                "['https://h/?s=1','http://u:p@h/']",
                "['https://h/?***','http://***@h/']",
            ),
            (
                "{\"a\":\"http://h/i?sig=x\",\"b\":\"u@h\"}",
                "{\"a\":\"http://h/i?***\",\"b\":\"u@h\"}",
            ),
            (
                "['http://u:p@h/','https://h/?s=1']",
                "['http://***@h/','https://h/?***']",
            ),
            (
                "https://h/i?s=1: HTTP status 404",
                "https://h/i?***: HTTP status 404",
            ),
            ("see http://h/?", "see http://h/?"),
            ("<http://h/a?s=1>", "<http://h/a?***>"),
            ("http://[2001:db8::1]/a@b", "http://[2001:db8::1]/a@b"),
            ("http://host:80/a@b", "http://host:80/a@b"),
            ("docker://r.io/a@sha256:00", "docker://r.io/a@sha256:00"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    proptest! {
        #[test]
        fn no_password_survives(
            user in "[a-z]{1,8}", host in "[a-z]{1,8}", odd in "[^\\s\\pC0-9]{0,3}",
            nasty in "([a,;:'\"<>@/?#&=()\\[\\]{}|\\\\]|,https://|\";|\",\"){0,3}",
        ) {
            // The odd characters contain no digit: in `user:1/...`, `user:1` could be a
            // host and its port.
            for odd in [odd, nasty] {
                let url = format!("http://{user}:{odd}S3CRET@{host}/p?k={odd}S3CRET");
                for text in [format!("x={url}"), format!("{{\"x\":{url:?},\"y\":1}}")] {
                    prop_assert!(!without_secrets(&text).contains("S3CRET"), "{text}");
                }
            }
        }

        #[test]
        fn masking_twice_changes_nothing(text in "(http://)?[a-z:@,'\"/?=&<> ]{0,40}") {
            let once = without_secrets(&text).into_owned();
            prop_assert_eq!(without_secrets(&once), once.clone());
        }

        #[test]
        fn never_panics(text in "\\PC{0,80}") {
            let _ = without_secrets(&text);
        }
    }
}
