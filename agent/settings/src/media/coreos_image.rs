//! Finds the CoreOS image on the builder's own ISO, for sites that have no server
//! for the image.
//!
//! Reads only removable media, as the rest of this module does, because the content of an
//! old disk must not become the system of this host.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use landfall_media_formats::coreos_image::CoreosImage;
use landfall_sys::uevent::UeventSocket;

use super::drives::Drives;
use super::media_wait::MediaWait;
use super::volumes::Volume;
use super::{Places, search};

/// How long to wait for the drive if the image is required: a BMC may take this long to
/// present its medium again.
pub const DRIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the agent looks into the drives while the medium is missing.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInDrive {
    pub device: PathBuf,
    /// The description of the image, with its expected digest.
    pub image: CoreosImage,
}

/// Why no drive has a usable image. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoImage {
    /// No medium contains an image.
    Missing(String),
    /// The description of an image is invalid or cannot be read, or two media contain
    /// different images.
    Unfit(String),
}

impl fmt::Display for NoImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(reason) | Self::Unfit(reason)) = self;
        f.write_str(reason)
    }
}

/// Looks for the image in the drives of this machine. Waits up to `timeout`, because a
/// BMC may present its drive late, and longer if a drive answers slowly.
///
/// # Errors
/// If no drive has a usable image, or if two media contain different images.
pub fn find(places: &Places, timeout: Duration) -> Result<ImageInDrive, NoImage> {
    // Open the socket before the first look, so that no event is missed.
    let events = UeventSocket::open().ok();
    let end = Instant::now() + timeout;
    let mut drives = Drives::and_sticks(places, &MediaWait::new(false));
    loop {
        let found = look(&mut drives);
        let left = end.saturating_duration_since(Instant::now());
        if found.is_ok() || left.is_zero() {
            return found;
        }
        search::wait(events.as_ref(), POLL_INTERVAL.min(left));
    }
}

fn look(drives: &mut Drives<'_>) -> Result<ImageInDrive, NoImage> {
    let mut found: Option<ImageInDrive> = None;
    let mut look = drives.look();
    for volume in &mut look.volumes {
        let image = volume.coreos_image();
        let Some(image) = image.map_err(|fault| NoImage::Unfit(fault.to_string()))? else {
            continue;
        };
        let device = volume.node.clone();
        match &found {
            Some(other) if other.image.sha256 != image.sha256 => {
                return Err(NoImage::Unfit(format!(
                    "two media contain different images: {} in {}, {} in {}",
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
    found.ok_or_else(|| NoImage::Missing(nothing(&look.volumes, &look.all_faults())))
}

fn nothing(volumes: &[Volume], faults: &[String]) -> String {
    let seen = search::seen(volumes);
    let faults: String = { faults.iter() }
        .map(|fault| format!("; {fault}"))
        .collect();
    format!("no drive has a medium with an image{seen}{faults}")
}
