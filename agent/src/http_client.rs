//! The one configured HTTP client: trust, time-outs, no surprises.

use std::time::Duration;

use reqwest::redirect::Policy;

use crate::failure::{Class, Failure, Result, one_line};

/// Image servers may send us on, but not from https to http.
fn for_images() -> Policy {
    Policy::custom(|attempt| {
        let secure = |url: &reqwest::Url| url.scheme() == "https";
        if attempt.previous().len() > REDIRECTS {
            attempt.error(format!("more than {REDIRECTS} redirects"))
        } else if attempt.previous().iter().any(secure) && !secure(attempt.url()) {
            attempt.error("redirected from https to http")
        } else {
            attempt.follow()
        }
    })
}

const REDIRECTS: usize = 10;

/// How the agent's requests are made; from the settings.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Do not verify server certificates (`ipa-insecure`).
    pub insecure: bool,
    /// How long one request may be idle, and a connection may take to be made.
    pub timeout: Option<Duration>,
}

/// Why a request got no answer, in the words of the innermost cause; the URL is
/// for the caller to name. The layers above it ("error sending request: client
/// error (Connect): tcp connect error") tell an operator nothing.
pub fn why(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
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

/// A client for Ironic. It follows no redirect: a heartbeat carries the token,
/// which would go to whatever host the answer names.
///
/// # Errors
/// If the TLS library refuses its own configuration.
pub fn service_client(options: &HttpOptions) -> Result<reqwest::Client> {
    client(options, Policy::none())
}

/// A client for images and what belongs to them.
///
/// There is no total time-out on purpose: an image may take an hour. A request
/// that must end sooner says so itself (`RequestBuilder::timeout`).
///
/// # Errors
/// If the TLS library refuses its own configuration.
pub fn image_client(options: &HttpOptions) -> Result<reqwest::Client> {
    client(options, for_images())
}

fn client(options: &HttpOptions, redirects: Policy) -> Result<reqwest::Client> {
    let timeout = options.timeout.unwrap_or(Duration::from_secs(30));
    let builder = reqwest::Client::builder()
        .user_agent(concat!("landfall/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeout)
        .read_timeout(timeout)
        .redirect(redirects)
        .tls_danger_accept_invalid_certs(options.insecure)
        // A ramdisk has no system store, and no authority can be given yet.
        .tls_certs_only([]);
    builder.build().map_err(|e| {
        Failure::new(
            Class::CommandExecutionError,
            format!("HTTP client: {}", one_line(&e)),
        )
    })
}
