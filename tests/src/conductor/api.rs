//! The requests that the agent sends: version, lookup, heartbeat, inspection data.

mod heartbeat;
mod inspection;
mod lookup;
mod version;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::{PORT, Shared};
use crate::lab::HOST_V4;
use version::{MAXIMUM, MINIMUM};

/// In bytes: the size limit of a body. The limit is high because inspection data
/// contain logs. The limit of Ironic for inspection data is lower by default
/// (`[api]max_json_body_size_inspection`, 16 MiB).
const MAX_BODY: usize = 64 * 1024 * 1024;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/v1", get(v1))
        .route("/v1/", get(v1))
        .route("/v1/lookup", get(lookup::lookup))
        .route("/v1/heartbeat/{node}", post(heartbeat::heartbeat))
        .route(
            "/v1/continue_inspection",
            post(inspection::continue_inspection),
        )
        .layer(middleware::from_fn(version::negotiate))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(shared)
}

/// An error as Ironic sends it: JSON text inside JSON.
fn refuse(status: StatusCode, text: &str) -> Response {
    let fault = json!({"faultcode": "Client", "faultstring": text, "debuginfo": null});
    (status, Json(json!({"error_message": fault.to_string()}))).into_response()
}

/// Records a complaint about missing headers. ironic-python-agent always sends
/// both, although Ironic does not require them.
fn check_headers(shared: &Shared, what: &str, headers: &HeaderMap) {
    for name in ["content-type", "accept"] {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        if value != Some("application/json") {
            shared.complain(format!(
                "{what}: {name} is {value:?}, expected application/json"
            ));
        }
    }
}

fn version_document() -> Value {
    json!({
        "id": "v1",
        "links": [{"href": format!("http://{HOST_V4}:{PORT}/v1/"), "rel": "self"}],
        "status": "CURRENT",
        "min_version": format!("1.{}", MINIMUM.0),
        "version": format!("1.{}", MAXIMUM.0),
    })
}

async fn root(State(shared): State<Arc<Shared>>) -> Response {
    shared.note("GET / 200");
    Json(json!({
        "name": "OpenStack Ironic API",
        "description": "The API of a scripted conductor",
        "default_version": version_document(),
        "versions": [version_document()],
    }))
    .into_response()
}

async fn v1(State(shared): State<Arc<Shared>>) -> Response {
    shared.note("GET /v1 200");
    Json(version_document()).into_response()
}
