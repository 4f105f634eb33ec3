//! The one configured HTTP client: trust, time-outs, no surprises.

use std::time::Duration;

use crate::failure::{Class, Failure, Result, one_line};

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

/// A client made of these options. Cloning shares its connections.
///
/// There is no total time-out on purpose: an image may take an hour. A request
/// that must end sooner says so itself (`RequestBuilder::timeout`).
///
/// # Errors
/// If the TLS library refuses its own configuration.
pub fn client(options: &HttpOptions) -> Result<reqwest::Client> {
    let timeout = options.timeout.unwrap_or(Duration::from_secs(30));
    let builder = reqwest::Client::builder()
        .user_agent(concat!("landfall/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeout)
        .read_timeout(timeout)
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
