//! Images in memory, for the tests and for the benchmark.
//!
//! A host's image is its description. The rules of [`ImageStore`] hold: the same
//! host has the same URL in each store of the same base.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::host::{Format, Host, HostKey};
use crate::image_store::{ImageStore, ImageUrls, Refusal, Rendered};

/// The base media of one architecture: `x86_64`.
#[derive(Debug)]
pub struct MemoryStore {
    /// In bytes: what a base has room for.
    room: usize,
    images: Mutex<HashMap<HostKey, Published>>,
    base: Mutex<(String, Vec<Format>)>,
    base_version: watch::Sender<u64>,
}

/// An image that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub url: String,
    pub host: Host,
}

impl MemoryStore {
    /// With both formats.
    #[must_use]
    pub fn new(base: &str) -> Self {
        Self {
            room: 64 << 10,
            images: Mutex::default(),
            base: Mutex::new((base.to_owned(), vec![Format::Iso, Format::Initrd])),
            base_version: watch::Sender::new(0),
        }
    }

    /// Replaces the base media.
    pub fn set_base(&self, base: &str, formats: &[Format]) {
        *lock(&self.base) = (base.to_owned(), formats.to_vec());
        self.base_version.send_modify(|version| *version += 1);
    }

    /// The image that a client of this URL gets.
    #[must_use]
    pub fn fetch(&self, url: &str) -> Option<Host> {
        let images = lock(&self.images);
        let published = images.values().find(|published| published.url == url)?;
        Some(published.host.clone())
    }

    #[must_use]
    pub fn published(&self, key: &HostKey) -> Option<Published> {
        lock(&self.images).get(key).cloned()
    }

    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.images).len()
    }
}

impl ImageStore for MemoryStore {
    type Image = Published;

    fn formats(&self, architecture: &str) -> Option<Vec<Format>> {
        matches!(architecture, "" | "x86_64").then(|| lock(&self.base).1.clone())
    }

    fn render(&self, host: &Host) -> Result<Rendered<Published>, Refusal> {
        let length = host.network.text().len();
        if length > self.room {
            let room = self.room;
            return Err(Refusal(format!(
                "the network data has {length} bytes, and the base image has room for {room}"
            )));
        }
        let mut digest = Sha256::new();
        let parts = [
            &lock(&self.base).0,
            &host.key.namespace,
            &host.key.name,
            host.network.kind(),
            host.network.text(),
        ];
        for part in parts {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let mut id = String::new();
        for byte in &digest.finalize()[..16] {
            let _ = write!(id, "{byte:02x}");
        }
        // A name may be longer than the URL that a BMC accepts.
        let name: String = host.key.name.chars().take(40).collect();
        let url = |suffix: &str| format!("http://192.0.2.1/{id}/{name}.{suffix}");
        let urls = match host.format {
            Format::Iso => ImageUrls {
                image: url("iso"),
                kernel: None,
            },
            Format::Initrd => ImageUrls {
                image: url("initramfs"),
                kernel: Some("http://192.0.2.1/kernel".to_owned()),
            },
        };
        let image = Published {
            url: urls.image.clone(),
            host: host.clone(),
        };
        Ok(Rendered { urls, image })
    }

    fn publish(&self, key: &HostKey, image: Published) {
        lock(&self.images).insert(key.clone(), image);
    }

    fn withdraw(&self, key: &HostKey) {
        lock(&self.images).remove(key);
    }

    fn base_version(&self) -> watch::Receiver<u64> {
        self.base_version.subscribe()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
