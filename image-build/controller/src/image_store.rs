//! What the controller needs from the image service.

use tokio::sync::watch;

use crate::host::{Format, Host, HostKey};

/// Where the parts of a host's image are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageUrls {
    /// The ISO or the ramdisk.
    pub image: String,
    /// The kernel, for [`Format::Initrd`]. Without it, Ironic needs a kernel that is
    /// configured elsewhere.
    pub kernel: Option<String>,
}

/// A host's image that can be published.
#[derive(Debug)]
pub struct Rendered<Image> {
    pub urls: ImageUrls,
    pub image: Image,
}

/// Why a host cannot have an image. The operator reads this in the conditions of
/// the `PreprovisioningImage` and of the `BareMetalHost`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// The images of an image service.
///
/// All copies of the service must give the same URL for the same host and the same
/// base, also after a restart: the controller writes it into the resource, and a BMC
/// may read it for hours. So a URL depends only on the content of the base, the
/// host's key and its [`Host::network`].
pub trait ImageStore: Send + Sync + 'static {
    /// A host's part of an image, before it is published.
    type Image: Send;

    /// The formats that the base media of an architecture allow. `None` if there is
    /// no base for it. The architecture may be empty: that of the only base, or of
    /// this machine.
    fn formats(&self, architecture: &str) -> Option<Vec<Format>>;

    /// Makes a host's image and determines its URLs. Publishes nothing.
    ///
    /// # Errors
    /// If the host cannot have an image, for example because its network data does
    /// not fit into the base.
    fn render(&self, host: &Host) -> Result<Rendered<Self::Image>, Refusal>;

    /// Serves this image of the host. It replaces the host's previous one.
    fn publish(&self, key: &HostKey, image: Self::Image);

    /// Ends the service of the host's image. Does nothing if there is none.
    fn withdraw(&self, key: &HostKey);

    /// A number that changes whenever the base media change. The controller then
    /// renders every image again.
    fn base_version(&self) -> watch::Receiver<u64>;
}
