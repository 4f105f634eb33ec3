//! `POST /v1/heartbeat/<uuid>`: the agent reports that it runs, and its callback
//! URL.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::super::{Shared, node};
use super::version::ApiVersion;
use super::{check_headers, refuse};

pub(super) async fn heartbeat(
    State(shared): State<Arc<Shared>>,
    Extension(version): Extension<ApiVersion>,
    Path(uuid): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    check_headers(&shared, "heartbeat", &headers);
    match take(&shared, &uuid, version, &body) {
        Ok(()) => {
            shared.note("heartbeat 202");
            // If the channel is full, another heartbeat already waits, so this one is
            // not needed.
            let _ = shared.heartbeats.try_send(());
            StatusCode::ACCEPTED.into_response()
        }
        Err((status, text)) => {
            shared.note(format!("heartbeat {}: {text}", status.as_u16()));
            refuse(status, &text)
        }
    }
}

/// The members of a heartbeat. The last two belong to Ironic's anaconda interface.
const MEMBERS: [&str; 6] = [
    "callback_url",
    "agent_token",
    "agent_version",
    "agent_verify_ca",
    "agent_status",
    "agent_status_message",
];

fn take(
    shared: &Shared,
    uuid: &str,
    version: ApiVersion,
    body: &[u8],
) -> Result<(), (StatusCode, String)> {
    let bad = |text: &str| Err((StatusCode::BAD_REQUEST, text.to_owned()));
    if uuid != node::UUID {
        return Err((
            StatusCode::NOT_FOUND,
            format!("Node {uuid} could not be found."),
        ));
    }
    let Ok(Value::Object(body)) = serde_json::from_slice(body) else {
        return bad("Invalid input for heartbeat: expected a JSON object");
    };
    if let Some(other) = body.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
        return bad(&format!("Unexpected arguments: {other}"));
    }
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    // Record the message even if the heartbeat is rejected below: the message has
    // already left the host.
    if let Some(message) = text("agent_status_message") {
        let mut memory = shared.memory();
        memory.status_messages.push(message.to_owned());
    }
    if text("agent_verify_ca").is_some() && version < ApiVersion(68) {
        return bad("Field \"agent_verify_ca\" not recognised in this version");
    }
    let has_status = text("agent_status")
        .or(text("agent_status_message"))
        .is_some();
    if has_status && version < ApiVersion(72) {
        return bad("Fields \"agent_status\" and \"agent_status_message\" not recognised.");
    }
    let Some(url) = text("callback_url") else {
        return bad("Missing mandatory argument: callback_url");
    };
    if text("agent_version").is_none() {
        return bad("Missing mandatory argument: agent_version");
    }
    let Some(token) = text("agent_token") else {
        return bad("Agent token is required for heartbeat processing.");
    };
    if !url.starts_with("https://") {
        return bad(if url.starts_with("http://") {
            "TLS is required by configuration"
        } else {
            "An issue with the supplied \"callback_url\" has been detected."
        });
    }
    let mut memory = shared.memory();
    if memory.token.as_deref() != Some(token) {
        return bad("Invalid or missing agent token received.");
    }
    let url = url.trim_end_matches('/').to_owned();
    if memory
        .callback_url
        .as_ref()
        .is_some_and(|known| *known != url)
    {
        return bad("Detected change in ramdisk provided \"callback_url\"");
    }
    let ca = text("agent_verify_ca").map(str::to_owned);
    if memory.verify_ca.is_some() && memory.verify_ca != ca {
        return bad("Detected change in ramdisk provided \"agent_verify_ca\"");
    }
    memory.heartbeats += 1;
    memory.callback_url = Some(url);
    memory.verify_ca = ca;
    memory.agent_version = text("agent_version").map(str::to_owned);
    Ok(())
}
