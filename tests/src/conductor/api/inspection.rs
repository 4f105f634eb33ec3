//! `POST /v1/continue_inspection`: the host's inventory.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::super::{Shared, node};
use super::version::{self, ApiVersion};
use super::{check_headers, refuse};

pub(super) async fn continue_inspection(
    State(shared): State<Arc<Shared>>,
    Extension(version): Extension<ApiVersion>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    check_headers(&shared, "inspection", &headers);
    let response = take(&shared, version::is_named(&headers), version, &body);
    shared.note(format!(
        "continue_inspection {}, {} bytes",
        response.status().as_u16(),
        body.len()
    ));
    response
}

fn take(shared: &Shared, explicit: bool, version: ApiVersion, body: &[u8]) -> Response {
    // If the request names a version, it must be new enough. ironic-python-agent
    // names none.
    if explicit && version < ApiVersion(84) {
        return refuse(
            StatusCode::NOT_FOUND,
            "API version 1.84 or newer is required",
        );
    }
    let Ok(data) = serde_json::from_slice::<Value>(body) else {
        return refuse(StatusCode::BAD_REQUEST, "Invalid JSON in the request body");
    };
    let interfaces = data["inventory"]["interfaces"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if interfaces.is_empty() {
        return refuse(
            StatusCode::BAD_REQUEST,
            "Schema error for data: [] should be non-empty",
        );
    }
    let known = interfaces
        .iter()
        .filter_map(|interface| interface["mac_address"].as_str())
        .any(|address| shared.script.macs.iter().any(|mac| mac == address));
    if !known {
        return refuse(StatusCode::NOT_FOUND, "Resource could not be found.");
    }
    if !data["error"].is_null() {
        shared.complain(format!("inspection data carry the error {}", data["error"]));
    }
    shared.memory().inventory = Some(data);
    (StatusCode::ACCEPTED, Json(json!({"uuid": node::UUID}))).into_response()
}
