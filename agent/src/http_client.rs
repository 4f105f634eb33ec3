//! The one configured HTTP client: trust, time-outs, no surprises.

use std::path::PathBuf;
use std::time::Duration;

use crate::failure::{Class, Failure, Result, one_line};

/// How the agent's requests are made; from the settings.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Do not verify server certificates (`ipa-insecure`).
    pub insecure: bool,
    /// PEM bundle of the authorities to trust instead of the built-in none.
    pub ca_file: Option<PathBuf>,
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
/// If the CA bundle cannot be read or holds no certificate.
pub fn client(options: &HttpOptions) -> Result<reqwest::Client> {
    let timeout = options.timeout.unwrap_or(Duration::from_secs(30));
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("landfall/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeout)
        .read_timeout(timeout)
        .tls_danger_accept_invalid_certs(options.insecure);
    let mut authorities = Vec::new();
    if let Some(path) = &options.ca_file {
        let pem = std::fs::read(path).map_err(|e| {
            Failure::new(
                Class::CommandExecutionError,
                format!("CA bundle {}: {e}", path.display()),
            )
        })?;
        authorities = reqwest::Certificate::from_pem_bundle(&pem).map_err(|e| {
            Failure::new(
                Class::CommandExecutionError,
                format!("CA bundle {}: {}", path.display(), one_line(&e)),
            )
        })?;
    }
    // A ramdisk has no system store: only what was given is trusted.
    builder = builder.tls_certs_only(authorities);
    builder.build().map_err(|e| {
        Failure::new(
            Class::CommandExecutionError,
            format!("HTTP client: {}", one_line(&e)),
        )
    })
}
