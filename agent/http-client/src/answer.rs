//! Sends one request to Ironic and reads the whole answer.

use reqwest::RequestBuilder;
use reqwest::header::{DATE, HeaderMap};

use super::why::{is_about_time, is_untrusted_for_good, why};

/// The maximum size of an answer in bytes. A node's record has about 10 kB.
const ANSWER_LIMIT: usize = 4 << 20;

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The value of the header `Date`. `None` if it is missing or is not text.
    pub date: Option<String>,
    /// The body. Bytes that are not UTF-8 are replaced.
    pub body: String,
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    /// The error for the operator, without the URL.
    pub text: String,
    /// The client rejected the server because of the dates of its certificate.
    pub about_time: bool,
    /// The client rejected the server, and a retry would fail in the same way. That is
    /// so unless the certificate is not valid yet, by our clock.
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
    let status = response.status().as_u16();
    let date = date_of(response.headers());
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
        status,
        date,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// Sends the request and reads only the status and date of the answer. The body may
/// be a whole image.
///
/// # Errors
/// If there is no answer.
pub async fn status_of(request: RequestBuilder) -> Result<Answer, NoAnswer> {
    let response = request.send().await?;
    Ok(Answer {
        status: response.status().as_u16(),
        date: date_of(response.headers()),
        body: String::new(),
    })
}

fn date_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(DATE)?.to_str().ok()?.to_owned())
}
