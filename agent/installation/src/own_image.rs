//! Defines the image on the boot medium, and the type of the function that finds it.

use landfall_boot_params::digest::Digest;
use landfall_report::failure::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnImage {
    pub url: String,
    pub digest: Digest,
}

/// Looks for the image. The argument says whether the image is required. With `true`
/// the function waits for the image, and fails if it does not appear. With `false` the
/// result may be `None`. An image that cannot be used is an error in both cases.
pub type FindOwnImage<'a> = &'a dyn Fn(bool) -> Result<Option<OwnImage>>;
