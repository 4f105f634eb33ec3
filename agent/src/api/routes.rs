//! Paths, status codes and the token, as the conductor and the original have
//! them: every path with and without `/v1`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::body::{Body, to_bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, HOST, LOCATION, SERVER};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::any;
use axum::{Router, middleware};
use serde_json::{Value, json};

use super::documents;
use crate::commands::{Dispatcher, Refusal};

/// The largest body. Ironic sends a config drive twice in base64, in the step's
/// arguments and inside `image_info`: this is room for one of 20 MiB (most have
/// some kilobytes) and still fits, parsed and kept, a host with 512 MiB.
const BODY_LIMIT: usize = 56 << 20;

/// What the routes need.
#[derive(Clone)]
pub struct Api {
    /// Takes the commands.
    pub dispatcher: Dispatcher,
    /// The only secret: who has it may command.
    pub token: Arc<str>,
    /// `http` or `https`, for links.
    pub scheme: &'static str,
    /// When the agent started.
    pub started: SystemTime,
    /// Refused requests; a scanner must not fill the console.
    pub refused: Arc<Refused>,
}

/// Counts requests without the token and reports them once a minute.
#[derive(Default)]
pub struct Refused(Mutex<(u64, Option<Instant>)>);

impl Refused {
    const PAUSE: Duration = Duration::from_secs(60);

    fn report(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, last) = &mut *state;
        *count += 1;
        if last.is_none_or(|last| last.elapsed() >= Self::PAUSE) {
            tracing::warn!("{count} requests with a missing or wrong token refused so far");
            *last = Some(Instant::now());
        }
    }
}

/// The routes of the API.
pub fn router(api: Api) -> Router {
    let routes = Router::new()
        .route("/status", any(status))
        .route("/status/", any(status))
        .route("/commands/", any(commands))
        .route("/commands/{id}", any(command))
        .route("/commands/{id}/", any(command));
    Router::new()
        .route("/", any(root))
        .route("/v1/", any(version_1))
        .route("/v1", any(add_slash))
        .route("/commands", any(add_slash))
        .route("/v1/commands", any(add_slash))
        .nest("/v1", routes.clone())
        .merge(routes)
        .fallback(|| async { fault(StatusCode::NOT_FOUND, "404 Not Found: no such path") })
        .layer(middleware::map_response(with_server_name))
        .with_state(api)
}

async fn with_server_name(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(SERVER, HeaderValue::from_static("ironic-python-agent"));
    response
}

async fn root(State(api): State<Api>, method: Method, headers: HeaderMap) -> Response {
    only_get(&method).unwrap_or_else(|| answer(&documents::root(&base(&api, &headers))))
}

async fn version_1(State(api): State<Api>, method: Method, headers: HeaderMap) -> Response {
    only_get(&method).unwrap_or_else(|| answer(&documents::version_1(&base(&api, &headers))))
}

async fn status(State(api): State<Api>, method: Method) -> Response {
    only_get(&method).unwrap_or_else(|| {
        let started = api
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |age| age.as_secs_f64());
        answer(&json!({"started_at": started, "version": env!("CARGO_PKG_VERSION")}))
    })
}

async fn add_slash(uri: Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}"));
    let location = format!("{}/{}", uri.path(), query.unwrap_or_default());
    let mut response = respond(StatusCode::PERMANENT_REDIRECT, Body::empty());
    // A path that reached this route is a valid header value.
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

async fn commands(State(api): State<Api>, RawQuery(query): RawQuery, request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::POST {
        return method_not_allowed("GET, POST");
    }
    // Before the body is read: who has no token gets no memory either.
    if let Some(refusal) = unless_authorised(&api, query.as_deref()) {
        return refusal;
    }
    if request.method() == Method::GET {
        return answer(&api.dispatcher.ledger().list());
    }
    let Ok(body) = to_bytes(request.into_body(), BODY_LIMIT).await else {
        return fault(
            StatusCode::PAYLOAD_TOO_LARGE,
            "413 Request Entity Too Large: body is cut off or larger than 56 MiB",
        );
    };
    match api
        .dispatcher
        .submit(body.into(), wants_to_wait(query.as_deref()))
        .await
    {
        Ok(entry) => answer(&entry),
        Err(Refusal { status, text }) => fault(
            StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST),
            &text,
        ),
    }
}

async fn command(
    State(api): State<Api>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    method: Method,
) -> Response {
    if let Some(refusal) = only_get(&method) {
        return refusal;
    }
    if let Some(refusal) = unless_authorised(&api, query.as_deref()) {
        return refusal;
    }
    let ledger = api.dispatcher.ledger();
    let entry = if wants_to_wait(query.as_deref()) {
        ledger.ended(&id).await
    } else {
        ledger.get(&id)
    };
    match entry {
        Some(entry) => answer(&entry),
        None => fault(
            StatusCode::NOT_FOUND,
            &format!("Requested object not found: Command with id {id} not found."),
        ),
    }
}

fn unless_authorised(api: &Api, query: Option<&str>) -> Option<Response> {
    let given = parameter(query, "agent_token").unwrap_or_default();
    if same(given.as_bytes(), api.token.as_bytes()) {
        return None;
    }
    api.refused.report();
    Some(fault(
        StatusCode::UNAUTHORIZED,
        "401 Unauthorized: Token invalid.",
    ))
}

/// Compares without telling by its duration where the first difference is.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differences = given
        .iter()
        .zip(token)
        .fold(0u8, |seen, (a, b)| seen | (a ^ b));
    given.len() == token.len() && !token.is_empty() && std::hint::black_box(differences) == 0
}

fn wants_to_wait(query: Option<&str>) -> bool {
    parameter(query, "wait").is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// The last value of a query parameter, percent-decoded.
fn parameter(query: Option<&str>, key: &str) -> Option<String> {
    query?
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .filter(|(name, _)| *name == key)
        .map(|(_, value)| {
            percent_encoding::percent_decode_str(value)
                .decode_utf8_lossy()
                .into_owned()
        })
        .next_back()
}

fn only_get(method: &Method) -> Option<Response> {
    (method != Method::GET && method != Method::HEAD).then(|| method_not_allowed("GET"))
}

fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = fault(
        StatusCode::METHOD_NOT_ALLOWED,
        "405 Method Not Allowed: The method is not allowed for the requested URL.",
    );
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn base(api: &Api, headers: &HeaderMap) -> String {
    let host = headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or("localhost");
    format!("{}://{host}", api.scheme)
}

fn fault(status: StatusCode, text: &str) -> Response {
    let code = if status.is_server_error() {
        "Server"
    } else {
        "Client"
    };
    json_response(status, &json!({"faultcode": code, "faultstring": text}))
}

fn answer(value: &Value) -> Response {
    json_response(StatusCode::OK, value)
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut response = respond(status, Body::from(value.to_string()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn respond(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests;
