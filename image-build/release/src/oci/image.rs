//! A container image for linux/amd64.

use std::collections::BTreeMap;

use oci_spec::image::{
    Arch, ConfigBuilder, ImageConfigurationBuilder, ImageManifestBuilder, MediaType, Os,
    PlatformBuilder, RootFsBuilder, SCHEMA_VERSION,
};

use super::{Blob, Layer, Manifest, OciError, json};
use crate::timestamp;

/// What a container of the image runs.
#[derive(Debug, Clone, Default)]
pub struct ImageSettings {
    /// The name with host and tag, such as `localhost/landfall-agent:0.1.0`. podman fills
    /// in missing parts.
    pub name: String,
    /// Program and arguments, without a shell.
    pub entrypoint: Vec<String>,
    /// `NAME=VALUE`.
    pub environment: Vec<String>,
    pub working_directory: Option<String>,
    pub labels: BTreeMap<String, String>,
}

/// Describes an image of these layers. The image names no user: whoever runs it chooses
/// one.
pub fn image(settings: &ImageSettings, layers: &[Layer], epoch: u32) -> Result<Manifest, OciError> {
    let mut config = ConfigBuilder::default()
        .entrypoint(settings.entrypoint.clone())
        .labels(
            settings
                .labels
                .clone()
                .into_iter()
                .collect::<std::collections::HashMap<_, _>>(),
        );
    if !settings.environment.is_empty() {
        config = config.env(settings.environment.clone());
    }
    if let Some(directory) = &settings.working_directory {
        config = config.working_dir(directory.clone());
    }
    let diff_ids = layers
        .iter()
        .map(|layer| format!("sha256:{}", layer.diff_id));
    let rootfs = RootFsBuilder::default()
        .typ("layers")
        .diff_ids(diff_ids.collect::<Vec<_>>())
        .build()?;
    let configuration = ImageConfigurationBuilder::default()
        .architecture(Arch::Amd64)
        .os(Os::Linux)
        .created(timestamp::rfc3339(epoch))
        .config(config.build()?)
        .rootfs(rootfs)
        .build()?;
    let configuration = Blob::of_bytes(json(&configuration)?);
    let descriptors = layers
        .iter()
        .map(|layer| layer.blob.descriptor(MediaType::ImageLayerGzip)?.build());
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(configuration.descriptor(MediaType::ImageConfig)?.build()?)
        .layers(descriptors.collect::<Result<Vec<_>, _>>()?)
        .build()?;
    let manifest = Blob::of_bytes(json(&manifest)?);
    let platform = PlatformBuilder::default()
        .architecture(Arch::Amd64)
        .os(Os::Linux)
        .build()?;
    let descriptor = manifest
        .descriptor(MediaType::ImageManifest)?
        .platform(platform);
    let layers = layers.iter().map(|layer| layer.blob.clone());
    Manifest::new(
        &settings.name,
        descriptor,
        manifest.clone(),
        layers.chain([configuration]).collect(),
    )
}
