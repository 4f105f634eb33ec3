//! An answer of the search, and the place from which it was asked for.

use landfall_http_client::Answer;

/// The index of the NIC that is used, or `None` if the route decides.
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
