//! The one configured HTTP client: trust, time-outs, no surprises.

mod answer;
mod service_client;
mod why;
mod zoned_url;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use landfall_boot_params::without_secrets;
use reqwest::redirect::Policy;
use reqwest::{NoProxy, Proxy};

pub use answer::{Answer, NoAnswer, exchange, status_of};
pub use service_client::ServiceClient;
pub use why::{is_untrusted, is_untrusted_for_good, why};
pub use zoned_url::ZonedUrl;

use crate::failure::{Class, Failure, Result, one_line};
use crate::tls::{Identity, ServerTrust, TlsPolicy};

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
    /// Whom to trust instead of the system's authorities (`cafile`):
    /// certificates in PEM.
    pub ca_file: Option<PathBuf>,
    /// What to show to a server that asks who we are.
    pub identity: Option<IdentityFiles>,
    /// Versions and cipher suites.
    pub tls: TlsPolicy,
    /// By whom requests go.
    pub proxies: Proxies,
    /// How long one request may be idle, and a connection may take to be made.
    pub timeout: Option<Duration>,
}

/// Proxies as OpenShift and Ironic set them; URLs, which may hold a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http://` (`HTTP_PROXY`).
    pub http: Option<String>,
    /// For `https://` (`HTTPS_PROXY`).
    pub https: Option<String>,
    /// Hosts, domains and networks that are asked without one (`NO_PROXY`).
    pub none_for: Vec<String>,
}

impl std::fmt::Debug for Proxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxies")
            .field("none_for", &self.none_for)
            .finish_non_exhaustive()
    }
}

/// The client's certificate and its key (`certfile`, `keyfile`), in PEM.
#[derive(Debug, Clone)]
pub struct IdentityFiles {
    /// The certificate, and those between it and an authority.
    pub certificates: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl IdentityFiles {
    /// The pair, if both are given.
    ///
    /// # Errors
    /// If only one of them is.
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
    Failure::new(
        Class::CommandExecutionError,
        format!(
            "{given} {}: expected {missing} beside it, found none",
            file.display()
        ),
    )
}

impl HttpOptions {
    /// The same, but every server is trusted: for questions whose answer is
    /// not trusted either.
    #[must_use]
    pub fn trusting_anybody(&self) -> Self {
        Self {
            insecure: true,
            ca_file: None,
            ..self.clone()
        }
    }

    /// # Errors
    /// Which file is not what it should be.
    fn tls(&self) -> Result<rustls::ClientConfig> {
        let trust = match &self.ca_file {
            _ if self.insecure => ServerTrust::anybody(),
            Some(file) => ServerTrust::from_file(file)?,
            None => ServerTrust::system_authorities(),
        };
        let identity = match &self.identity {
            Some(files) => Some(Identity::from_files(&files.certificates, &files.key)?),
            None => None,
        };
        self.tls.client(trust, identity.as_ref())
    }
}

/// A client for images and what belongs to them.
///
/// There is no total time-out on purpose: an image may take an hour. A request
/// that must end sooner says so itself (`RequestBuilder::timeout`).
///
/// # Errors
/// Which certificate or key cannot be used.
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
        // Not those of our environment.
        .no_proxy();
    if options.proxies.none_for.iter().any(|host| host == "*") {
        // reqwest takes it for names alone, not for addresses.
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
            Failure::new(
                Class::CommandExecutionError,
                format!("proxy {}: {}", without_secrets(url), one_line(&error)),
            )
        })?;
        builder = builder.proxy(proxy.no_proxy(none_for.clone()));
    }
    Ok(builder)
}

fn finished(builder: reqwest::ClientBuilder) -> Result<reqwest::Client> {
    builder.build().map_err(|error| {
        Failure::new(
            Class::CommandExecutionError,
            format!("HTTP client: {}", one_line(&error)),
        )
    })
}
