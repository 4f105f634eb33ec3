//! Answers the requests of the kubelet and of Prometheus: `/healthz`, `/readyz` and
//! `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The state of this copy.
#[derive(Debug)]
pub(crate) struct Health {
    is_ready: AtomicBool,
    runs: Counter,
    failed_runs: Counter,
    status_writes: Counter,
    published: Gauge,
    is_leader: Gauge,
    ready: Gauge,
    registry: Registry,
}

impl Health {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("landfall_controller");
        let runs = Counter::<u64, AtomicU64>::default();
        let failed_runs = Counter::<u64, AtomicU64>::default();
        let status_writes = Counter::<u64, AtomicU64>::default();
        let published = Gauge::default();
        let is_leader = Gauge::default();
        let ready = Gauge::default();
        registry.register("runs", "Runs for one PreprovisioningImage", runs.clone());
        registry.register("failed_runs", "Runs that are repeated", failed_runs.clone());
        registry.register("status_writes", "Written statuses", status_writes.clone());
        registry.register("published_images", "Hosts with an image", published.clone());
        registry.register(
            "leader",
            "1 if this copy holds the lease",
            is_leader.clone(),
        );
        registry.register(
            "ready",
            "1 after the first list of resources",
            ready.clone(),
        );
        Self {
            is_ready: AtomicBool::new(false),
            runs,
            failed_runs,
            status_writes,
            published,
            is_leader,
            ready,
            registry,
        }
    }

    /// Call this when every resource of the first list has had a run. Then every image is
    /// published, except where the run failed or refused the image.
    pub(crate) fn ready(&self) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            tracing::info!("ready: all images are published");
            self.ready.set(1);
        }
    }

    pub(crate) fn run(&self, succeeded: bool) {
        self.runs.inc();
        if !succeeded {
            self.failed_runs.inc();
        }
    }

    pub(crate) fn status_written(&self) {
        self.status_writes.inc();
    }

    pub(crate) fn published(&self, count: usize) {
        self.published.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn leader(&self, is_leader: bool) {
        self.is_leader.set(i64::from(is_leader));
    }
}

/// The HTTP service. It needs no API server, so a copy stays alive and ready while the
/// API server is not available: clients can still fetch its images.
pub(crate) fn router(health: Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(health)
}

async fn readyz(State(health): State<Arc<Health>>) -> (StatusCode, &'static str) {
    if health.is_ready.load(Ordering::Relaxed) {
        (StatusCode::OK, "ok\n")
    } else {
        let why =
            "not ready: the images of the existing PreprovisioningImages are not published yet\n";
        (StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

async fn metrics(State(health): State<Arc<Health>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &health.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
