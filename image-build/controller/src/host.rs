//! A host for which the controller makes an image.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use landfall_network_plan::Document;

/// The name of a host: the name of its `PreprovisioningImage`. baremetal-operator uses
/// the name of the `BareMetalHost` for this resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HostKey {
    pub(crate) namespace: String,
    /// At most 253 characters: lower-case letters, digits, hyphens and dots.
    pub(crate) name: String,
}

impl HostKey {
    /// The key of a resource. The API server accepts no resource without a name and
    /// a namespace.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// Formats as `NAMESPACE/NAME`.
impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The formats of an image, by metal3's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// A bootable ISO, for BMCs with virtual media.
    Iso,
    /// A ramdisk, which the firmware loads together with a kernel over the network.
    Initrd,
}

impl Format {
    /// The name in `acceptFormats` and in `status.format`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Iso => "iso",
            Self::Initrd => "initrd",
        }
    }

    /// The format of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Iso, Self::Initrd]
            .into_iter()
            .find(|format| format.name() == name)
    }
}

/// What makes one host's image different from the base image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) key: HostKey,
    pub(crate) format: Format,
    /// The network of the host, from the Secret that the resource names. It has been
    /// checked with the parser that the ramdisk uses. [`Document::None`]: no Secret, or
    /// one without network data.
    pub(crate) network: Document,
}
