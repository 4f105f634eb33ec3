//! Builds the answer to a request for a file.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE, REFERRER_POLICY, RETRY_AFTER, USER_AGENT,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use landfall_boot_params::without_secrets;
use landfall_host_media::Piece;

use crate::byte_range::{self, Selection};
use crate::conditions::{self, Conditions, Verdict, Version};
use crate::image_body::ImageBody;
use crate::metrics::Metrics;
use crate::reads::{Meter, Reads, Transfer};
use crate::resource::{Missing, Resource};

/// The maximum number of bytes of a client's `User-Agent` that are kept.
const MAX_AGENT: usize = 80;

/// What an answer depends on, in addition to the file.
pub(crate) struct RequestContext<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) client: IpAddr,
    pub(crate) reads: &'a Reads,
    pub(crate) metrics: &'a Metrics,
}

impl RequestContext<'_> {
    fn text(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The answer to GET or HEAD of a file.
pub(crate) fn of_resource(resource: &Resource, context: &RequestContext<'_>) -> Response {
    let conditions = Conditions {
        if_match: context.text(IF_MATCH),
        if_unmodified_since: context.text(IF_UNMODIFIED_SINCE),
        if_none_match: context.text(IF_NONE_MATCH),
        if_modified_since: context.text(IF_MODIFIED_SINCE),
        if_range: context.text(IF_RANGE),
    };
    let version = Version {
        etag: &resource.etag,
        last_modified: resource.last_modified,
    };
    match conditions::judge(&conditions, &version) {
        Verdict::Send => {}
        Verdict::NotModified => {
            let mut response = bare(StatusCode::NOT_MODIFIED, Body::empty());
            describe(&mut response, resource);
            // With an entity tag, Last-Modified adds nothing (RFC 9110, section
            // 15.4.5).
            response.headers_mut().remove(LAST_MODIFIED);
            return response;
        }
        Verdict::Failed => {
            return text(
                StatusCode::PRECONDITION_FAILED,
                "the file has another version",
            );
        }
    }
    let size = resource.image.size();
    let range = context.text(RANGE);
    let selection = match range.filter(|_| conditions::range_counts(&conditions, &version)) {
        Some(range) => byte_range::select(range, size),
        None => Selection::Whole,
    };
    match selection {
        Selection::Whole => {
            let pieces = resource.image.pieces().to_vec();
            let all = 0..size;
            sent(StatusCode::OK, resource, context, pieces, vec![all])
        }
        Selection::One(range) => {
            let pieces = resource.image.slice(range.clone());
            let content_range = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            let mut response = sent(
                StatusCode::PARTIAL_CONTENT,
                resource,
                context,
                pieces,
                vec![range],
            );
            set_text(&mut response, CONTENT_RANGE, &content_range);
            response
        }
        Selection::Several(ranges) => in_parts(resource, context, ranges),
        Selection::Unsatisfiable => {
            let found = format!("expected a range within {size} bytes");
            let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, &found);
            set_text(&mut response, CONTENT_RANGE, &format!("bytes */{size}"));
            response
        }
    }
}

/// An answer of several parts (RFC 9110, section 14.6).
fn in_parts(
    resource: &Resource,
    context: &RequestContext<'_>,
    ranges: Vec<std::ops::Range<u64>>,
) -> Response {
    // The boundary must not occur in the content. The ETag is made from a digest of all
    // inputs of the content, and from the kind of the file. So the content cannot contain
    // the ETag.
    let boundary = resource.etag.trim_matches('"');
    let size = resource.image.size();
    let content_type = resource.kind.content_type();
    let mut pieces = Vec::new();
    for range in &ranges {
        let line_end = if pieces.is_empty() { "" } else { "\r\n" };
        let (first, last) = (range.start, range.end - 1);
        let head = format!(
            "{line_end}--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: bytes {first}-{last}/{size}\r\n\r\n"
        );
        pieces.push(Piece::Own(head.into()));
        pieces.extend(resource.image.slice(range.clone()));
    }
    pieces.push(Piece::Own(format!("\r\n--{boundary}--\r\n").into()));
    let mut response = sent(
        StatusCode::PARTIAL_CONTENT,
        resource,
        context,
        pieces,
        ranges,
    );
    let multipart = format!("multipart/byteranges; boundary={boundary}");
    set_text(&mut response, CONTENT_TYPE, &multipart);
    response
}

fn sent(
    status: StatusCode,
    resource: &Resource,
    context: &RequestContext<'_>,
    pieces: Vec<Piece>,
    ranges: Vec<std::ops::Range<u64>>,
) -> Response {
    let transfer = Transfer {
        host: resource.host.clone(),
        kind: resource.kind,
        etag: resource.etag.clone(),
        size: resource.image.size(),
        client: context.client,
        agent: agent(context),
        ranges,
    };
    let len: u64 = pieces.iter().map(Piece::len).sum();
    let body = if context.method == Method::HEAD {
        ImageBody::empty()
    } else {
        let bytes = context.metrics.bytes_of(resource.kind.name());
        let meter = Meter::new(context.reads, transfer, bytes);
        let image = Arc::clone(&resource.image);
        ImageBody::new(pieces, image, resource.memory.bytes.clone(), meter)
    };
    let mut response = bare(status, Body::new(body));
    describe(&mut response, resource);
    let headers = response.headers_mut();
    // Set explicitly, because the answer to HEAD has no body of this length.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    let content_type = HeaderValue::from_static(resource.kind.content_type());
    headers.insert(CONTENT_TYPE, content_type);
    let name = resource.file_name();
    set_text(
        &mut response,
        CONTENT_DISPOSITION,
        &format!("attachment; filename=\"{name}\""),
    );
    response
}

fn agent(context: &RequestContext<'_>) -> String {
    let agent = context.text(USER_AGENT).unwrap_or_default();
    let agent = without_secrets(agent);
    agent[..agent.floor_char_boundary(MAX_AGENT)].to_owned()
}

/// Sets the headers that describe the file, whatever the status.
fn describe(response: &mut Response, resource: &Resource) {
    set_text(response, ETAG, &resource.etag);
    let caching = match resource.last_modified {
        Some(date) => {
            set_text(response, LAST_MODIFIED, &httpdate::fmt_http_date(date));
            "public, max-age=31536000, immutable"
        }
        // Without this header, Ironic's conductor would cache an old version.
        None => "no-store",
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
}

pub(crate) fn missing(missing: &Missing) -> Response {
    match missing {
        Missing::Unknown => not_found(),
        Missing::NotHere => unavailable(
            "this copy of the service does not have this version: it was replaced, or has not arrived yet",
        ),
        Missing::NoScript(reason) => text(StatusCode::NOT_FOUND, reason),
        Missing::Broken(reason) => text(StatusCode::INTERNAL_SERVER_ERROR, reason),
    }
}

/// An answer with status 503 that asks the client to try again after 2 s.
pub(crate) fn unavailable(reason: &str) -> Response {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    set_text(&mut response, RETRY_AFTER, "2");
    response
}

pub(crate) fn not_found() -> Response {
    text(
        StatusCode::NOT_FOUND,
        "expected /NAME.iso, /NAME.initramfs or /NAME.ipxe of a known host, or /vmlinuz",
    )
}

pub(crate) fn method_not_allowed() -> Response {
    let mut response = text(
        StatusCode::METHOD_NOT_ALLOWED,
        "expected the method GET or HEAD",
    );
    set_text(&mut response, ALLOW, "GET, HEAD");
    response
}

/// An answer of one line.
pub(crate) fn text(status: StatusCode, line: &str) -> Response {
    of_type(status, "text/plain; charset=utf-8", format!("{line}\n"))
}

pub(crate) fn of_type(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    let mut response = bare(status, body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The page for browsers.
pub(crate) fn page(body: Bytes) -> Response {
    let mut response = of_type(StatusCode::OK, "text/html; charset=utf-8", body);
    for (header, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            CONTENT_SECURITY_POLICY,
            landfall_status_page::CONTENT_SECURITY_POLICY,
        ),
    ] {
        let headers = response.headers_mut();
        headers.insert(header, HeaderValue::from_static(value));
    }
    response
}

fn bare(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// Sets a header to a text that this program made of names and numbers, so it is
/// valid in a header.
fn set_text(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
