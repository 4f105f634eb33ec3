//! Texts with URLs in them, fit for a console that others see too.

use std::borrow::Cow;

/// The text with what is secret in its URLs replaced by `***`: the user part
/// (`http://user:password@host`) and the values of a query (signed links).
/// Anything that is not a URL stays as it is.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        // Lists of URLs are separated by commas or blanks.
        let end = after
            .find([',', ' ', '\t', '"', '\''])
            .unwrap_or(after.len());
        let (url, next) = after.split_at(end);
        push_masked(&mut out, url);
        rest = next;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// `user:password@host/path?query`, what stands behind `://`.
fn push_masked(out: &mut String, url: &str) {
    let authority_end = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, path) = url.split_at(authority_end);
    match authority.rsplit_once('@') {
        Some((_, host)) => {
            out.push_str("***@");
            out.push_str(host);
        }
        None => out.push_str(authority),
    }
    match path.split_once('?') {
        Some((path, query)) if !query.is_empty() => {
            out.push_str(path);
            out.push_str("?***");
        }
        _ => out.push_str(path),
    }
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
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    proptest! {
        #[test]
        fn no_password_survives(user in "[a-z]{1,8}", host in "[a-z]{1,8}") {
            let text = format!("x=http://{user}:S3CRET@{host}/p?k=S3CRET");
            prop_assert!(!without_secrets(&text).contains("S3CRET"));
        }

        #[test]
        fn never_panics(text in "\\PC{0,80}") {
            let _ = without_secrets(&text);
        }
    }
}
