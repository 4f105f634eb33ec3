//! Finds the file that a path of the service currently stands for.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use landfall_host_media::{HostImage, Piece};

use crate::base::Memory;
use crate::host_store::{Found, HostStore, Wanted};
use crate::request_path::{FileKind, KERNEL, Kind};

/// The Last-Modified of everything whose content never changes, as the time since 1970:
/// the start of the year 2000. Ironic's conductor caches an image only if the answer has
/// a Last-Modified (ironic/common/image_cache.py).
const CONSTANT_DATE: Duration = Duration::from_secs(946_684_800);

/// A file that can be sent.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) kind: FileKind,
    /// The name of the host; empty for the kernel.
    pub(crate) host: String,
    /// The answer keeps it until it is sent, so that other readers share its bytes.
    pub(crate) image: Arc<HostImage>,
    /// The file that the pieces of the base refer to.
    pub(crate) memory: Memory,
    /// With its quotes.
    pub(crate) etag: String,
    /// Set if the content behind this path never changes.
    pub(crate) last_modified: Option<SystemTime>,
}

/// Why there is nothing to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is no such host.
    Unknown,
    /// This copy of the service does not have this version: it does not know the
    /// host yet, or it has another version.
    NotHere,
    /// The base has kernel arguments that no iPXE script can hold.
    NoScript(String),
    /// The host cannot be served; `put` would have refused it.
    Broken(String),
}

/// Looks up a file of a host.
pub(crate) fn of_host(store: &HostStore, wanted: &Wanted<'_>) -> Result<Resource, Missing> {
    let Wanted { name, id, kind, .. } = *wanted;
    let served = match store.find(wanted) {
        Found::Version(served) => served,
        Found::NoHost if id.is_none() && store.is_ready() => return Err(Missing::Unknown),
        Found::NoHost | Found::Other => return Err(Missing::NotHere),
    };
    let base = &served.base;
    let broken = |error: landfall_host_media::HostError| Missing::Broken(error.to_string());
    let (image, memory) = match kind {
        Kind::Iso => (served.iso().map_err(broken)?, &base.iso_file),
        Kind::Ipxe => {
            let script = served.script(name);
            let script = script.map_err(|error| Missing::NoScript(error.to_string()))?;
            let mut image = HostImage::default();
            image.push(Piece::Own(Bytes::from(script)));
            (Arc::new(image), &base.iso_file)
        }
        Kind::Initramfs => (served.ramdisk().map_err(broken)?, &base.ramdisk_file),
    };
    Ok(Resource {
        kind: FileKind::OfHost(kind),
        host: name.to_owned(),
        image,
        memory: memory.clone(),
        etag: format!("\"{}-{}\"", served.id, kind.name()),
        last_modified: id.map(|_| UNIX_EPOCH + CONSTANT_DATE),
    })
}

pub(crate) fn kernel(store: &HostStore, id: Option<&str>) -> Result<Resource, Missing> {
    let base = match id {
        Some(id) => store.base_of_kernel(id).ok_or(Missing::NotHere)?,
        None => store.base(),
    };
    let mut image = HostImage::default();
    image.push(Piece::Base(base.kernel.clone()));
    Ok(Resource {
        kind: FileKind::Kernel,
        host: String::new(),
        image: Arc::new(image),
        memory: base.kernel_file.clone(),
        etag: format!("\"{}-kernel\"", base.kernel_id()),
        last_modified: id.map(|_| UNIX_EPOCH + CONSTANT_DATE),
    })
}

impl Resource {
    /// The name for clients that save the file (sushy-tools wants one).
    pub(crate) fn file_name(&self) -> String {
        match self.kind {
            FileKind::Kernel => KERNEL.to_owned(),
            FileKind::OfHost(kind) => format!("{}.{}", self.host, kind.name()),
        }
    }
}
