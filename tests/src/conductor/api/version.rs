//! Ironic's API versions: a header on every request and every response.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

/// The minor version of a request. The major version is always 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApiVersion(pub(super) u32);

pub(super) const MINIMUM: ApiVersion = ApiVersion(1);
pub(super) const MAXIMUM: ApiVersion = ApiVersion(115);

const HEADER: &str = "x-openstack-ironic-api-version";

/// Whether the request names a version.
pub(super) fn is_named(headers: &HeaderMap) -> bool {
    headers.contains_key(HEADER)
}

/// Passes the version to the handler, and adds the version headers to the response.
pub(super) async fn negotiate(mut request: Request, next: Next) -> Response {
    let asked = request
        .headers()
        .get(HEADER)
        .map(|value| value.to_str().unwrap_or_default().to_owned());
    let (version, mut response) = match parse(asked.as_deref()) {
        Some(version) => {
            request.extensions_mut().insert(version);
            (version, next.run(request).await)
        }
        None => (
            MINIMUM,
            not_acceptable(asked.as_deref().unwrap_or_default()),
        ),
    };
    let id = format!("req-{}", uuid::Uuid::new_v4());
    for (name, value) in [
        (
            "x-openstack-ironic-api-minimum-version",
            format!("1.{}", MINIMUM.0),
        ),
        (
            "x-openstack-ironic-api-maximum-version",
            format!("1.{}", MAXIMUM.0),
        ),
        (HEADER, format!("1.{}", version.0)),
        ("x-openstack-request-id", id.clone()),
        ("openstack-request-id", id),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A request without the header uses version 1.1.
fn parse(text: Option<&str>) -> Option<ApiVersion> {
    let Some(text) = text else {
        return Some(MINIMUM);
    };
    let version = ApiVersion(text.strip_prefix("1.")?.parse().ok()?);
    (MINIMUM..=MAXIMUM).contains(&version).then_some(version)
}

fn not_acceptable(asked: &str) -> Response {
    let description = format!(
        "Version {asked} was requested but the minor version is not supported by this service. \
         The supported version range is: [1.{}, 1.{}].",
        MINIMUM.0, MAXIMUM.0
    );
    let fault = json!({"code": 406, "title": "Not Acceptable", "description": description});
    let body = Json(json!({"error_message": fault.to_string()}));
    (StatusCode::NOT_ACCEPTABLE, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_versions_are_served() {
        for (text, want) in [
            (None, Some(1)),
            (Some("1.68"), Some(68)),
            (Some("1.115"), Some(115)),
            (Some("1.116"), None),
            (Some("1.0"), None),
            (Some("2.1"), None),
            (Some("latest"), None),
        ] {
            assert_eq!(parse(text), want.map(ApiVersion), "{text:?}");
        }
    }
}
