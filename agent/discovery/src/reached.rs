//! An answer that the search received, and the place from which it sent the request.

use landfall_http_client::Answer;

/// The kernel's index of the NIC from which the search asks, or `None` if the
/// route decides.
pub(super) type Place = Option<u32>;

/// A server's answer, and the NIC that it came over.
#[derive(Debug)]
pub(super) struct Reached {
    /// The URL that answered.
    pub url: String,
    pub answer: Answer,
    /// The kernel's index of the NIC that was used, or `None` if the route decided.
    pub over: Option<u32>,
}

impl Reached {
    /// `, redirects to URL`, or nothing if the answer is no redirect. If the file turns out
    /// to be a login page, this is where it came from.
    pub(super) fn redirect_in_words(&self) -> String {
        match &self.answer.redirect {
            Some(redirect) => format!(", redirects to {}", redirect.to),
            None => String::new(),
        }
    }
}
