//! The URLs and the digest of an image, as one argument gives them.

use crate::argument_value::{ArgumentValue, HttpUrl};
use crate::shown::without_secrets;

/// The query parameter with the digest in OpenShift's `bootstrapOSImage`.
const SHA256: &str = "sha256=";

/// The URLs of one image, which is the same at each of them: `http://`, `https://`
/// or `file:///`, joined by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUrls {
    /// At least one URL, without the digest.
    pub urls: Vec<String>,
    /// The SHA-256 from the `?sha256=` of any of the URLs: 64 hexadecimal digits.
    pub sha256: Option<String>,
}

impl ArgumentValue for ImageUrls {
    const EXPECTED: &'static str = "http://, https:// or file:/// URLs, separated by commas";

    fn parse(text: &str) -> Option<Self> {
        let mut parsed = Self {
            urls: Vec::new(),
            sha256: None,
        };
        for url in split(text) {
            let (url, sha256) = without_checksum(url);
            if !is_place(&url) || sha256.as_deref().is_some_and(|text| !is_sha256(text)) {
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
            text.push_str(sha256);
        }
        text
    }
}

impl ImageUrls {
    /// The digest of the image: `sha256:HEX` from `?sha256=`, or else the value of
    /// `landfall.coreos.image_checksum`.
    ///
    /// # Errors
    /// If both are given and differ: nobody can know which of them was meant.
    pub fn checksum(&self, given: Option<&str>) -> Result<Option<String>, String> {
        let Some(sha256) = &self.sha256 else {
            return Ok(given.map(str::to_owned));
        };
        let Some(given) = given else {
            return Ok(Some(format!("sha256:{sha256}")));
        };
        let lower = given.to_ascii_lowercase();
        if lower.strip_prefix("sha256:").unwrap_or(&lower) == sha256 {
            return Ok(Some(given.to_owned()));
        }
        Err(format!(
            "landfall.coreos.image: expected one checksum, found ?sha256={sha256} and landfall.coreos.image_checksum={}",
            without_secrets(given)
        ))
    }
}

/// Splits at each comma that a new URL follows. Any other comma may be part of a
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

/// Returns the URL to request, without `sha256=`, and the digest in lower case.
fn without_checksum(url: &str) -> (String, Option<String>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let of_checksum = |part: &&str| part.starts_with(SHA256);
    let (checksums, others): (Vec<&str>, Vec<&str>) = query.split('&').partition(of_checksum);
    let Some(checksum) = checksums.first() else {
        return (url.to_owned(), None);
    };
    let checksum = checksum[SHA256.len()..].to_ascii_lowercase();
    let url = match others.as_slice() {
        [] => base.to_owned(),
        others => format!("{base}?{}", others.join("&")),
    };
    (url, Some(checksum))
}

fn is_place(url: &str) -> bool {
    let file = url.starts_with("file:///") && url.bytes().all(|byte| byte.is_ascii_graphic());
    file && url.len() > "file:///".len() || HttpUrl::parse(url).is_some()
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn two_checksums_must_be_the_same() {
        let plain = ImageUrls::parse("http://h/i").unwrap();
        let with_sum = ImageUrls::parse(&format!("http://h/i?sha256={SUM}")).unwrap();
        let same = format!("SHA256:{}", SUM.to_uppercase());
        let other = format!("sha256:{}", "0".repeat(64));
        let sha512 = format!("sha512:{SUM}{SUM}");
        for (image, given, expected) in [
            (&plain, None, Ok(None)),
            (&plain, Some(&*other), Ok(Some(&*other))),
            (&with_sum, None, Ok(Some(&*format!("sha256:{SUM}")))),
            (&with_sum, Some(SUM), Ok(Some(SUM))),
            (&with_sum, Some(&*same), Ok(Some(&*same))),
            (&with_sum, Some(&*other), Err(&*other)),
            (&with_sum, Some(&*sha512), Err(&*sha512)),
            (&with_sum, Some("http://h/sums"), Err("http://h/sums")),
        ] {
            match (image.checksum(given), expected) {
                (Ok(found), expected) => assert_eq!(Ok(found.as_deref()), expected),
                (Err(text), Err(part)) => {
                    assert!(text.contains(SUM) && text.contains(part), "{text}");
                }
                (Err(text), Ok(_)) => panic!("{text}"),
            }
        }
    }

    fn urls(urls: &[&str], sha256: Option<&str>) -> ImageUrls {
        ImageUrls {
            urls: urls.iter().map(ToString::to_string).collect(),
            sha256: sha256.map(str::to_owned),
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
    fn what_is_no_place_of_an_image() {
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
