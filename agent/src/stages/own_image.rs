//! The image of our own ISO, for an installation that names none.

use std::time::Duration;

use landfall_media_reader::coreos_image;

use crate::disk::digest::{Algorithm, ExpectedDigest};
use crate::disk::fetch::medium_url;
use crate::installation::OwnImage;
use crate::media::{self, DRIVE_PATIENCE, Places};

/// Looks into the drives. One that a BMC shows late is waited for where there is
/// no other image.
///
/// # Errors
/// What is in the drives instead, for the operator.
pub fn own_image(must_be_there: bool) -> Result<OwnImage, String> {
    let patience = if must_be_there {
        DRIVE_PATIENCE
    } else {
        Duration::ZERO
    };
    let found = media::coreos_image(&Places::of_ramdisk(), patience)?;
    let digest = ExpectedDigest::new(Algorithm::Sha256, &found.image.sha256)
        .map_err(|failure| failure.details)?;
    Ok(OwnImage {
        url: medium_url(&found.device, coreos_image::FILE),
        digest,
    })
}
