//! Answers requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::header::RANGE;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::answer::{self, RequestContext};
use crate::connections::{Connection, Connections};
use crate::host_store::{HostStore, Wanted};
use crate::limits::Limits;
use crate::metrics::{self, Metrics};
use crate::page::{self, Links, PageSource};
use crate::page_readers::PageReaders;
use crate::public_url::PublicUrl;
use crate::reads::Reads;
use crate::request_path::{self, FileKind, Target};
use crate::resource::{self, Missing, Resource};

/// How many clients may read `/status.json` at the same time. The answer has ten
/// megabytes for 10,000 hosts, and a slow client can hold its copy forever.
const MAX_STATUS_ANSWERS: usize = 4;
/// How many pages are made at the same time. Further requests wait for some milliseconds
/// only: a page that is made no longer counts, even if its client reads it slowly.
const MAX_PAGES_IN_WORK: usize = 4;

/// What a listener answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoints {
    Everything,
    /// The hosts' files, the kernel, `/healthz` and `/readyz`.
    Images,
    /// The hosts' files under their ids only, the kernel, `/healthz` and `/readyz`. A
    /// client that does not know an id gets no host's file.
    Versions,
    /// `/`, `/status.json`, `/metrics`, `/healthz` and `/readyz`.
    Status,
}

impl Endpoints {
    /// Whether the listener has the status of the service.
    fn have_status(self) -> bool {
        matches!(self, Self::Everything | Self::Status)
    }
}

/// Everything that the answers need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Service {
    store: HostStore,
    reads: Reads,
    metrics: Metrics,
    pub(crate) connections: Arc<Connections>,
    pub(crate) limits: Limits,
    started: SystemTime,
    status_answers: Arc<Semaphore>,
    pages_in_work: Arc<Semaphore>,
    page_readers: PageReaders,
    /// The URL under which clients reach the hosts' files.
    public_url: Option<PublicUrl>,
    stopping: Arc<AtomicBool>,
}

impl Service {
    #[must_use]
    pub fn new(store: HostStore, metrics: Metrics, limits: Limits) -> Self {
        Self {
            store,
            reads: Reads::default(),
            connections: Arc::new(Connections::new(limits.connections, metrics.clone())),
            page_readers: PageReaders::new(metrics.clone()),
            metrics,
            limits,
            started: SystemTime::now(),
            status_answers: Arc::new(Semaphore::new(MAX_STATUS_ANSWERS)),
            pages_in_work: Arc::new(Semaphore::new(MAX_PAGES_IN_WORK)),
            public_url: None,
            stopping: Arc::default(),
        }
    }

    /// Sets the URL under which clients reach the hosts' files, for the links of a
    /// page that another listener serves.
    #[must_use]
    pub fn with_public_url(mut self, url: Option<PublicUrl>) -> Self {
        self.public_url = url;
        self
    }

    #[must_use]
    pub fn store(&self) -> &HostStore {
        &self.store
    }

    #[must_use]
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// From now on `/readyz` answers 503, so that a load balancer sends no more
    /// clients.
    pub fn announce_stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn router(&self, endpoints: Endpoints) -> Router {
        let state = (self.clone(), endpoints);
        Router::new().fallback(respond).with_state(state)
    }

    fn ready(&self) -> Response {
        if self.stopping.load(Ordering::Acquire) {
            answer::text(StatusCode::SERVICE_UNAVAILABLE, "the service is stopping")
        } else if self.store.is_ready() {
            answer::text(StatusCode::OK, "ready")
        } else {
            let reason = "the service does not have all hosts yet";
            answer::text(StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    }

    fn status(&self) -> Response {
        let Ok(permit) = Arc::clone(&self.status_answers).try_acquire_owned() else {
            return answer::unavailable("too many clients read the status");
        };
        let base = self.store.base();
        let status = json!({
            "started": httpdate::fmt_http_date(self.started),
            "ready": self.store.is_ready(),
            "hosts": self.store.isos(),
            "base_bytes": base.size(),
            "connections": self.metrics.connections.get(),
            "reads": self.reads.reports(),
        });
        let text = SentText {
            text: format!("{status:#}\n"),
            _place: permit,
        };
        answer::of_type(StatusCode::OK, "application/json", Bytes::from_owner(text))
    }

    /// The page for browsers.
    async fn page(
        &self,
        endpoints: Endpoints,
        connection: &Arc<Connection>,
        uri: &Uri,
    ) -> Response {
        let permit = Arc::clone(&self.pages_in_work).acquire_owned().await;
        let (service, uri) = (self.clone(), uri.clone());
        // Use another thread, because the threads of the listeners send images.
        let made = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let links = match (endpoints, &service.public_url) {
                (Endpoints::Everything, _) => Links::Here,
                (_, Some(url)) => Links::At(url),
                (_, None) => Links::Nowhere,
            };
            let source = PageSource {
                store: &service.store,
                reads: &service.reads,
                started: service.started,
                links,
            };
            page::page(&source, &uri)
        });
        match made.await {
            Ok(text) => answer::page(Bytes::from_owner(SentText {
                text,
                _place: self.page_readers.enter(connection),
            })),
            Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    fn metrics_text(&self) -> Response {
        let base = self.store.base();
        self.metrics.set_content(self.store.len(), base.size());
        match self.metrics.text() {
            Ok(text) => answer::of_type(StatusCode::OK, metrics::CONTENT_TYPE, text),
            Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}

/// A status or a page on its way to a client.
struct SentText<P> {
    text: String,
    /// Dropped when the client has taken the text. Another client can then have the
    /// place.
    _place: P,
}

impl<P> AsRef<[u8]> for SentText<P> {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

async fn respond(
    State((service, endpoints)): State<(Service, Endpoints)>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
) -> Response {
    let target = request_path::parse(request.uri().path());
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if is_read && target == Some(Target::Page) && endpoints.have_status() {
        let response = service.page(endpoints, &connection, request.uri()).await;
        service.metrics.answered("page", response.status().as_u16());
        return response;
    }
    let (response, file) = answer_to(&service, endpoints, &connection, &request, target);
    service.metrics.answered(file, response.status().as_u16());
    response
}

/// The answer, and the label of the file in the metrics.
fn answer_to(
    service: &Service,
    endpoints: Endpoints,
    connection: &Connection,
    request: &Request,
    target: Option<Target<'_>>,
) -> (Response, &'static str) {
    let method = request.method();
    if method != Method::GET && method != Method::HEAD {
        return (answer::method_not_allowed(), "other");
    }
    let context = RequestContext {
        method,
        headers: request.headers(),
        client: connection.client,
        reads: &service.reads,
        metrics: &service.metrics,
    };
    let has_images = endpoints != Endpoints::Status;
    let has_status = endpoints.have_status();
    match target {
        Some(Target::Host { id: None, .. }) if endpoints == Endpoints::Versions => {
            (answer::not_found(), "other")
        }
        Some(Target::Host { id, name, kind }) if has_images => {
            let wanted = Wanted {
                name,
                id,
                kind,
                client: connection.client,
                is_part: method == Method::GET && request.headers().contains_key(RANGE),
            };
            let found = resource::of_host(&service.store, &wanted);
            (file(found, connection, &context), kind.name())
        }
        Some(Target::Kernel { id }) if has_images => {
            let found = resource::kernel(&service.store, id);
            (file(found, connection, &context), FileKind::Kernel.name())
        }
        Some(Target::Alive) => (answer::text(StatusCode::OK, "alive"), "health"),
        Some(Target::Ready) => (service.ready(), "health"),
        Some(Target::Metrics) if has_status => (service.metrics_text(), "metrics"),
        Some(Target::Status) if has_status => (service.status(), "status"),
        _ => (answer::not_found(), "other"),
    }
}

fn file(
    found: Result<Resource, Missing>,
    connection: &Connection,
    context: &RequestContext<'_>,
) -> Response {
    match found {
        Ok(resource) => {
            connection.set_sending(&resource.memory);
            answer::of_resource(&resource, context)
        }
        Err(missing) => answer::missing(&missing),
    }
}
