//! An answer that the search received, and the NIC over which it sent the request.

use landfall_http_client::Answer;

/// The kernel's index of the NIC that the search sends over. `None` if the kernel's
/// routes choose the NIC.
pub(super) type Place = Option<u32>;

/// A server's answer, and the NIC that it came over.
#[derive(Debug)]
pub(super) struct Reached {
    /// The URL that answered.
    pub url: String,
    pub answer: Answer,
    /// The kernel's index of the NIC. `None` if the kernel's routes chose the NIC.
    pub over: Option<u32>,
}

impl Reached {
    /// `, redirects to URL`, or an empty text if the answer is not a redirect. If the
    /// download gets a login page, this text shows where the page came from.
    pub(super) fn redirect_in_words(&self) -> String {
        match &self.answer.redirect {
            Some(redirect) => format!(", redirects to {}", redirect.to),
            None => String::new(),
        }
    }
}
