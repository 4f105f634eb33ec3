//! `GET /v1/lookup`: returns the agent's node and the token.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::json;

use super::super::{LookupFault, ProvisionState, Shared, TERMINAL_SEQUENCES, node};
use super::version::ApiVersion;
use super::{check_headers, refuse};

#[derive(Deserialize)]
pub(super) struct LookupQuery {
    addresses: Option<String>,
    node_uuid: Option<String>,
}

pub(super) async fn lookup(
    State(shared): State<Arc<Shared>>,
    Extension(version): Extension<ApiVersion>,
    Query(query): Query<LookupQuery>,
    headers: HeaderMap,
) -> Response {
    check_headers(&shared, "lookup", &headers);
    let response = answer(&shared, &query, version);
    shared.note(format!(
        "lookup {} of {}",
        response.status().as_u16(),
        query.addresses.as_deref().unwrap_or("no address")
    ));
    response
}

fn answer(shared: &Shared, query: &LookupQuery, version: ApiVersion) -> Response {
    let not_found = || refuse(StatusCode::NOT_FOUND, "Resource could not be found.");
    // Lookup exists since version 1.22.
    if version < ApiVersion(22) {
        return not_found();
    }
    let addresses: Vec<&str> = query
        .addresses
        .as_deref()
        .unwrap_or_default()
        .split(',')
        .filter(|address| address.split(':').count() == 6)
        .collect();
    if addresses.is_empty() && query.node_uuid.is_none() {
        return refuse(
            StatusCode::BAD_REQUEST,
            "At least one of 'addresses' and 'node_uuid' parameters is required",
        );
    }
    let known_address = addresses
        .iter()
        .any(|address| shared.script.macs.iter().any(|mac| mac == address));
    let found = match query.node_uuid.as_deref() {
        Some(uuid) => uuid == node::UUID,
        None => known_address,
    };
    let mut memory = shared.memory();
    // After the deployment Ironic excludes the node from lookups.
    if !found || *memory.state.borrow() != ProvisionState::WaitCallback {
        return not_found();
    }
    match memory.lookup_fault {
        None => {}
        Some(LookupFault::NotFound) => return not_found(),
        Some(LookupFault::Forbidden) => {
            let text = "Access was denied to the following resource: lookup";
            return refuse(StatusCode::FORBIDDEN, text);
        }
        Some(LookupFault::Locked) => {
            let text = "Node is locked by host conductor-1, please retry after the current \
                        operation is completed.";
            return refuse(StatusCode::CONFLICT, text);
        }
        Some(LookupFault::Hostile) => return refuse(StatusCode::NOT_FOUND, TERMINAL_SEQUENCES),
        Some(LookupFault::TokenSent) => memory.token = Some(new_token()),
    }
    memory.lookups += 1;
    // Show the token once. A later caller is either an intruder or an agent that
    // should have kept the token.
    let token = if memory.token.is_some() {
        node::MASKED.to_owned()
    } else {
        let token = new_token();
        memory.last_token = Some(token.clone());
        memory.token.insert(token).clone()
    };
    Json(json!({
        "node": node::looked_up(&shared.script),
        "config": node::lookup_config(&token, shared.script.heartbeat_timeout),
    }))
    .into_response()
}

/// Makes a token of 43 characters, the length of Ironic's 32 bytes in base64.
fn new_token() -> String {
    let mut token = uuid::Uuid::new_v4().simple().to_string();
    token.push_str(&uuid::Uuid::new_v4().simple().to_string());
    token.truncate(43);
    token
}
