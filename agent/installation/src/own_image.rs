//! Defines the image that came with the boot, and the type of the function that
//! finds it.

use landfall_boot_params::digest::Digest;
use landfall_report::failure::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnImage {
    pub url: String,
    pub digest: Digest,
}

/// Looks for the image. The argument says whether it must be there: with `true` the
/// function waits for it and fails without it, with `false` there may be none. An
/// image that is there but unusable is an error.
pub type FindOwnImage<'a> = &'a dyn Fn(bool) -> Result<Option<OwnImage>>;
