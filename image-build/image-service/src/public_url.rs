//! The URL under which clients reach the service.

use std::fmt;
use std::str::FromStr;

/// The recommended maximum length of a URL in characters. Some BMCs refuse a longer URL.
/// No vendor documents a limit; iDRAC refuses 300 (RAC0720).
pub const ADVISED_LEN: usize = 128;
/// The maximum length of a URL in characters.
const MAX_LEN: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("URL {0:?}: expected http://HOST[:PORT] or https://HOST[:PORT], without a path")]
    Form(String),
    #[error("URL {url}: expected at most {MAX_LEN} characters, found {}", url.len())]
    TooLong { url: String },
}

/// `http://HOST[:PORT]` or `https://HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(String);

impl FromStr for PublicUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let base = text.strip_suffix('/').unwrap_or(text);
        let authority = base
            .strip_prefix("http://")
            .or_else(|| base.strip_prefix("https://"))
            .unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if authority.is_empty() || !authority.chars().all(plain) {
            return Err(UrlError::Form(text.to_owned()));
        }
        Ok(Self(base.to_owned()))
    }
}

impl PublicUrl {
    /// The URL of a path of the service.
    ///
    /// # Errors
    /// If the URL is longer than 255 characters.
    pub fn join(&self, path: &str) -> Result<String, UrlError> {
        let url = format!("{}{path}", self.0);
        match url.len() {
            0..=MAX_LEN => Ok(url),
            _ => Err(UrlError::TooLong { url }),
        }
    }

    /// A warning about a URL that some BMCs may refuse.
    #[must_use]
    pub fn warning(url: &str) -> Option<String> {
        (url.len() > ADVISED_LEN).then(|| {
            let len = url.len();
            format!("URL {url} has {len} characters; some BMCs refuse more than {ADVISED_LEN}")
        })
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, expected) in [
            ("http://192.0.2.1:8080", Some("http://192.0.2.1:8080/a.iso")),
            (
                "https://[fd00::1]:443/",
                Some("https://[fd00::1]:443/a.iso"),
            ),
            ("http://", None),
            ("ftp://a", None),
            ("http://a/b", None),
            ("http://u:p@a", None),
            ("http://a?b", None),
            ("http://a b", None),
        ] {
            let joined = text.parse::<PublicUrl>().and_then(|url| url.join("/a.iso"));
            assert_eq!(joined.ok().as_deref(), expected, "{text}");
        }
        let url: PublicUrl = "http://a".parse().unwrap();
        let path = |len: usize| "/".repeat(len - "http://a".len());
        assert!(url.join(&path(255)).is_ok() && url.join(&path(256)).is_err());
        assert_eq!(PublicUrl::warning(&"x".repeat(128)), None);
        assert!(PublicUrl::warning(&"x".repeat(129)).is_some());
    }
}
