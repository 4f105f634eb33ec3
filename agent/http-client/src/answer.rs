//! Sends one request and reads the answer, or only as much of the answer as is needed.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap};
use reqwest::{RequestBuilder, Response};
use tokio::time::timeout;

use super::redirect::Redirect;
use super::why::{is_about_time, is_untrusted_for_good, why};

/// The maximum size of an answer in bytes. A node's record has about 10 kB.
const ANSWER_LIMIT: usize = 4 << 20;
/// The maximum number of bytes of an error answer that are read to find the reason.
const REASON_LIMIT: usize = 16 << 10;
/// How long to wait for the body of an error answer. A server usually sends this body
/// together with the status. Without this limit, a body that arrives byte by byte could
/// delay the end of the attempt until the request times out.
const REASON_TIME: Duration = Duration::from_secs(2);

/// The answers of web servers to plain HTTP on a TLS port: Apache, nginx, and servers in
/// Go.
const WANTS_TLS: [&str; 3] = [
    "plain HTTP to an SSL-enabled server port",
    "The plain HTTP request was sent to HTTPS port",
    "Client sent an HTTP request to an HTTPS server",
];

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The value of the header `Date`. `None` if it is missing or is not text.
    pub date: Option<String>,
    /// Where the answer redirects to. `None` if it does not.
    pub redirect: Option<Redirect>,
    /// Whether the URL that answered begins with `http://`.
    pub is_plain_http: bool,
    /// The body. Bytes that are not UTF-8 are replaced.
    pub body: String,
}

impl Answer {
    /// Whether the server speaks https on this port, and the request was plain HTTP.
    pub fn wants_tls(&self) -> bool {
        // If the URL begins with `https://`, the URL is correct: a proxy that
        // terminates TLS may forward the request as plain HTTP to a TLS port.
        self.is_plain_http
            && self.status == 400
            && WANTS_TLS.iter().any(|text| self.body.contains(text))
    }

    /// The answer without its body.
    fn head_of(response: &Response) -> Self {
        Self {
            status: response.status().as_u16(),
            date: date_of(response.headers()),
            redirect: Redirect::of(response),
            is_plain_http: response.url().scheme() == "http",
            body: String::new(),
        }
    }
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    /// The error for the operator, without the URL.
    pub text: String,
    /// The client rejected the server because of the dates of its certificate.
    pub about_time: bool,
    /// The client rejected the server, and a retry would fail in the same way. False if
    /// the certificate is not valid yet according to our clock.
    pub untrusted_for_good: bool,
    /// The error occurred before the connection and its TLS session were
    /// established.
    pub in_connecting: bool,
}

impl NoAnswer {
    /// An error that has nothing to do with certificates.
    pub fn because(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            about_time: false,
            untrusted_for_good: false,
            in_connecting: false,
        }
    }
}

impl From<reqwest::Error> for NoAnswer {
    fn from(error: reqwest::Error) -> Self {
        Self {
            text: why(&error),
            about_time: is_about_time(&error),
            untrusted_for_good: is_untrusted_for_good(&error),
            in_connecting: error.is_connect(),
        }
    }
}

/// Sends the request and reads the answer up to a size limit.
///
/// # Errors
/// If there is no complete answer.
pub async fn exchange(request: RequestBuilder) -> Result<Answer, NoAnswer> {
    let mut response = request.send().await?;
    let head = Answer::head_of(&response);
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > ANSWER_LIMIT {
            return Err(NoAnswer::because(format!(
                "expected an answer of at most {ANSWER_LIMIT} bytes, found more"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer {
        body: String::from_utf8_lossy(&body).into_owned(),
        ..head
    })
}

/// Sends the request and reads only the head of the answer, because the body may be a
/// whole image.
///
/// # Errors
/// If there is no answer.
pub async fn status_of(request: RequestBuilder) -> Result<Answer, NoAnswer> {
    let response = request.send().await?;
    Ok(Answer::head_of(&response))
}

/// Sends the request and reads the status and date of the answer. If the status is 400,
/// this function also reads the beginning of the body, which may contain the reason. With
/// any other status the body may be a whole image.
///
/// # Errors
/// If there is no answer.
pub async fn status_and_reason_of(request: RequestBuilder) -> Result<Answer, NoAnswer> {
    let mut response = request.send().await?;
    let head = Answer::head_of(&response);
    let mut body = Vec::new();
    if head.status == 400 {
        let read = async {
            while body.len() < REASON_LIMIT {
                // If the body cannot be read, the answer still has a status.
                let Ok(Some(chunk)) = response.chunk().await else {
                    break;
                };
                body.extend_from_slice(&chunk);
            }
        };
        // After the time limit, use the bytes that have arrived.
        let _ = timeout(REASON_TIME, read).await;
    }
    body.truncate(REASON_LIMIT);
    Ok(Answer {
        body: String::from_utf8_lossy(&body).into_owned(),
        ..head
    })
}

fn date_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(DATE)?.to_str().ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::fixtures::{Asked, Certificate, Reply, Server, answer, http_client};
    use crate::{HttpOptions, image_client};

    const APACHE: &str = "<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.";
    const NGINX: &str = "<center>The plain HTTP request was sent to HTTPS port</center>";
    const GO: &str = "Client sent an HTTP request to an HTTPS server.\n";

    #[test]
    fn a_server_that_wants_tls_is_known_by_its_answer() {
        for (is_plain_http, status, body, expected) in [
            (true, 400, APACHE, true),
            (true, 400, NGINX, true),
            (true, 400, GO, true),
            (true, 400, "Bad Request", false),
            (true, 400, "", false),
            (true, 200, GO, false),
            // A proxy that ends TLS has forwarded the request.
            (false, 400, GO, false),
        ] {
            let answer = Answer {
                is_plain_http,
                ..answer(status, body)
            };
            assert_eq!(answer.wants_tls(), expected, "{status} {body}");
        }
    }

    #[tokio::test]
    async fn the_answer_knows_whether_its_url_was_plain_http() {
        // Installs the provider for TLS.
        let _ = http_client();
        let client = image_client(&HttpOptions {
            insecure: true,
            ..HttpOptions::default()
        });
        let client = client.unwrap();
        let certificate = Certificate::of([127, 0, 0, 1]);
        let answer = |_: &Asked| Reply::new(400, GO);
        for (server, expected) in [
            (Server::start(answer), true),
            (Server::secure(&certificate, answer), false),
        ] {
            let request = || client.get(&server.base);
            for answer in [
                exchange(request()).await,
                status_of(request()).await,
                status_and_reason_of(request()).await,
            ] {
                assert_eq!(answer.unwrap().is_plain_http, expected);
            }
        }
    }

    /// The answer has its status even if its body stalls or is too long.
    #[tokio::test]
    async fn the_reason_of_a_status_400_is_read_and_no_other_body() {
        let long = format!("{GO}{}", "x".repeat(2 * REASON_LIMIT));
        for (reply, expected) in [
            (Reply::new(400, NGINX), NGINX),
            (Reply::new(400, long.clone()), &long[..REASON_LIMIT]),
            (Reply::new(400, GO).cut(4), "Clie"),
            (Reply::new(400, GO).stalled(4), "Clie"),
            (Reply::new(404, GO), ""),
            (Reply::new(200, GO).stalled(0), ""),
        ] {
            let status = reply.status;
            let server = Server::scripted([reply]);
            let began = Instant::now();
            let answer = status_and_reason_of(http_client().get(&server.base)).await;
            let answer = answer.unwrap();
            assert_eq!(answer.status, status);
            assert_eq!(answer.body, expected);
            assert!(began.elapsed() < 5 * REASON_TIME);
        }
    }
}
