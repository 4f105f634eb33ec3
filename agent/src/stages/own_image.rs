//! The image of our own ISO, for an installation that names none.

use std::time::Duration;

use landfall_media_reader::coreos_image;

use crate::disk::digest::{Algorithm, ExpectedDigest};
use crate::disk::fetch::medium_url;
use crate::installation::OwnImage;
use crate::media::{self, DRIVE_PATIENCE, NoImage, Places};

/// Looks into the drives. One that a BMC shows late is waited for where there is
/// no other image.
///
/// # Errors
/// What is in the drives that cannot be taken, or that nothing is there that must
/// be; for the operator.
pub fn own_image(must_be_there: bool) -> Result<Option<OwnImage>, String> {
    let patience = if must_be_there {
        DRIVE_PATIENCE
    } else {
        Duration::ZERO
    };
    let found = match media::coreos_image(&Places::of_ramdisk(), patience) {
        Ok(found) => found,
        Err(NoImage::Missing(reason)) if !must_be_there => {
            tracing::info!("{reason}");
            return Ok(None);
        }
        Err(reason) => return Err(reason.to_string()),
    };
    let digest = ExpectedDigest::new(Algorithm::Sha256, &found.image.sha256)
        .map_err(|failure| failure.details)?;
    Ok(Some(OwnImage {
        url: medium_url(&found.device, coreos_image::FILE),
        digest,
    }))
}
