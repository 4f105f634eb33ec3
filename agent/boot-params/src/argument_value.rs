//! The types of the values of the agent's arguments. Each type parses text and writes a
//! value as text. `plain_values.rs` does this for numbers, texts, lists and durations.

use std::fmt;

/// A value of a kernel argument.
pub trait ArgumentValue: Sized {
    /// A description of a valid value, for the warning about an invalid one.
    const EXPECTED: &'static str;

    /// True if the value must not be shown.
    const SECRET: bool = false;

    /// Reads the text after the `=`. The text is never empty.
    fn parse(text: &str) -> Option<Self>;

    /// The value as text, which [`parse`](Self::parse) accepts; empty if the value is
    /// not set.
    fn to_text(&self) -> String;

    /// The value of an empty text; `None` if an empty text is not valid.
    fn empty() -> Option<Self> {
        None
    }
}

/// Where the agent looks for a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceUrls {
    /// By multicast DNS.
    Mdns,
    /// At one of these base URLs, without a trailing slash.
    Urls(Vec<String>),
}

impl ArgumentValue for ServiceUrls {
    const EXPECTED: &'static str = "\"mdns\" or http:// or https:// URLs joined by commas";

    fn parse(text: &str) -> Option<ServiceUrls> {
        if text == "mdns" {
            return Some(ServiceUrls::Mdns);
        }
        split_list(text)
            .map(|url| HttpUrl::parse(url).map(|url| url.0.trim_end_matches('/').to_owned()))
            .collect::<Option<Vec<_>>>()
            .filter(|urls| !urls.is_empty())
            .map(ServiceUrls::Urls)
    }

    fn to_text(&self) -> String {
        match self {
            ServiceUrls::Mdns => "mdns".to_owned(),
            ServiceUrls::Urls(urls) => urls.join(","),
        }
    }
}

/// One `http://` or `https://` URL. Checks only the scheme, that a host follows it,
/// and that the text is printable ASCII. The HTTP client does the full parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl(pub String);

impl ArgumentValue for HttpUrl {
    const EXPECTED: &'static str = "an http:// or https:// URL";

    fn parse(text: &str) -> Option<HttpUrl> {
        let rest = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"))?;
        let host_follows = !rest.is_empty() && !rest.starts_with(['/', '?', '#']);
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        (host_follows && printable).then(|| HttpUrl(text.to_owned()))
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

/// The URL of a webhook. Often a secret path is the only protection of the webhook, so
/// warnings and logs mask the URL.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(pub HttpUrl);

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookUrl(***)")
    }
}

impl ArgumentValue for WebhookUrl {
    const EXPECTED: &'static str = HttpUrl::EXPECTED;
    const SECRET: bool = true;

    fn parse(text: &str) -> Option<WebhookUrl> {
        HttpUrl::parse(text).map(WebhookUrl)
    }

    fn to_text(&self) -> String {
        self.0.to_text()
    }
}

/// A value that must not reach a log or a console.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl ArgumentValue for Secret {
    const EXPECTED: &'static str = "text";
    const SECRET: bool = true;

    fn parse(text: &str) -> Option<Secret> {
        Some(Secret(text.to_owned()))
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

/// The scheme of the callback URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// The oldest TLS version that the agent accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    V1_2,
    V1_3,
}

/// The key type of the certificate that the agent makes for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateCurve {
    P256,
    P384,
    P521,
}

/// Whether the agent sends a user name and a password to image servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageServerAuth {
    NoAuth,
    /// With HTTP basic authentication.
    HttpBasic,
}

/// What the agent shows on the consoles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleMode {
    /// A status screen on a virtual terminal; log lines and a block of the status on
    /// serial consoles.
    Status,
    /// Log lines only.
    Lines,
    /// Warnings and errors only.
    Quiet,
}

/// Implements [`ArgumentValue`] for an enum whose values are words, in any letter
/// case.
macro_rules! words {
    ($type:ident, $expected:literal, $($word:literal => $variant:ident),+) => {
        impl ArgumentValue for $type {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str) -> Option<$type> {
                match text.to_ascii_lowercase().as_str() {
                    $($word => Some($type::$variant),)+
                    _ => None,
                }
            }

            fn to_text(&self) -> String {
                match self {
                    $($type::$variant => $word.to_owned(),)+
                }
            }
        }
    };
}

words!(ConsoleMode, "status, lines or quiet", "status" => Status, "lines" => Lines, "quiet" => Quiet);
words!(Scheme, "http or https", "http" => Http, "https" => Https);
words!(TlsVersion, "1.2 or 1.3", "1.2" => V1_2, "1.3" => V1_3);
words!(ImageServerAuth, "noauth or http_basic", "noauth" => NoAuth, "http_basic" => HttpBasic);
words!(CertificateCurve, "p256, p384 or p521", "p256" => P256, "p384" => P384, "p521" => P521);

/// Whether the text may be an address or a host name. The resolver does the full check.
pub(crate) fn is_host(text: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || b".:_-".contains(&c);
    text.len() <= 253 && text.bytes().all(allowed)
}

/// An NTP server: an address or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NtpServer(pub String);

impl ArgumentValue for NtpServer {
    const EXPECTED: &'static str = "an address or host name of at most 253 characters";

    fn parse(text: &str) -> Option<NtpServer> {
        is_host(text).then(|| NtpServer(text.to_owned()))
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

/// The id that the agent sends with its requests to Ironic: `req-` and a UUID,
/// in the header `X-OpenStack-Request-ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub String);

impl ArgumentValue for RequestId {
    const EXPECTED: &'static str = "req- and a UUID";

    fn parse(text: &str) -> Option<RequestId> {
        let mut groups = text.strip_prefix("req-")?.split('-');
        let is_uuid = [8, 4, 4, 4, 12].iter().all(|&length| {
            groups.next().is_some_and(|group| {
                group.len() == length && group.bytes().all(|c| c.is_ascii_hexdigit())
            })
        });
        (is_uuid && groups.next().is_none()).then(|| RequestId(text.to_owned()))
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

/// A version of Ironic's API, such as 1.68.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiVersion {
    pub major: u16,
    pub minor: u16,
}

impl ArgumentValue for ApiVersion {
    const EXPECTED: &'static str = "a version such as 1.68";

    fn parse(text: &str) -> Option<ApiVersion> {
        let (major, minor) = text.split_once('.')?;
        Some(ApiVersion {
            major: decimal(major)?,
            minor: decimal(minor)?,
        })
    }

    fn to_text(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }
}

/// The priority of a step, 0 to 99.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPriority(pub u8);

impl ArgumentValue for StepPriority {
    const EXPECTED: &'static str = "a number from 0 to 99";

    fn parse(text: &str) -> Option<StepPriority> {
        decimal(text).filter(|n| *n <= 99).map(StepPriority)
    }

    fn to_text(&self) -> String {
        self.0.to_string()
    }
}

/// Parses a number of digits only, because `str::parse` would accept a sign as well.
pub(crate) fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes()
        .all(|c| c.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

pub(crate) fn split_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {

    use super::*;

    fn urls(text: &str) -> Option<Vec<String>> {
        match ServiceUrls::parse(text)? {
            ServiceUrls::Urls(urls) => Some(urls),
            ServiceUrls::Mdns => None,
        }
    }

    #[test]
    fn reads_lists_of_urls() {
        assert_eq!(ServiceUrls::parse("mdns"), Some(ServiceUrls::Mdns));
        assert_eq!(
            urls("http://192.0.2.1:6385/,https://[2001:db8::1]:6385").unwrap(),
            ["http://192.0.2.1:6385", "https://[2001:db8::1]:6385"]
        );
        for bad in [
            ",",
            "192.0.2.1:6385",
            "http://",
            "http:///v1",
            "ftp://192.0.2.1",
            "http://a,b",
            "mdns,http://a",
            "http://a b",
        ] {
            assert_eq!(ServiceUrls::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn refuses_what_is_out_of_range() {
        assert_eq!(StepPriority::parse("99"), Some(StepPriority(99)));
        assert_eq!(StepPriority::parse("100"), None);
        assert_eq!(ApiVersion::parse("1.68").unwrap().to_text(), "1.68");
        assert_eq!(ApiVersion::parse("latest"), None);
        assert_eq!(TlsVersion::parse("1.1"), None);
        assert_eq!(
            CertificateCurve::parse("P384"),
            Some(CertificateCurve::P384)
        );
        assert_eq!(NtpServer::parse("ntp lab"), None);
        let id = "req-4b9a8e6e-f809-4d71-9b92-2ff55b0d3854";
        assert_eq!(RequestId::parse(id), Some(RequestId(id.into())));
        for bad in [
            &id[..39],
            &id[4..],
            "req-1",
            &format!("{id}-1"),
            &id.replace('4', "g"),
        ] {
            assert_eq!(RequestId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_does_not_show_in_debug_output() {
        assert_eq!(
            format!("{:?}", Some(Secret("hunter2".into()))),
            "Some(Secret(***))"
        );
    }
}
