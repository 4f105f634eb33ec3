//! Finds where an answer redirects to, and whether the client for images follows it.

use std::slice;

use landfall_boot_params::without_secrets;
use reqwest::header::LOCATION;
use reqwest::{Response, Url};

/// A redirect to another URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The URL that the answer names, without its secrets.
    pub to: String,
    /// Whether [`image_client`](crate::image_client) follows it.
    pub is_followed: bool,
}

impl Redirect {
    /// `None` if the answer is no redirect, or names no URL.
    pub(crate) fn of(response: &Response) -> Option<Self> {
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let location = response.headers().get(LOCATION)?;
        let location = str::from_utf8(location.as_bytes()).ok()?;
        let from = response.url();
        let to = from.join(location).ok()?;
        Some(Self {
            is_followed: matches!(to.scheme(), "http" | "https")
                && !leaves_https(slice::from_ref(from), &to),
            to: without_secrets(to.as_str()).into_owned(),
        })
    }
}

/// Whether a redirect from the last of these URLs, to which the others have led, gives
/// up the protection by TLS.
pub(crate) fn leaves_https(previous: &[Url], next: &Url) -> bool {
    let is_secure = |url: &Url| url.scheme() == "https";
    previous.iter().any(is_secure) && !is_secure(next)
}
