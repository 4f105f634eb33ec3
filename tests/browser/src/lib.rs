//! Opens pages in headless Chromium, and reports what a person would see.
//!
//! [`devtools`] talks to the browser; [`review`] looks at one page in several windows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "for tests"
)]

mod devtools;
mod review;

pub use devtools::Browser;
pub use review::{Seen, VIEWS, View, review};
