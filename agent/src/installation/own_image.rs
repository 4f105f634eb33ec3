//! An image that came with the boot, from whoever knows where that is kept.

use crate::disk::digest::ExpectedDigest;

/// An image that this machine was booted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnImage {
    /// Where it is.
    pub url: String,
    /// What it must be.
    pub digest: ExpectedDigest,
}

/// Looks for it, and waits for it if it must be there; else there may be none.
/// What is there that cannot be taken is an error, in words for the operator.
pub type FindOwnImage<'a> = &'a dyn Fn(bool) -> Result<Option<OwnImage>, String>;
