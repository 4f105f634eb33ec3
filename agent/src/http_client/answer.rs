//! One request to Ironic and its whole answer.

use reqwest::RequestBuilder;
use reqwest::header::{DATE, HeaderMap};

use super::why::{is_about_time, is_untrusted_for_good, why};

/// The largest answer that is read; a node's record has some 10 kB.
const ANSWER_LIMIT: usize = 4 << 20;

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The header `Date`, if it is text.
    pub date: Option<String>,
    /// The body; what is not UTF-8 in it is replaced.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoAnswer {
    /// For the operator, without the URL.
    pub text: String,
    /// The server was not trusted for the dates of its certificate.
    pub about_time: bool,
    /// The server was not trusted, and by this clock it never will be: another
    /// try ends the same way.
    pub untrusted_for_good: bool,
    /// There was no connection yet, or no TLS on it.
    pub in_connecting: bool,
}

impl NoAnswer {
    /// For a reason that has nothing to do with dates.
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

/// Sends, and reads the answer up to a limit.
///
/// # Errors
/// Why there is none, or not all of it.
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

/// Sends, and reads no more than status and date of the answer, whose body may be
/// an image.
///
/// # Errors
/// Why there is none.
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
