//! The image for a node that names none: OpenShift's installer leaves the choice to
//! the ramdisk. A kernel argument takes precedence over the image on the ramdisk's
//! ISO.

use std::path::Path;
use std::sync::Arc;

use landfall_boot_params::BootParams;
use landfall_boot_params::digest::{Algorithm, Digest};
use landfall_media_reader::coreos_image;

use crate::commands::image_info::GivenChecksum;
use crate::commands::machine::{Machine, blocking};
use crate::disk::fetch::{is_medium_of, medium_url};
use crate::failure::{Class, Failure, Result};
use crate::media::{self, DRIVE_PATIENCE, ImageInDrive, NoImage, Places};

/// An image with its sources and its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenImage {
    /// Every URL leads to the same image.
    pub(super) urls: Vec<String>,
    /// The checksum as it was given.
    pub(super) checksum: GivenChecksum,
}

impl GivenImage {
    /// # Errors
    /// If `disk` is the medium from which the image is read. A USB stick may well
    /// be the smallest disk of the machine.
    pub(super) fn must_not_be_on(&self, disk: &Path) -> Result<()> {
        if !is_medium_of(disk, &self.urls) {
            return Ok(());
        }
        Err(Failure::new(
            Class::DeploymentError,
            format!(
                "install_coreos: {} is the medium that the image is on, expected another disk",
                disk.display()
            ),
        )
        .hint("set root device hints"))
    }
}

/// The image of this boot.
///
/// # Errors
/// If there is none. The error lists the sources that were tried.
pub(super) async fn find(machine: &Arc<Machine>) -> Result<GivenImage> {
    if let Some(image) = of_settings(&machine.settings.params)? {
        return Ok(image);
    }
    blocking(|| of_medium(media::coreos_image(&Places::of_ramdisk(), DRIVE_PATIENCE))).await
}

/// `landfall.coreos.image` and its checksum.
fn of_settings(params: &BootParams) -> Result<Option<GivenImage>> {
    let Some(image) = &*params.coreos_image else {
        return Ok(None);
    };
    let given = image
        .checksum(params.coreos_image_checksum.as_deref())
        .map_err(Failure::invalid_params)?;
    Ok(Some(GivenImage {
        urls: image.urls.clone(),
        checksum: given.as_deref().map(checksum).unwrap_or_default(),
    }))
}

/// Parses `ALGORITHM:HEX`, `HEX` or a URL.
fn checksum(given: &str) -> GivenChecksum {
    match given.split_once(':') {
        Some((name, value)) if Algorithm::by_name(name).is_some() => GivenChecksum {
            os_hash_algo: Some(name.to_owned()),
            os_hash_value: Some(value.to_owned()),
            checksum: None,
        },
        _ => GivenChecksum {
            checksum: Some(given.to_owned()),
            ..GivenChecksum::default()
        },
    }
}

fn sha256_sum(digest: &Digest) -> GivenChecksum {
    checksum(&digest.to_string())
}

fn of_medium(found: std::result::Result<ImageInDrive, NoImage>) -> Result<GivenImage> {
    let ImageInDrive { device, image } = found.map_err(|reason| {
        Failure::new(
            Class::DeploymentError,
            format!("install_coreos: the node has no image_source, the kernel command line has no landfall.coreos.image, and {reason}"),
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
        checksum: sha256_sum(&image.sha256),
    })
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::CommandLine;

    use super::*;

    const SUM: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn sum() -> Digest {
        Digest::new(Algorithm::Sha256, SUM).unwrap()
    }

    fn read(line: &str) -> Result<Option<GivenImage>> {
        of_settings(&BootParams::from_command_line(&CommandLine::parse(line)))
    }

    #[test]
    fn what_the_boot_was_told() {
        let image = |urls: &[&str], checksum| {
            Ok(Some(GivenImage {
                urls: urls.iter().map(ToString::to_string).collect(),
                checksum,
            }))
        };
        let bare = |text: &str| GivenChecksum {
            checksum: Some(text.to_owned()),
            ..GivenChecksum::default()
        };
        assert_eq!(read("ip=dhcp"), Ok(None));
        for (line, expected) in [
            (
                "landfall.coreos.image=http://h/i,http://m/i".to_owned(),
                image(&["http://h/i", "http://m/i"], GivenChecksum::default()),
            ),
            (
                format!("landfall.coreos.image=http://h/i?sha256={SUM}"),
                image(&["http://h/i"], sha256_sum(&sum())),
            ),
            (
                format!(
                    "landfall.coreos.image=file:///i landfall.coreos.image_checksum=sha256:{SUM}"
                ),
                image(&["file:///i"], sha256_sum(&sum())),
            ),
            (
                "landfall.coreos.image=http://h/i landfall.coreos.image_checksum=http://h/i.sum"
                    .to_owned(),
                image(&["http://h/i"], bare("http://h/i.sum")),
            ),
            (
                format!(
                    "landfall.coreos.image=http://h/i?sha256={SUM} landfall.coreos.image_checksum={SUM}"
                ),
                image(&["http://h/i"], bare(SUM)),
            ),
        ] {
            assert_eq!(read(&line), expected, "{line}");
        }
        let two = format!(
            "landfall.coreos.image=http://h/i?sha256={SUM} landfall.coreos.image_checksum={}",
            "0".repeat(64)
        );
        assert!(read(&two).is_err());
    }

    #[test]
    fn what_the_medium_brings() {
        let image = coreos_image::CoreosImage {
            name: "rhcos.raw.gz".to_owned(),
            size: 7,
            sha256: sum(),
        };
        let device = "/dev/sr0".into();
        let given = of_medium(Ok(ImageInDrive { device, image })).unwrap();
        assert_eq!(given.urls, ["medium:///dev/sr0#landfall/coreos-image"]);
        assert_eq!(given.checksum, sha256_sum(&sum()));
        assert!(given.must_not_be_on("/dev/sr0".as_ref()).is_err());
        assert!(given.must_not_be_on("/dev/sda".as_ref()).is_ok());
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
