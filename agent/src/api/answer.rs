//! Builds HTTP responses, with the same server name and the same JSON errors as in
//! Ironic's agent.

use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, SERVER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

/// The response with status 200.
pub(super) fn ok(value: &Value) -> Response {
    with_json(StatusCode::OK, value)
}

/// An error response. `faultcode` says whether the client or the server caused the error.
pub(super) fn fault(status: StatusCode, text: &str) -> Response {
    let code = if status.is_server_error() {
        "Server"
    } else {
        "Client"
    };
    with_json(status, &json!({"faultcode": code, "faultstring": text}))
}

pub(super) fn no_such_path() -> Response {
    fault(
        StatusCode::NOT_FOUND,
        "404 Not Found: The requested URL was not found on the server.",
    )
}

pub(super) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = fault(
        StatusCode::METHOD_NOT_ALLOWED,
        "405 Method Not Allowed: The method is not allowed for the requested URL.",
    );
    set(&mut response, ALLOW, HeaderValue::from_static(allowed));
    response
}

/// A permanent redirect, which the client follows with the same method.
pub(super) fn moved(location: &str) -> Response {
    let mut response = with_status(StatusCode::PERMANENT_REDIRECT, Body::empty());
    // This cannot fail, because the location consists of a header and a path that were
    // valid in the request.
    if let Ok(location) = HeaderValue::from_str(location) {
        set(&mut response, LOCATION, location);
    }
    response
}

fn with_json(status: StatusCode, value: &Value) -> Response {
    let mut response = with_status(status, Body::from(value.to_string()));
    let json = HeaderValue::from_static("application/json");
    set(&mut response, CONTENT_TYPE, json);
    response
}

/// A response with a page that is not JSON. The page must not load anything, and no
/// other page may embed it.
pub(super) fn page(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = with_status(StatusCode::OK, body.into());
    for (header, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            CONTENT_SECURITY_POLICY,
            landfall_status_page::CONTENT_SECURITY_POLICY,
        ),
    ] {
        set(&mut response, header, HeaderValue::from_static(value));
    }
    response
}

fn with_status(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let name = HeaderValue::from_static("ironic-python-agent");
    set(&mut response, SERVER, name);
    response
}

fn set(response: &mut Response, header: HeaderName, value: HeaderValue) {
    response.headers_mut().insert(header, value);
}
