//! The images of the resources' hosts, which the image service serves.
//!
//! All copies of the service must give the same URL for the same host and the same base,
//! also after a restart: the controller writes the URL into the resource, and a BMC may
//! read it for hours. So a URL depends only on the content of the base, the content for
//! all hosts, the host's key and its network.

use landfall_host_media::{HostError, HostVersion};
use landfall_image_service::{HostPaths, HostStore, PublicUrl, PutError, UrlError};
use landfall_network_plan::Document;
use sha2::{Digest as _, Sha256};

use crate::host::{Format, Host, HostKey};

/// The maximum number of characters of a host's name in its URL.
const SHOWN_NAME: usize = 40;

/// Where the parts of a host's image are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageUrls {
    /// The ISO or the ramdisk.
    pub(crate) image: String,
    /// The kernel, for [`Format::Initrd`].
    pub(crate) kernel: Option<String>,
}

/// Why a host cannot have an image. The operator reads it in the conditions of the
/// `PreprovisioningImage` and of the `BareMetalHost`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    #[error("{}", reason(.0))]
    Put(PutError),
    #[error(transparent)]
    Url(#[from] UrlError),
}

/// A host's image that can be published.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) urls: ImageUrls,
    pub(crate) version: HostVersion,
}

/// The hosts of an image service.
#[derive(Debug)]
pub struct Images {
    store: HostStore,
    /// The content that all hosts get in addition to the base.
    common: HostVersion,
    public_url: PublicUrl,
}

impl Images {
    /// `store` receives the hosts; nothing else may add hosts to it. `common` is the
    /// content that all hosts get in addition to the base; `public_url` is how clients
    /// reach the service.
    #[must_use]
    pub fn new(store: HostStore, common: HostVersion, public_url: PublicUrl) -> Self {
        Self {
            store,
            common,
            public_url,
        }
    }

    /// The formats for an architecture; `None` if there is no base for it. An empty
    /// architecture means the architecture of the base.
    pub(crate) fn formats(&self, architecture: &str) -> Option<&'static [Format]> {
        let own = self.store.base().arch();
        let is_known = ["", own.name()].contains(&architecture);
        is_known.then_some(&[Format::Iso, Format::Initrd])
    }

    /// Makes a host's image and determines its URLs. Publishes nothing.
    ///
    /// # Errors
    /// If the host cannot have an image.
    pub(crate) fn render(&self, host: &Host) -> Result<Rendered, RenderError> {
        let version = self.version(host);
        let paths = self.store.paths_of(&store_name(&host.key), &version);
        let paths = paths.map_err(RenderError::Put)?;
        let urls = self.urls(&paths, host.format)?;
        Ok(Rendered { urls, version })
    }

    /// Serves this image of the host. It replaces the host's previous one.
    pub(crate) fn publish(&self, key: &HostKey, version: HostVersion) {
        // No error is expected, because `render` has made the image with the same base.
        if let Err(error) = self.store.put(&store_name(key), version) {
            tracing::error!("{key}: {error}");
        }
    }

    /// Stops serving the host's image. Does nothing if there is none.
    pub(crate) fn withdraw(&self, key: &HostKey) {
        self.store.remove(&store_name(key));
    }

    /// Call this when all resources that existed at the start have had a run.
    pub(crate) fn set_ready(&self) {
        self.store.set_ready(true);
    }

    fn version(&self, host: &Host) -> HostVersion {
        if host.network == Document::None {
            return self.common.clone();
        }
        // The host gets no MAC addresses: any machine that boots this image is treated as
        // this host.
        let name = Some(host.key.name.clone());
        let host = landfall_host_manifests::host(name, host.network.clone());
        self.common.clone().with_host(&host)
    }

    fn urls(&self, paths: &HostPaths, format: Format) -> Result<ImageUrls, UrlError> {
        let url = |path: &str| self.public_url.join(path);
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

/// The error as a text for operators: they know the resource, but neither the name in the
/// store nor the builder.
fn reason(error: &PutError) -> String {
    match error {
        PutError::Host {
            fault: HostError::TooLarge { room, found, .. },
            ..
        } => format!(
            "the network needs {found} bytes, and the base ISO has room for {room} -- build the \
             base ISO with a larger --embed-kib"
        ),
        PutError::Host { fault, .. } => fault.to_string(),
        PutError::Name(_) => error.to_string(),
    }
}

/// The name in the store: the beginning of the host's name, for people, and a digest,
/// because hosts in two namespaces may have the same name. The name is short, because
/// some BMCs reject a long URL.
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
    fn names_are_short_and_differ_between_namespaces() {
        let name = |namespace: &str, name: &str| {
            store_name(&HostKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        assert_eq!(name("metal3", "node-0"), name("metal3", "node-0"));
        assert!(name("metal3", "node-0").starts_with("node-0-"));
        assert_ne!(name("metal3", "node-0"), name("other", "node-0"));
        // No name in Kubernetes contains `/`, so `NAMESPACE/NAME` is unambiguous.
        assert_ne!(name("a", "b-c"), name("a-b", "c"));
        assert_eq!(name("metal3", &"n".repeat(253)).len(), SHOWN_NAME + 13);
    }
}
