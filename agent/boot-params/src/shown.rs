//! Texts with URLs in them, fit for a console that others see too.

use std::borrow::Cow;

/// The text with the secrets in its URLs replaced by `***`: the user part
/// (`http://user:password@host`) and the values of a query (signed links).
/// Anything that is not a URL stays as it is.
///
/// Commas and quotes may be part of a password or of a query as well as follow
/// a URL. Where both readings are possible the text is masked: a log that hides
/// too much is better than one that shows a password.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, after) = rest.split_at(at + MARK.len());
        out.push_str(before);
        let (url, next) = after.split_at(end_of_url(after));
        push_masked(&mut out, url);
        rest = next;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

const MARK: &str = "://";

/// Characters that separate the URLs of a list.
const SEPARATORS: &str = ",;'\"([{|";
/// Characters that follow the quote behind a URL, in JSON, Python and prose.
const AFTER_QUOTE: &str = ",;:.)]}>";

/// Where the URL ends whose scheme stands before this text: at white space, at
/// a quote that is closed, or where the next URL of a list begins.
fn end_of_url(text: &str) -> usize {
    let ends_here = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>');
    let end = text.find(ends_here).unwrap_or(text.len());
    let text = &text[..end];
    let closes = |at: usize| {
        let next = text[at + 1..].chars().next();
        next.is_none_or(|next| AFTER_QUOTE.contains(next))
    };
    // A URL in JSON: a double quote cannot be part of a URL, but people type
    // passwords as they are.
    let quote = text
        .match_indices('"')
        .map(|(at, _)| at)
        .find(|at| closes(*at));
    let text = &text[..quote.unwrap_or(text.len())];
    let Some(mark) = text.find(MARK) else {
        return text.len();
    };
    let scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let before = text[..mark].trim_end_matches(scheme);
    // `http://proxy/http://host/`: one URL within another.
    if !before.ends_with(|c| SEPARATORS.contains(c)) {
        return text.len();
    }
    before.trim_end_matches(|c| SEPARATORS.contains(c)).len()
}

/// `user:password@host/path?query`, what follows `://`.
fn push_masked(out: &mut String, url: &str) {
    let authority_end = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(authority_end);
    let path = if let Some((_, host)) = authority.rsplit_once('@') {
        out.push_str("***@");
        out.push_str(host);
        path
    } else if let Some((_, rest)) = url.rsplit_once('@').filter(|_| !is_host(authority)) {
        // A password with a slash or a question mark in it.
        out.push_str("***@");
        let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(host_end);
        out.push_str(host);
        path
    } else {
        out.push_str(authority);
        path
    };
    let Some((path, query)) = path.split_once('?') else {
        return out.push_str(path);
    };
    out.push_str(path);
    out.push('?');
    let tail = query.trim_end_matches([',', ';', ':', '.', '\'', '"', ')', ']', '}']);
    if !tail.is_empty() {
        out.push_str("***");
    }
    out.push_str(&query[tail.len()..]);
}

/// Whether this can be a host with its port, and not the begin of
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
            // What stands around a URL stays.
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
            user in "[a-z]{1,8}", host in "[a-z]{1,8}", odd in "[^\\s\\pC<>\"@0-9]{0,3}",
        ) {
            let text = format!("x=http://{user}:{odd}S3CRET@{host}/p?k={odd}S3CRET");
            prop_assert!(!without_secrets(&text).contains("S3CRET"), "{text}");
        }

        #[test]
        fn masking_twice_changes_nothing(text in "(http://)?[a-z:@,'\"/?=& ]{0,40}") {
            let once = without_secrets(&text).into_owned();
            prop_assert_eq!(without_secrets(&once), once.clone());
        }

        #[test]
        fn never_panics(text in "\\PC{0,80}") {
            let _ = without_secrets(&text);
        }
    }
}
