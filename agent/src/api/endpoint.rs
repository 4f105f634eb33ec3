//! The paths of the API and their methods.
//!
//! Measured with Ironic's agent (ironic-python-agent 13.0.0). Its router has
//! three properties that a client may notice. A path without its final slash is
//! redirected, but only for a method that the full path allows. A path with an
//! extra slash does not exist. Every GET also works as a HEAD.

use std::borrow::Cow;

use axum::http::Method;
use percent_encoding::percent_decode_str;

use super::page::Page;

/// The resource that a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// `/`
    Root,
    /// `/status.json`, `/metrics`, `/log.txt` or `/logs.tar.gz`: see
    /// [`status`](super::status)
    Page(Page),
    /// `/v1/`
    Version1,
    /// `/v1/status`
    Status,
    /// `/v1/commands/`
    Commands,
    /// `/v1/commands/ID`
    Command(String),
}

/// The result of the look-up of a method and path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The path exists and allows the method.
    Endpoint(Endpoint),
    /// The same path with a final slash exists and allows the method.
    WithSlash,
    /// The path exists but does not allow the method. Holds the value of `Allow`.
    OtherMethod(&'static str),
    /// The path does not exist.
    Nothing,
}

const READ: &str = "GET, HEAD";
const READ_OR_COMMAND: &str = "GET, HEAD, POST";

/// Looks up a request. Every path below `/v1` also exists without that prefix.
pub(super) fn find(method: &Method, path: &str) -> Route {
    let path = percent_decode_str(path).decode_utf8_lossy();
    if let Some(endpoint) = endpoint(&path) {
        return if allows(&endpoint, method) {
            Route::Endpoint(endpoint)
        } else if endpoint == Endpoint::Commands {
            Route::OtherMethod(READ_OR_COMMAND)
        } else {
            Route::OtherMethod(READ)
        };
    }
    match endpoint(&Cow::from(format!("{path}/"))) {
        Some(endpoint) if allows(&endpoint, method) => Route::WithSlash,
        _ => Route::Nothing,
    }
}

fn endpoint(path: &str) -> Option<Endpoint> {
    match path {
        "/" => return Some(Endpoint::Root),
        "/v1/" => return Some(Endpoint::Version1),
        _ => {}
    }
    if let Some(page) = Page::at(path) {
        return Some(Endpoint::Page(page));
    }
    match path.strip_prefix("/v1").unwrap_or(path) {
        "/status" => Some(Endpoint::Status),
        "/commands/" => Some(Endpoint::Commands),
        other => {
            let id = other.strip_prefix("/commands/")?;
            (!id.contains('/')).then(|| Endpoint::Command(id.to_owned()))
        }
    }
}

fn allows(endpoint: &Endpoint, method: &Method) -> bool {
    method == Method::GET
        || method == Method::HEAD
        || (method == Method::POST && *endpoint == Endpoint::Commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line is `METHOD PATH STATUS [ALLOW]`, as Ironic's agent answered.
    #[test]
    fn paths_and_methods_are_the_originals() {
        let measured = include_str!("test_data/paths-and-methods.txt");
        let mut judged = 0;
        for line in measured.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            let [method, path, status, allow @ ..] = &words[..] else {
                panic!("{line}");
            };
            let found = find(&method.parse().unwrap(), path);
            let expected = match *status {
                "404" => matches!(found, Route::Nothing),
                "308" => matches!(found, Route::WithSlash),
                "405" => found == Route::OtherMethod(allow[0]),
                // All other statuses mean that the path exists in Ironic's agent, which
                // answered the request, or rejected it for lack of a token.
                _ => matches!(found, Route::Endpoint(_)),
            };
            assert!(expected, "{line}: {found:?}");
            judged += 1;
        }
        assert!(judged > 100, "{judged}");
    }

    #[test]
    fn an_id_is_decoded_and_whole() {
        let command = |id: &str| Route::Endpoint(Endpoint::Command(id.to_owned()));
        assert_eq!(find(&Method::GET, "/v1/commands/a%20b"), command("a b"));
        assert_eq!(find(&Method::GET, "/commands/%ff"), command("\u{fffd}"));
        assert_eq!(find(&Method::GET, "/v1/v1/status"), Route::Nothing);
        assert_eq!(find(&Method::GET, "*"), Route::Nothing);
    }
}
