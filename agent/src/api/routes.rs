//! Answers requests. It checks the path first, then the method, the token and the
//! body.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use landfall_ironic::AGENT_VERSION;
use serde_json::{Value, json};

use super::body::{self, Unreadable};
use super::endpoint::{self, Endpoint, Route};
use super::page::Page;
use super::places::Caller;
use super::{answer, documents, query, status};
use crate::commands::{Dispatcher, Refusal};

/// Everything that the routes need.
#[derive(Clone)]
pub struct Api {
    /// Runs the commands.
    pub dispatcher: Dispatcher,
    /// The token that a client must send. It is the only secret of the API.
    pub token: Arc<str>,
    /// `http` or `https`, for links.
    pub scheme: &'static str,
    /// The start time of the agent.
    pub started: SystemTime,
    /// Whether to serve the status page and its data.
    pub status: bool,
    /// Counts rejected requests. A port scanner must not fill the console.
    pub refused: Arc<Refused>,
}

/// Counts requests without a valid token and logs their number at most once a
/// minute.
#[derive(Default)]
pub struct Refused(Mutex<(u64, Option<Instant>)>);

impl Refused {
    const PAUSE: Duration = Duration::from_secs(60);

    fn report(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, last) = &mut *state;
        *count += 1;
        if last.is_none_or(|last| last.elapsed() >= Self::PAUSE) {
            tracing::warn!("requests refused so far because of a missing or wrong token: {count}");
            *last = Some(Instant::now());
        }
    }
}

pub fn router(api: Api) -> Router {
    Router::new().fallback(respond).with_state(api)
}

async fn respond(State(api): State<Api>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let endpoint = match endpoint::find(&head.method, head.uri.path()) {
        Route::Endpoint(endpoint) => endpoint,
        Route::WithSlash => return answer::moved(&with_slash(&base(&api, &head), &head.uri)),
        Route::OtherMethod(allowed) => return answer::method_not_allowed(allowed),
        Route::Nothing => return answer::no_such_path(),
    };
    match endpoint {
        Endpoint::Root if api.status && status::wants_html(&head.headers) => {
            return status::answer(Page::Html);
        }
        Endpoint::Page(_) if !api.status => return answer::no_such_path(),
        Endpoint::Page(page) => return status::answer(page),
        Endpoint::Root => return answer::ok(&documents::root(&base(&api, &head))),
        Endpoint::Version1 => return answer::ok(&documents::version_1(&base(&api, &head))),
        Endpoint::Status => return answer::ok(&agent_status(&api)),
        Endpoint::Commands | Endpoint::Command(_) => {}
    }
    let query = head.uri.query();
    // Check the token before the body is read: a client without the token must not use
    // memory.
    if !query::has_token(query, &api.token) {
        api.refused.report();
        return answer::fault(StatusCode::UNAUTHORIZED, "401 Unauthorized: Token invalid.");
    }
    if let Some(caller) = head.extensions.get::<Caller>() {
        caller.has_shown_token();
    }
    let wait = query::wants_to_wait(query);
    match endpoint {
        Endpoint::Command(id) => one_command(&api, &id, wait).await,
        _ if head.method == Method::POST => new_command(&api, body, wait).await,
        _ => answer::ok(&api.dispatcher.ledger().list()),
    }
}

fn agent_status(api: &Api) -> Value {
    let started = api
        .started
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |age| age.as_secs_f64());
    json!({"started_at": started, "version": AGENT_VERSION})
}

async fn one_command(api: &Api, id: &str, wait: bool) -> Response {
    let ledger = api.dispatcher.ledger();
    let entry = if wait {
        ledger.ended(id).await
    } else {
        ledger.get(id)
    };
    match entry {
        Some(entry) => answer::ok(&entry),
        None => answer::fault(
            StatusCode::NOT_FOUND,
            &format!("Not found: Command Result with id {id} not found."),
        ),
    }
}

async fn new_command(api: &Api, body: Body, wait: bool) -> Response {
    let body = match body::read(body).await {
        Ok(body) => body,
        Err(unreadable) => return refuse_body(&unreadable),
    };
    match api.dispatcher.submit(body, wait).await {
        Ok(entry) => answer::ok(&entry),
        Err(Refusal { status, text }) => answer::fault(
            StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST),
            &text,
        ),
    }
}

fn refuse_body(unreadable: &Unreadable) -> Response {
    match unreadable {
        Unreadable::TooLarge => answer::fault(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!(
                "413 Request Entity Too Large: the body is larger than {} MiB",
                body::LIMIT >> 20
            ),
        ),
        Unreadable::TooSlow => answer::fault(
            StatusCode::REQUEST_TIMEOUT,
            "408 Request Timeout: the body stopped in the middle",
        ),
        Unreadable::Broken => answer::fault(
            StatusCode::BAD_REQUEST,
            "400 Bad Request: the body is cut off",
        ),
    }
}

/// The base URL for links. It uses the address with which the client reached the
/// agent, because the agent may not know an address that works for the client.
fn base(api: &Api, head: &Parts) -> String {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    format!("{}://{}", api.scheme, host.unwrap_or("localhost"))
}

fn with_slash(base: &str, uri: &Uri) -> String {
    let query = uri.query().map(|query| format!("?{query}"));
    format!("{base}{}/{}", uri.path(), query.unwrap_or_default())
}

#[cfg(test)]
mod tests;
