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
