//! The image service as the store of the controller.

use landfall_controller::{Format, Host, HostKey, ImageStore, ImageUrls, Refusal, Rendered};
use landfall_host_media::HostVersion;
use landfall_image_service::{HostPaths, HostStore, PublicUrl};
use landfall_network_plan::{Document, EmbeddedHost};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

/// The architectures of the media that landfall-image builds.
const ARCHITECTURE: &str = "x86_64";
/// In characters: how much of a host's name is in its URL.
const SHOWN_NAME: usize = 40;

pub(super) struct ServedImages {
    store: HostStore,
    /// What all hosts have.
    common: HostVersion,
    public_url: PublicUrl,
    /// Never changes: new base media need a restart, which Kubernetes makes when the
    /// deployment changes.
    base_version: watch::Sender<u64>,
}

impl ServedImages {
    pub(super) fn new(store: HostStore, common: HostVersion, public_url: PublicUrl) -> Self {
        Self {
            store,
            common,
            public_url,
            base_version: watch::Sender::new(0),
        }
    }

    fn version(&self, host: &Host) -> HostVersion {
        if host.network == Document::None {
            return self.common.clone();
        }
        // Without hardware addresses: whatever machine boots this image is the host.
        self.common.clone().with_host(&EmbeddedHost {
            host_name: Some(host.key.name.clone()),
            macs: Vec::new(),
            nics: Default::default(),
            root_device_hints: None,
            document: host.network.clone(),
        })
    }

    fn urls(&self, paths: &HostPaths, format: Format) -> Result<ImageUrls, Refusal> {
        let url = |path: &str| {
            let url = self.public_url.join(path);
            url.map_err(|error| Refusal(error.to_string()))
        };
        Ok(match format {
            Format::Iso => ImageUrls {
                image: url(&paths.iso)?,
                kernel: None,
            },
            Format::Initrd => ImageUrls {
                image: url(&paths.initramfs)?,
                kernel: Some(url(&paths.kernel)?),
            },
        })
    }
}

impl ImageStore for ServedImages {
    type Image = HostVersion;

    fn formats(&self, architecture: &str) -> Option<Vec<Format>> {
        let known = ["", ARCHITECTURE].contains(&architecture);
        known.then(|| vec![Format::Iso, Format::Initrd])
    }

    fn render(&self, host: &Host) -> Result<Rendered<HostVersion>, Refusal> {
        let image = self.version(host);
        let paths = self.store.paths_of(&store_name(&host.key), &image);
        let paths = paths.map_err(|error| Refusal(error.to_string()))?;
        let urls = self.urls(&paths, host.format)?;
        Ok(Rendered { urls, image })
    }

    fn publish(&self, key: &HostKey, image: HostVersion) {
        // `render` has tried it with the same base.
        if let Err(error) = self.store.put(&store_name(key), image) {
            tracing::error!("{key}: {error}");
        }
    }

    fn withdraw(&self, key: &HostKey) {
        self.store.remove(&store_name(key));
    }

    fn base_version(&self) -> watch::Receiver<u64> {
        self.base_version.subscribe()
    }
}

/// The name in the store: the beginning of the host's name, for people, and a digest,
/// because two namespaces may have hosts of one name, and some BMCs refuse a long URL.
fn store_name(key: &HostKey) -> String {
    let digest = Sha256::digest(key.to_string());
    let digest: String = digest[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let shown: String = key.name.chars().take(SHOWN_NAME).collect();
    format!("{shown}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_tell_namespaces_apart() {
        let name = |namespace: &str, name: &str| {
            store_name(&HostKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        assert_eq!(name("metal3", "node-0"), name("metal3", "node-0"));
        assert!(name("metal3", "node-0").starts_with("node-0-"));
        assert_ne!(name("metal3", "node-0"), name("other", "node-0"));
        // `/` is in no name of Kubernetes.
        assert_ne!(name("a", "b-c"), name("a-b", "c"));
        assert_eq!(name("metal3", &"n".repeat(253)).len(), SHOWN_NAME + 13);
    }
}
