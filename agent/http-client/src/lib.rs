//! Builds the HTTP clients: trust, timeouts, proxies and redirects.

mod answer;
#[cfg(any(test, feature = "fixtures"))]
#[allow(clippy::unwrap_used, reason = "for tests")]
pub mod fixtures;
mod redirect;
mod service_client;
pub mod tls;
mod why;
mod zoned_url;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use landfall_boot_params::without_secrets;
use reqwest::redirect::Policy;
use reqwest::{NoProxy, Proxy};

pub use answer::{Answer, NoAnswer, exchange, status_and_reason_of, status_of};
pub use redirect::Redirect;
pub use service_client::ServiceClient;
pub use why::{is_untrusted, is_untrusted_for_good, why, why_no_tls};
pub use zoned_url::ZonedUrl;

use landfall_report::failure::{Failure, Result, one_line};

use crate::redirect::leaves_https;
use crate::tls::{Identity, ServerTrust, TlsPolicy};

/// Follows up to [`REDIRECTS`] redirects of image servers, but not from https to http.
fn for_images() -> Policy {
    Policy::custom(|attempt| {
        if attempt.previous().len() > REDIRECTS {
            attempt.error(format!("more than {REDIRECTS} redirects"))
        } else if leaves_https(attempt.previous(), attempt.url()) {
            attempt.error("redirected from https to http")
        } else {
            attempt.follow()
        }
    })
}

const REDIRECTS: usize = 10;

/// The options of all HTTP requests, from the settings.
#[derive(Debug, Clone, Default)]
pub struct HttpOptions {
    /// Do not verify server certificates (`ipa-insecure`).
    pub insecure: bool,
    /// A PEM file of certificates to trust instead of the system's authorities
    /// (`cafile`).
    pub ca_file: Option<PathBuf>,
    /// Certificates in PEM to trust in addition to the system's authorities. Texts
    /// that cannot be read are ignored.
    pub more_authorities: Vec<Vec<u8>>,
    /// The client's own certificate, for servers that ask for one.
    pub identity: Option<IdentityFiles>,
    pub tls: TlsPolicy,
    pub proxies: Proxies,
    /// The time limit for making a connection, and for a connection that is silent.
    /// `None` means 30 s.
    pub timeout: Option<Duration>,
}

/// Proxies in the form that OpenShift and Ironic use: URLs, which may contain a
/// password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The proxy for `http://` URLs (`HTTP_PROXY`).
    pub http: Option<String>,
    /// The proxy for `https://` URLs (`HTTPS_PROXY`).
    pub https: Option<String>,
    /// Hosts, domains and networks that need no proxy (`NO_PROXY`).
    pub none_for: Vec<String>,
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies")
            .field("none_for", &self.none_for)
            .finish_non_exhaustive()
    }
}

/// The PEM files of the client's certificate and key (`certfile`, `keyfile`).
#[derive(Debug, Clone)]
pub struct IdentityFiles {
    /// The certificate, followed by any intermediate certificates.
    pub certificates: PathBuf,
    pub key: PathBuf,
}

impl IdentityFiles {
    /// Both files, if both are given. `None` if neither is.
    ///
    /// # Errors
    /// If only one of them is given.
    pub fn pair(certificates: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<Self>> {
        match (certificates, key) {
            (Some(certificates), Some(key)) => Ok(Some(Self { certificates, key })),
            (None, None) => Ok(None),
            (Some(file), None) => Err(half_a_pair("certfile", &file, "keyfile")),
            (None, Some(file)) => Err(half_a_pair("keyfile", &file, "certfile")),
        }
    }
}

fn half_a_pair(given: &str, file: &std::path::Path, missing: &str) -> Failure {
    Failure::other(format!(
        "{given} {}: expected {missing} in addition, found none",
        file.display()
    ))
}

impl HttpOptions {
    /// The same options, but the client accepts every certificate. Use this only for
    /// requests whose answers are not trusted, such as the request that sets the clock.
    #[must_use]
    pub fn trusting_anybody(&self) -> Self {
        Self {
            insecure: true,
            ca_file: None,
            ..self.clone()
        }
    }

    /// The TLS configuration with these options, for a connection that is not HTTP.
    ///
    /// # Errors
    /// If a certificate or key file is invalid. The error names it.
    pub fn tls(&self) -> Result<rustls::ClientConfig> {
        let trust = match &self.ca_file {
            _ if self.insecure => ServerTrust::anybody(),
            Some(file) => ServerTrust::from_file(file)?,
            None => ServerTrust::system_authorities(&self.more_authorities),
        };
        let identity = match &self.identity {
            Some(files) => Some(Identity::from_files(&files.certificates, &files.key)?),
            None => None,
        };
        self.tls.client(trust, identity.as_ref())
    }
}

/// A client for images and related files.
///
/// The client has no total timeout on purpose: an image may take an hour. A request
/// that must end sooner sets its own timeout (`RequestBuilder::timeout`).
///
/// # Errors
/// If a certificate, a key or the URL of a proxy is unusable. The error names it.
pub fn image_client(options: &HttpOptions) -> Result<reqwest::Client> {
    finished(builder(options, options.tls()?, for_images())?)
}

fn builder(
    options: &HttpOptions,
    tls: rustls::ClientConfig,
    redirects: Policy,
) -> Result<reqwest::ClientBuilder> {
    let timeout = options.timeout.unwrap_or(Duration::from_secs(30));
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("landfall/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeout)
        .read_timeout(timeout)
        .redirect(redirects)
        .tls_backend_preconfigured(tls)
        // Ignore the environment variables of this process, because the settings already
        // include them.
        .no_proxy();
    if options.proxies.none_for.iter().any(|host| host == "*") {
        // reqwest applies `*` to names only, not to addresses.
        return Ok(builder);
    }
    let none_for = NoProxy::from_string(&options.proxies.none_for.join(","));
    for (url, for_tls) in [
        (&options.proxies.http, false),
        (&options.proxies.https, true),
    ] {
        let Some(url) = url else { continue };
        let proxy = match for_tls {
            false => Proxy::http(url),
            true => Proxy::https(url),
        };
        let proxy = proxy.map_err(|error| {
            Failure::other(format!(
                "proxy {}: {}",
                without_secrets(url),
                one_line(&error)
            ))
        })?;
        builder = builder.proxy(proxy.no_proxy(none_for.clone()));
    }
    Ok(builder)
}

fn finished(builder: reqwest::ClientBuilder) -> Result<reqwest::Client> {
    builder
        .build()
        .map_err(|error| Failure::other(format!("HTTP client: {}", one_line(&error))))
}
