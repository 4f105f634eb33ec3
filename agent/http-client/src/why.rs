//! Describes why a request got no answer, in words that help an operator.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use landfall_sys::calendar;
use rustls::pki_types::UnixTime;
use rustls::{CertificateError, Error as TlsError};

use crate::tls::UnknownAuthority;

/// Describes why a request got no answer, in the words of the innermost cause. The
/// caller adds the URL. The outer layers ("error sending request: client error
/// (Connect): tcp connect error") do not help an operator.
pub fn why(error: &reqwest::Error) -> String {
    if let Some(words) = tls_cause(error).and_then(in_words) {
        return words;
    }
    let mut innermost: &dyn StdError = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let text = innermost.to_string();
    match text.split_once(" (os error") {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        // Removes the number from `Connection refused (os error 111)`.
        Some((words, _)) => words.to_ascii_lowercase(),
        None => text,
    }
}

/// Describes why a TLS connection without HTTP has failed, in the same words as [`why`].
pub fn why_no_tls(error: &io::Error) -> String {
    let cause = tls_cause(error);
    let words = cause.and_then(|cause| in_words(cause).or_else(|| Some(cause.to_string())));
    words.unwrap_or_else(|| error.to_string())
}

/// Whether the server's certificate was rejected because of its dates. The
/// certificate may be old, or our clock may be wrong.
pub fn is_about_time(error: &reqwest::Error) -> bool {
    tls_cause(error).is_some_and(dates_are_wrong)
}

/// Whether the server's certificate was rejected, for any reason.
pub fn is_untrusted(error: &reqwest::Error) -> bool {
    matches!(tls_cause(error), Some(TlsError::InvalidCertificate(_)))
}

/// Whether the server's certificate was rejected permanently. Only a certificate that is
/// not valid yet can become valid with time.
pub fn is_untrusted_for_good(error: &reqwest::Error) -> bool {
    match tls_cause(error) {
        Some(TlsError::InvalidCertificate(fault)) => !matches!(
            fault,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }
        ),
        _ => false,
    }
}

fn dates_are_wrong(error: &TlsError) -> bool {
    matches!(
        error,
        TlsError::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

const DATES_REMEDY: &str = "if the clock is wrong, set it in the firmware setup or give ipa-ntp-server=; otherwise renew the certificate";

const NAME_REMEDY: &str = "use a name or address in the URL that is in the certificate";
/// How many names of a certificate an error lists. A certificate of a large site can have
/// a hundred names.
const MOST_NAMES: usize = 4;

fn in_words(error: &TlsError) -> Option<String> {
    let TlsError::InvalidCertificate(fault) = error else {
        return None;
    };
    match fault {
        CertificateError::Other(cause) => {
            let unknown = cause.0.downcast_ref::<UnknownAuthority>()?;
            Some(unknown.to_string())
        }
        CertificateError::ExpiredContext { time, not_after } => Some(format!(
            "its certificate expired on {}, and this machine's clock says {} -- {DATES_REMEDY}",
            date(*not_after),
            date(*time)
        )),
        CertificateError::NotValidYetContext { time, not_before } => Some(format!(
            "its certificate is valid from {}, and this machine's clock says {} -- {DATES_REMEDY}",
            date(*not_before),
            date(*time)
        )),
        _ if dates_are_wrong(error) => Some(format!(
            "{error} (by this machine's clock) -- {DATES_REMEDY}"
        )),
        CertificateError::NotValidForName => Some(format!("{error} -- {NAME_REMEDY}")),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => Some(format!(
            "its certificate is for {}, not for {} -- {NAME_REMEDY}",
            names(presented),
            expected.to_str()
        )),
        _ => None,
    }
}

/// The names in a certificate. The TLS library provides them in the debug format of their
/// type: `DnsName("ironic.example.org")`, `IpAddress(192.0.2.1)`.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "no name at all".to_owned();
    }
    let plain = presented.iter().take(MOST_NAMES).map(|name| {
        let inside = name.split_once('(').map_or(&**name, |(_, inside)| inside);
        inside.trim_end_matches(')').trim_matches('"')
    });
    let mut list = plain.collect::<Vec<_>>().join(", ");
    let more = presented.len().saturating_sub(MOST_NAMES);
    if more > 0 {
        // Writing to a String cannot fail.
        let _ = write!(list, " and {more} more names");
    }
    list
}

fn date(time: UnixTime) -> String {
    calendar::shown(UNIX_EPOCH + Duration::from_secs(time.as_secs()))
}

/// Finds the TLS library's error among the causes. `source` of an [`io::Error`] skips the
/// error inside it, so this function also checks the inner error.
fn tls_cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a TlsError> {
    let mut cause = Some(error);
    while let Some(layer) = cause {
        let inside = layer
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        if let Some(found) = layer
            .downcast_ref::<TlsError>()
            .or_else(|| inside?.downcast_ref::<TlsError>())
        {
            return Some(found);
        }
        cause = match inside {
            Some(inside) => Some(inside),
            None => layer.source(),
        };
    }
    None
}
