//! The image service of one copy of the controller, and what its clients must get.

use std::io::{Cursor, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use axum::body::{Body, Bytes};
use axum::http::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use landfall_controller::Images;
use landfall_host_media::fixtures::{self, Layout};
use landfall_host_media::{BaseIso, BaseRamdisk, HostVersion};
use landfall_image_service::{
    Base, BaseFiles, Endpoints, HostStore, Limits, Listening, Metrics, Service, listen,
};
use landfall_network_plan::Document;
use serde_json::Value;

/// The public URL, which is the same for all copies, like the URL of a load balancer.
const PUBLIC_URL: &str = "http://192.0.2.1:8084";
/// In bytes: the largest answer that a test reads.
const MOST: usize = 64 << 20;

/// The images of one copy, and a client of its listener.
pub struct ServedImages {
    store: HostStore,
    listening: Listening,
    client: Client<HttpConnector, Body>,
}

/// The base ISO, which the tests make once.
#[must_use]
pub fn base_iso() -> &'static [u8] {
    static ISO: OnceLock<Vec<u8>> = OnceLock::new();
    ISO.get_or_init(|| fixtures::base_iso(Layout::default()))
}

impl ServedImages {
    /// Serves the images of a new store on a free port. The controller fills the
    /// store.
    pub(crate) fn start() -> Result<(Self, Images)> {
        let mut iso = tempfile::NamedTempFile::new()?;
        iso.write_all(base_iso())?;
        let base = Base::load(&BaseFiles {
            iso: iso.path().to_owned(),
            ramdisk: None,
            kernel: None,
        })?;
        let store = HostStore::new(base);
        let service = Service::new(store.clone(), Metrics::default(), Limits::default());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listening = listen(address, None, &service, Endpoints::Everything)?;
        let images = Images::new(store.clone(), HostVersion::default(), PUBLIC_URL.parse()?);
        let client = Client::builder(TokioExecutor::new()).build_http();
        let this = Self {
            store,
            listening,
            client,
        };
        Ok((this, images))
    }

    pub(crate) async fn stop(self) {
        // Idle connections of the client would keep the listener.
        drop(self.client);
        self.listening.stop().await;
    }

    /// The number of hosts with an image.
    #[must_use]
    pub fn count(&self) -> usize {
        self.store.len()
    }

    /// The content that a client of this URL gets from this copy. `None` if the copy
    /// does not serve the URL.
    ///
    /// # Errors
    /// If the URL is not one of the service, or the listener does not answer.
    pub async fn get(&self, url: &str) -> Result<Option<Bytes>> {
        self.request(Method::GET, url).await
    }

    /// Whether this copy serves the URL.
    ///
    /// # Errors
    /// As for [`ServedImages::get`].
    pub async fn has(&self, url: &str) -> Result<bool> {
        Ok(self.request(Method::HEAD, url).await?.is_some())
    }

    /// Whether a client of the URLs in the status gets the image of this host: the
    /// base with the network of the host, and its kernel.
    ///
    /// # Errors
    /// If the listener does not answer, a URL is not one of the service, or the expected
    /// image cannot be made.
    pub async fn are_of(&self, status: &Value, name: &str, network: &Document) -> Result<bool> {
        let url = |key: &str| status[key].as_str();
        let Some(image) = url("imageUrl") else {
            return Ok(false);
        };
        let expected = match status["format"].as_str() {
            Some("iso") => expected_iso(name, network)?,
            Some("initrd") => expected_ramdisk(name, network)?,
            _ => return Ok(false),
        };
        let kernel = match url("kernelUrl") {
            None => None,
            Some(url) => Some(self.get(url).await?),
        };
        let kernel_fits = match kernel {
            None => status["format"] == "iso",
            Some(found) => found.as_deref() == Some(kernel_of_base()?),
        };
        Ok(kernel_fits && self.get(image).await?.as_deref() == Some(expected.as_slice()))
    }

    async fn request(&self, method: Method, url: &str) -> Result<Option<Bytes>> {
        let path = url.strip_prefix(PUBLIC_URL);
        let path = path.with_context(|| format!("{url}: expected a URL below {PUBLIC_URL}"))?;
        let url = format!("http://{}{path}", self.listening.address());
        let request = Request::builder().method(method).uri(&url);
        let answer = self.client.request(request.body(Body::empty())?).await?;
        let status = answer.status();
        let body = axum::body::to_bytes(Body::new(answer.into_body()), MOST).await?;
        // 503: this copy does not know the version yet.
        ensure!(
            [200, 404, 503].contains(&status.as_u16()),
            "{url}: {status}"
        );
        Ok((status == 200).then_some(body))
    }
}

/// What the image of a host has in addition to the base: the file with the network.
/// Nothing for a host without a network.
fn version(name: &str, network: &Document) -> HostVersion {
    match network {
        Document::None => HostVersion::default(),
        network => {
            let host = landfall_host_manifests::host(Some(name.to_owned()), network.clone());
            HostVersion::default().with_host(&host)
        }
    }
}

fn expected_iso(name: &str, network: &Document) -> Result<Vec<u8>> {
    let base = base_iso();
    let iso = BaseIso::open(Cursor::new(base))?;
    let image = iso.of_host(&version(name, network), 0)?;
    image.to_vec(base).context("a part outside of the base")
}

fn expected_ramdisk(name: &str, network: &Document) -> Result<Vec<u8>> {
    let base = base_iso();
    let iso = BaseIso::open(Cursor::new(base))?;
    let ramdisk = BaseRamdisk::open(&mut Cursor::new(base), iso.ramdisk())?;
    let image = ramdisk.of_host(&[], &version(name, network), 0)?;
    image.to_vec(base).context("a part outside of the base")
}

fn kernel_of_base() -> Result<&'static [u8]> {
    let kernel = BaseIso::open(Cursor::new(base_iso()))?.kernel();
    let range = usize::try_from(kernel.start)?..usize::try_from(kernel.end)?;
    base_iso()
        .get(range)
        .context("a kernel outside of the base")
}
