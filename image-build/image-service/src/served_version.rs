//! One version of a host, as it is served.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use landfall_host_media::{HostError, HostImage, HostVersion};

use crate::base::Base;

/// A host's content on one base. Nothing of its images stays in memory while nobody
/// reads them.
#[derive(Debug)]
pub(crate) struct ServedVersion {
    pub(crate) base: Arc<Base>,
    version: HostVersion,
    /// Identifies the content.
    pub(crate) id: String,
    iso: SharedImage,
    ramdisk: SharedImage,
}

/// An image that all its readers share. The archive of a host may have 64 MiB, and
/// each of its readers holds it for as long as its answer takes.
#[derive(Debug, Default)]
struct SharedImage(Mutex<Weak<HostImage>>);

impl SharedImage {
    /// The image that others are reading, or a new one.
    fn get(
        &self,
        make: impl FnOnce() -> Result<HostImage, HostError>,
    ) -> Result<Arc<HostImage>, HostError> {
        // Locked while it is made: requests that arrive together make it once.
        let mut image = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = image.upgrade() {
            return Ok(image);
        }
        let made = Arc::new(make()?);
        *image = Arc::downgrade(&made);
        Ok(made)
    }
}

impl ServedVersion {
    /// Makes the images once, so that a host that does not fit is an error now, and
    /// not when its BMC asks.
    pub(crate) fn new(base: Arc<Base>, version: HostVersion) -> Result<Self, HostError> {
        let served = Self {
            id: base.id_of(&version),
            base,
            version,
            iso: SharedImage::default(),
            ramdisk: SharedImage::default(),
        };
        served.iso()?;
        served.ramdisk()?;
        Ok(served)
    }

    pub(crate) fn iso(&self) -> Result<Arc<HostImage>, HostError> {
        self.iso.get(|| self.base.iso_of(&self.version))
    }

    pub(crate) fn ramdisk(&self) -> Result<Arc<HostImage>, HostError> {
        self.ramdisk.get(|| self.base.ramdisk_of(&self.version))
    }

    /// The iPXE script.
    pub(crate) fn script(&self, name: &str) -> Result<String, HostError> {
        self.base.script_of(name, &self.id, &self.version)
    }
}
