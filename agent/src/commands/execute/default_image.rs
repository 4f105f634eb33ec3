//! The image for a node without `image_source`: OpenShift's installer leaves the choice
//! to the ramdisk. The image in the kernel arguments takes precedence over the image on
//! the ramdisk's ISO.

use std::sync::Arc;

use landfall_boot_params::{Checksum, GivenImage};
use landfall_download::fetch::medium_url;
use landfall_media_formats::coreos_image;
use landfall_report::failure::{Failure, Result};
use landfall_settings::media::{self, DRIVE_TIMEOUT, ImageInDrive, NoImage, Places};

use crate::commands::machine::{Machine, blocking};

/// The image of this boot.
///
/// # Errors
/// If the kernel arguments that name the image are invalid, or if there is no usable
/// image. In the second case the error lists the sources that were tried.
pub(super) async fn find(machine: &Arc<Machine>) -> Result<GivenImage> {
    let given = machine.settings.params.given_image();
    let given = given.map_err(|fault| Failure::invalid_params(fault.to_string()));
    if let Some(image) = given? {
        return Ok(image);
    }
    blocking(|| of_medium(media::coreos_image(&Places::of_ramdisk(), DRIVE_TIMEOUT))).await
}

fn of_medium(found: std::result::Result<ImageInDrive, NoImage>) -> Result<GivenImage> {
    let ImageInDrive { device, image } = found.map_err(|reason| {
        Failure::deployment(format!("install_coreos: the node has no image_source, the kernel command line has no landfall.coreos.image, and {reason}"),
        )
        .hint(
            "set instance_info.image_source, boot with landfall.coreos.image=URL, or build the ISO with --coreos-image",
        )
    })?;
    tracing::info!(
        "the node names no image: taking {} ({} bytes) from the medium in {}",
        image.name,
        image.size,
        device.display()
    );
    Ok(GivenImage {
        urls: vec![medium_url(&device, coreos_image::FILE)],
        checksum: Some(Checksum::Digest(image.sha256)),
    })
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::digest::{Algorithm, Digest};

    use super::*;

    #[test]
    fn images_of_the_medium() {
        let sha256 = Digest::new(Algorithm::Sha256, &"0a".repeat(32)).unwrap();
        let image = coreos_image::CoreosImage {
            name: "rhcos.raw.gz".to_owned(),
            size: 7,
            sha256: sha256.clone(),
        };
        let device = "/dev/sr0".into();
        let given = of_medium(Ok(ImageInDrive { device, image })).unwrap();
        assert_eq!(given.urls, ["medium:///dev/sr0#landfall/coreos-image"]);
        assert_eq!(given.checksum, Some(Checksum::Digest(sha256)));
        let failure =
            of_medium(Err(NoImage::Missing("no drive has a medium".to_owned()))).unwrap_err();
        for part in [
            "no image_source",
            "landfall.coreos.image",
            "no drive has a medium",
        ] {
            assert!(failure.details.contains(part), "{failure}");
        }
    }
}
