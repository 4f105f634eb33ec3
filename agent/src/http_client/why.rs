//! Why a request got no answer, in words that help an operator.

use std::error::Error as StdError;
use std::io;

use rustls::{CertificateError, Error as TlsError};

const STRANGER: &str = "no authority that is trusted here has signed its certificate (give its CA file, or \
     ipa-insecure=1 to trust anybody)";

/// Why a request got no answer, in the words of the innermost cause; the URL is
/// for the caller to name. The layers above it ("error sending request: client
/// error (Connect): tcp connect error") tell an operator nothing.
pub fn why(error: &reqwest::Error) -> String {
    if let Some(words) = tls_cause(error).and_then(advice) {
        return words;
    }
    let mut innermost: &dyn StdError = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let text = innermost.to_string();
    match text.split_once(" (os error") {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        // `Connection refused (os error 111)`: the words are enough.
        Some((words, _)) => words.to_ascii_lowercase(),
        None => text,
    }
}

/// True when the server's certificate was refused for its dates: the certificate
/// may be old, or our clock may be wrong.
pub fn is_about_time(error: &reqwest::Error) -> bool {
    tls_cause(error).is_some_and(dates_are_wrong)
}

/// True when the server's certificate was refused, for whatever reason: it will
/// not be taken in a minute either.
pub fn is_untrusted(error: &reqwest::Error) -> bool {
    matches!(tls_cause(error), Some(TlsError::InvalidCertificate(_)))
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

fn advice(error: &TlsError) -> Option<String> {
    match error {
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => Some(STRANGER.to_owned()),
        // What webpki says of a self-signed certificate of OpenSSL's; only the
        // words depend on this name.
        TlsError::InvalidCertificate(CertificateError::Other(cause))
            if format!("{cause:?}").contains("CaUsedAsEndEntity") =>
        {
            Some(STRANGER.to_owned())
        }
        dated if dates_are_wrong(dated) => Some(format!("{dated} (by this machine's clock)")),
        _ => None,
    }
}

/// The TLS library's own error among the causes. An [`io::Error`] around it
/// names the cause of its content as its own, so one has to look inside.
fn tls_cause(error: &reqwest::Error) -> Option<&TlsError> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
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
