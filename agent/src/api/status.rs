//! The status pages: what this machine is doing, for people and for monitoring.
//!
//! The pages need no token, because the operator of a machine that hangs does not have
//! the token. They are read-only, and have no secrets: see `landfall_report::status`.

mod html;
mod metrics;

use std::fmt::Write as _;
use std::path::Path;

use axum::Router;
use axum::extract::Request;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use landfall_report::{events_after, last_events, status};
use landfall_sys::boot_clock::seconds_since_boot;
use landfall_sys::state_file::STATE_DIRECTORY;
use serde_json::json;

use super::answer;
use super::endpoint::{self, Endpoint, Route};
use super::page::Page;

/// How many log lines the page and `/status.json` have at most.
const LAST_LINES: usize = 30;

/// Whether the client is a browser. Clients of Ironic's API send `*/*` or
/// `application/json`.
pub(super) fn wants_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

pub(super) fn answer(page: Page) -> Response {
    let now = seconds_since_boot();
    match page {
        Page::Html => answer::page(
            "text/html; charset=utf-8",
            html::page(&status::now(), &last_events(LAST_LINES), now),
        ),
        Page::Json => {
            let mut value = serde_json::to_value(status::now()).unwrap_or_default();
            let events = last_events(LAST_LINES);
            value["time"] = json!((now * 1000.0).round() / 1000.0);
            value["events"] = events.iter().map(landfall_report::Event::json).collect();
            answer::ok(&value)
        }
        Page::Metrics => answer::page(
            "text/plain; version=0.0.4; charset=utf-8",
            metrics::text(&status::now(), &metrics::Process::this(), now),
        ),
        Page::Log => {
            let mut log = String::new();
            for event in events_after(0) {
                // Writing to a String cannot fail.
                let _ = writeln!(log, "{}", event.for_consoles());
            }
            answer::page("text/plain; charset=utf-8", log)
        }
        Page::Logs => logs_of_failure(Path::new(STATE_DIRECTORY)),
    }
}

fn logs_of_failure(state: &Path) -> Response {
    match landfall_logs::kept_for_anyone(state) {
        Some(archive) => answer::page("application/gzip", archive),
        None => answer::fault(
            StatusCode::NOT_FOUND,
            "404 Not Found: there are no logs of a fatal error; see /log.txt for the current log",
        ),
    }
}

/// The routes of an agent that serves no commands yet, or never will. Only the status
/// pages are available. For all other paths the agent returns status 503, from which a
/// conductor concludes that the agent is not ready. If a path does not allow the method,
/// the agent returns status 405.
pub fn status_router() -> Router {
    Router::new().fallback(async |request: Request| {
        match endpoint::find(request.method(), request.uri().path()) {
            Route::Endpoint(Endpoint::Root) => answer(Page::Html),
            Route::Endpoint(Endpoint::Page(page)) => answer(page),
            Route::OtherMethod(allowed) => answer::method_not_allowed(allowed),
            _ => answer::fault(
                StatusCode::SERVICE_UNAVAILABLE,
                "503 Service Unavailable: this agent serves no commands yet; see / for its status",
            ),
        }
    })
}

#[cfg(test)]
mod tests;
