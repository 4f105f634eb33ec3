//! The CoreOS image that our own ISO can bring, for sites that have no server
//! for it.
//!
//! From removable media alone, as everything here: what an old disk holds must
//! not become the system of this host.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use landfall_media_reader::coreos_image::CoreosImage;

use super::volumes::{self, Volume};
use super::{Places, search};
use crate::sys::uevent::UeventSocket;

/// How long to wait for a drive that must be there: as long as a BMC takes to
/// show its medium again.
pub const DRIVE_PATIENCE: Duration = Duration::from_secs(10);

/// A drive is looked into this often while a medium is missed.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// An image and the drive that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInDrive {
    /// The device of the drive.
    pub device: PathBuf,
    /// What the image must be.
    pub image: CoreosImage,
}

/// Why no image can be taken from a drive; the text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoImage {
    /// No medium brings one.
    Missing(String),
    /// A medium brings one that cannot be read, or several bring different ones.
    Unfit(String),
}

impl fmt::Display for NoImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(reason) | Self::Unfit(reason)) = self;
        f.write_str(reason)
    }
}

/// Looks for the image in the drives of this machine, and waits for at most
/// `patience` for a BMC that shows its drive late.
///
/// # Errors
/// What is in the drives instead, for the operator.
pub fn find(places: &Places, patience: Duration) -> Result<ImageInDrive, NoImage> {
    // Opened before the first look, so that nothing is missed.
    let events = UeventSocket::open().ok();
    let end = Instant::now() + patience;
    loop {
        let found = look(places);
        let left = end.saturating_duration_since(Instant::now());
        if found.is_ok() || left.is_zero() {
            return found;
        }
        search::wait(events.as_ref(), LOOK_AGAIN.min(left));
    }
}

fn look(places: &Places) -> Result<ImageInDrive, NoImage> {
    let mut found: Option<ImageInDrive> = None;
    let mut volumes = volumes::in_drives_and_sticks(&places.sys, &places.dev);
    for volume in &mut volumes {
        let Some(image) = volume.coreos_image().map_err(NoImage::Unfit)? else {
            continue;
        };
        let device = volume.node.clone();
        match &found {
            Some(other) if other.image.sha256 != image.sha256 => {
                return Err(NoImage::Unfit(format!(
                    "two media bring different images: {} in {}, {} in {}",
                    other.image.name,
                    other.device.display(),
                    image.name,
                    device.display()
                )));
            }
            Some(_) => {}
            None => found = Some(ImageInDrive { device, image }),
        }
    }
    found.ok_or_else(|| NoImage::Missing(nothing(&volumes)))
}

fn nothing(volumes: &[Volume]) -> String {
    format!(
        "no drive has a medium with an image{}",
        search::seen(volumes)
    )
}
