//! One version of a host, as it is served.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use landfall_host_media::{HostError, HostImage, HostVersion};

use crate::base::Base;
use crate::network_in_words::network_in_words;
use crate::request_path::Kind;

/// For how long after its last request a client that reads `/NAME.iso` in ranges still
/// gets the version with which it began. The self test of a large server takes up to ten
/// minutes, in which its BMC does not read.
const SERIES: Duration = Duration::from_secs(15 * 60);
/// How long a replaced version is kept after its last request.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// The largest number of clients of one version that are kept. A host has one BMC.
const MAX_READERS: usize = 32;

/// A host's content on one base. Its images are in memory only while a client reads
/// them.
#[derive(Debug)]
pub(crate) struct ServedVersion {
    pub(crate) base: Arc<Base>,
    pub(crate) version: HostVersion,
    /// Identifies the content.
    pub(crate) id: String,
    iso: SharedImage,
    ramdisk: SharedImage,
    /// Made when the page shows the host for the first time.
    network: OnceLock<Vec<String>>,
    uses: Mutex<Uses>,
}

/// Who asked for a version, and when.
#[derive(Debug, Default)]
struct Uses {
    last: Option<Instant>,
    /// The clients that read it without its id.
    readers: Vec<Reader>,
}

#[derive(Debug)]
struct Reader {
    client: IpAddr,
    kind: Kind,
    last: Instant,
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
        // The lock is held while the image is made, so that requests that arrive
        // together make it only once.
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
    /// Makes the images once, so that a host whose content does not fit is an error
    /// now, and not when its BMC requests the image.
    pub(crate) fn new(base: Arc<Base>, version: HostVersion) -> Result<Self, HostError> {
        let served = Self {
            id: base.id_of(&version),
            base,
            version,
            iso: SharedImage::default(),
            ramdisk: SharedImage::default(),
            network: OnceLock::new(),
            uses: Mutex::default(),
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

    /// See [`network_in_words`].
    pub(crate) fn network(&self) -> &[String] {
        self.network.get_or_init(|| network_in_words(&self.version))
    }

    /// Records a request for `/ID/NAME`.
    pub(crate) fn used(&self, now: Instant) {
        self.uses().last = Some(now);
    }

    /// Records a request for `/NAME`.
    pub(crate) fn read_by(&self, client: IpAddr, kind: Kind, now: Instant) {
        let mut uses = self.uses();
        uses.last = Some(now);
        let same = |reader: &&mut Reader| (reader.client, reader.kind) == (client, kind);
        if let Some(reader) = uses.readers.iter_mut().find(same) {
            reader.last = now;
            return;
        }
        if uses.readers.len() >= MAX_READERS {
            let oldest = uses.readers.iter().enumerate();
            let oldest = oldest.min_by_key(|(_, reader)| reader.last);
            if let Some((at, _)) = oldest {
                uses.readers.swap_remove(at);
            }
        }
        uses.readers.push(Reader {
            client,
            kind,
            last: now,
        });
    }

    /// Whether the client is in the middle of a series of ranges.
    pub(crate) fn is_read_by(&self, client: IpAddr, kind: Kind, now: Instant) -> bool {
        self.uses().readers.iter().any(|reader| {
            (reader.client, reader.kind) == (client, kind)
                && now.duration_since(reader.last) < SERIES
        })
    }

    /// Ends the client's series.
    pub(crate) fn forget(&self, client: IpAddr, kind: Kind) {
        let is_other = |reader: &Reader| (reader.client, reader.kind) != (client, kind);
        self.uses().readers.retain(is_other);
    }

    /// Whether a client may still read this version.
    pub(crate) fn is_in_use(&self, now: Instant) -> bool {
        let last = self.uses().last;
        last.is_some_and(|last| now.duration_since(last) < KEPT)
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The iPXE script.
    pub(crate) fn script(&self, name: &str) -> Result<String, HostError> {
        self.base.script_of(name, &self.id, &self.version)
    }
}
