//! The image on our own ISO, for an installation that does not name an image.

use std::time::Duration;

use landfall_download::fetch::medium_url;
use landfall_installation::OwnImage;
use landfall_media_formats::coreos_image;
use landfall_report::failure::{Failure, Result};
use landfall_settings::media::{self, DRIVE_TIMEOUT, NoImage, Places};

/// Looks for the image in the drives. If `must_be_there`, the agent also waits for a
/// drive that a BMC presents late, because no other image is available.
///
/// # Errors
/// If the image in a drive is invalid, if two drives contain different images, or if
/// there is no image although `must_be_there` is set.
pub fn own_image(must_be_there: bool) -> Result<Option<OwnImage>> {
    let timeout = if must_be_there {
        DRIVE_TIMEOUT
    } else {
        Duration::ZERO
    };
    let found = match media::coreos_image(&Places::of_ramdisk(), timeout) {
        Ok(found) => found,
        Err(NoImage::Missing(reason)) if !must_be_there => {
            tracing::info!("{reason}");
            return Ok(None);
        }
        Err(reason) => return Err(Failure::image_download(reason.to_string())),
    };
    Ok(Some(OwnImage {
        url: medium_url(&found.device, coreos_image::FILE),
        digest: found.image.sha256,
    }))
}
