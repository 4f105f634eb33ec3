//! The client for Ironic: no redirects, but link-local addresses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use landfall_report::failure::Result;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder};

use super::{HttpOptions, ZonedUrl, builder, finished};

/// A client for Ironic. It follows no redirects, because a heartbeat contains the agent
/// token: a redirect could send the token to any host.
///
/// Clones share the same client.
#[derive(Debug, Clone)]
pub struct ServiceClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: HttpOptions,
    tls: rustls::ClientConfig,
    anywhere: Client,
    /// Clients whose sockets are bound to an interface, by its name.
    bound: Mutex<BTreeMap<String, Client>>,
}

impl ServiceClient {
    /// # Errors
    /// If a certificate, a key or the URL of a proxy is unusable. The error names it.
    pub fn new(options: &HttpOptions) -> Result<Self> {
        let tls = options.tls()?;
        let anywhere = finished(builder(options, tls.clone(), Policy::none())?)?;
        Ok(Self(Arc::new(Inner {
            options: options.clone(),
            tls,
            anywhere,
            bound: Mutex::default(),
        })))
    }

    /// The same client, but it trusts every server.
    ///
    /// # Errors
    /// If the client's own certificate or key cannot be read any more.
    pub fn trusting_anybody(&self) -> Result<Self> {
        Self::new(&self.0.options.trusting_anybody())
    }

    /// A request to this URL, which may have a zone.
    ///
    /// # Errors
    /// If the TLS library rejects a configuration that it accepted before.
    pub fn request(&self, method: Method, url: &str) -> Result<RequestBuilder> {
        self.request_over(None, method, url)
    }

    /// A request through this interface, regardless of the routes. The zone of a URL
    /// takes precedence over `interface`.
    ///
    /// # Errors
    /// As for [`ServiceClient::request`].
    pub fn request_over(
        &self,
        interface: Option<&str>,
        method: Method,
        url: &str,
    ) -> Result<RequestBuilder> {
        let ZonedUrl {
            url,
            interface: zone,
        } = ZonedUrl::parse(url);
        let client = match zone.as_deref().or(interface) {
            Some(name) => self.bound_to(name)?,
            None => self.0.anywhere.clone(),
        };
        Ok(client.request(method, url))
    }

    /// Whether requests with this URL scheme may go through a proxy.
    pub fn has_proxy_for(&self, scheme: &str) -> bool {
        let proxies = &self.0.options.proxies;
        match scheme {
            "https" => proxies.https.is_some(),
            _ => proxies.http.is_some(),
        }
    }

    fn bound_to(&self, interface: &str) -> Result<Client> {
        let mut bound = self.0.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = bound.get(interface) {
            return Ok(client.clone());
        }
        let inner = &self.0;
        let made = builder(&inner.options, inner.tls.clone(), Policy::none())?;
        let client = finished(made.interface(interface))?;
        bound.insert(interface.to_owned(), client.clone());
        Ok(client)
    }
}
