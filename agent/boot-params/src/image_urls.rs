//! The URLs of one image in one argument, and the digest in their query.

use crate::argument_value::{ArgumentValue, HttpUrl};
use crate::digest::{Algorithm, Digest};

/// The query parameter with the digest in OpenShift's `bootstrapOSImage`.
const SHA256: &str = "sha256=";

/// One or several URLs of the same image: `http://`, `https://` or `file:///`, joined
/// by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUrls {
    /// At least one URL, without the digest.
    pub urls: Vec<String>,
    /// The SHA-256 from the `?sha256=` of any of the URLs.
    pub sha256: Option<Digest>,
}

impl ArgumentValue for ImageUrls {
    const EXPECTED: &'static str = "http://, https:// or file:/// URLs, separated by commas";

    fn parse(text: &str) -> Option<Self> {
        let mut parsed = Self {
            urls: Vec::new(),
            sha256: None,
        };
        for url in split(text) {
            let (url, sha256) = without_checksum(url)?;
            if !is_place(&url) {
                return None;
            }
            if parsed.sha256.is_some() && sha256.is_some() && parsed.sha256 != sha256 {
                return None;
            }
            parsed.sha256 = parsed.sha256.or(sha256);
            parsed.urls.push(url);
        }
        Some(parsed)
    }

    fn to_text(&self) -> String {
        let mut text = self.urls.join(",");
        if let (Some(sha256), Some(last)) = (&self.sha256, self.urls.last()) {
            text.push(if last.contains('?') { '&' } else { '?' });
            text.push_str(SHA256);
            text.push_str(&sha256.hex());
        }
        text
    }
}

/// Splits at each comma that is followed by a new URL. Any other comma may be part of a
/// URL.
fn split(text: &str) -> Vec<&str> {
    let mut urls = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(',') {
        let rest = &text[at + 1..];
        if ["http://", "https://", "file:/"]
            .iter()
            .any(|scheme| rest.starts_with(scheme))
        {
            urls.push(&text[start..at]);
            start = at + 1;
        }
    }
    urls.push(&text[start..]);
    urls
}

/// Returns the URL to request, without `sha256=`, and the digest. `None` if the
/// digest is malformed.
fn without_checksum(url: &str) -> Option<(String, Option<Digest>)> {
    let Some((base, query)) = url.split_once('?') else {
        return Some((url.to_owned(), None));
    };
    let of_checksum = |part: &&str| part.starts_with(SHA256);
    let (checksums, others): (Vec<&str>, Vec<&str>) = query.split('&').partition(of_checksum);
    let Some(checksum) = checksums.first() else {
        return Some((url.to_owned(), None));
    };
    let digest = Digest::new(Algorithm::Sha256, &checksum[SHA256.len()..]).ok()?;
    let url = match others.as_slice() {
        [] => base.to_owned(),
        others => format!("{base}?{}", others.join("&")),
    };
    Some((url, Some(digest)))
}

fn is_place(url: &str) -> bool {
    let file = url.starts_with("file:///") && url.bytes().all(|byte| byte.is_ascii_graphic());
    file && url.len() > "file:///".len() || HttpUrl::parse(url).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn urls(urls: &[&str], sha256: Option<&str>) -> ImageUrls {
        ImageUrls {
            urls: urls.iter().map(ToString::to_string).collect(),
            sha256: sha256.map(|hex| Digest::new(Algorithm::Sha256, hex).unwrap()),
        }
    }

    #[test]
    fn one_or_several_with_a_checksum_or_without() {
        let sum = format!("?sha256={SUM}");
        for (text, expected) in [
            (
                "http://h/i.raw.gz".to_owned(),
                urls(&["http://h/i.raw.gz"], None),
            ),
            (
                "file:///run/i.raw".to_owned(),
                urls(&["file:///run/i.raw"], None),
            ),
            (
                "http://h/a,b.raw,https://m/i".to_owned(),
                urls(&["http://h/a,b.raw", "https://m/i"], None),
            ),
            (format!("http://h/i{sum}"), urls(&["http://h/i"], Some(SUM))),
            (
                format!("http://h/i?t=1&sha256={}", SUM.to_uppercase()),
                urls(&["http://h/i?t=1"], Some(SUM)),
            ),
            (
                format!("http://h/i{sum},http://m/i{sum}&t=2"),
                urls(&["http://h/i", "http://m/i?t=2"], Some(SUM)),
            ),
            (
                "http://h/i?sha=1".to_owned(),
                urls(&["http://h/i?sha=1"], None),
            ),
        ] {
            let parsed = ImageUrls::parse(&text);
            assert_eq!(parsed.as_ref(), Some(&expected), "{text}");
            let again = ImageUrls::parse(&expected.to_text());
            assert_eq!(again, Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_image_urls_are_rejected() {
        let other = SUM.replace('0', "1");
        for text in [
            "",
            "i.raw",
            "ftp://h/i",
            "http://",
            "file:///",
            "file://host/i",
            "http://h/i?sha256=",
            "http://h/i?sha256=abc",
            &format!("http://h/i?sha256={SUM},http://m/i?sha256={other}"),
        ] {
            assert_eq!(ImageUrls::parse(text), None, "{text}");
        }
    }
}
