//! Finds where an answer redirects to, and whether the client for images follows it.

use std::slice;

use landfall_boot_params::without_secrets;
use reqwest::header::LOCATION;
use reqwest::{Response, Url};

/// The maximum length of a redirect's URL on the console, in bytes. A signed URL has
/// about 1 kB.
const SHOWN_LIMIT: usize = 2048;
/// The maximum length of a URL that the image client can request, in bytes. This is the
/// limit of the crate `http`.
const URL_LIMIT: usize = u16::MAX as usize - 1;

/// A redirect to another URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The URL in the answer, without its secrets. If the URL is too long for a screen,
    /// this is only `http://host/...`.
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
                && to.as_str().len() <= URL_LIMIT
                && !leaves_https(slice::from_ref(from), &to),
            to: shown(&to),
        })
    }
}

/// Shortens the URL before it is masked, because the time for masking grows with the
/// square of the length.
fn shown(url: &Url) -> String {
    if url.as_str().len() <= SHOWN_LIMIT {
        return without_secrets(url.as_str()).into_owned();
    }
    let port = url.port().map(|port| format!(":{port}"));
    let server = format!(
        "{}://{}{}",
        url.scheme(),
        url.host_str().unwrap_or_default(),
        port.unwrap_or_default()
    );
    // The host name itself may be too long.
    let server: String = server.chars().take(SHOWN_LIMIT).collect();
    without_secrets(&format!("{server}/...")).into_owned()
}

/// Whether the redirect to `next` leaves TLS: one of the `previous` URLs uses HTTPS, and
/// `next` does not.
pub(crate) fn leaves_https(previous: &[Url], next: &Url) -> bool {
    let is_secure = |url: &Url| url.scheme() == "https";
    previous.iter().any(is_secure) && !is_secure(next)
}

#[cfg(test)]
mod tests {
    use reqwest::Method;

    use super::*;
    use crate::fixtures::{Reply, Server, http_client};
    use crate::{HttpOptions, ServiceClient, status_of};

    #[test]
    fn a_long_url_is_shown_without_its_path() {
        let long = "a".repeat(SHOWN_LIMIT);
        let host = format!("ftp://{}", &long[6..]);
        for (url, expected) in [
            (
                "http://h/a?k=hidden".to_owned(),
                "http://h/a?***".to_owned(),
            ),
            (
                format!("https://me:hidden@h:81/{long}?k=hidden"),
                "https://h:81/...".to_owned(),
            ),
            (
                format!("http://[2001:db8::1]/{long}"),
                "http://[2001:db8::1]/...".to_owned(),
            ),
            (format!("{host}bcd/x"), format!("{host}/...")),
            (format!("data:{long}"), "data:///...".to_owned()),
        ] {
            assert_eq!(shown(&Url::parse(&url).unwrap()), expected);
        }
    }

    #[tokio::test]
    async fn a_redirect_to_an_endless_url_is_not_followed() {
        // Installs the provider for TLS.
        let _ = http_client();
        // This client follows no redirect.
        let client = ServiceClient::new(&HttpOptions::default()).unwrap();
        for (length, is_followed) in [(3000, true), (URL_LIMIT + 1, false)] {
            let to = format!("http://127.0.0.1:1/{}", "a".repeat(length));
            let reply = Reply::status(302).header(&format!("Location: {to}"));
            let server = Server::scripted([reply]);
            let request = client.request(Method::GET, &server.base).unwrap();
            let answer = status_of(request).await.unwrap();
            let expected = Redirect {
                to: "http://127.0.0.1:1/...".to_owned(),
                is_followed,
            };
            assert_eq!(answer.redirect, Some(expected));
        }
    }
}
