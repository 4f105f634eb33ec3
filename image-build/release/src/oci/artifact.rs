//! An artefact of one file, in the form that Ironic fetches from `oci://...@sha256:...`
//! for a kernel or a ramdisk.
//!
//! Ironic wants a manifest, not an index, with exactly one layer
//! (`ironic/common/oci_registry.py`). It detects an artefact by `artifactType` or
//! by the empty config (`ironic/common/image_service.py`).

use oci_spec::image::{
    ANNOTATION_CREATED, ANNOTATION_TITLE, ImageManifestBuilder, MediaType, SCHEMA_VERSION,
};

use super::{Blob, Manifest, OciError, json, map};
use crate::timestamp;

/// Describes an artefact named `name` in its archive. `title` is the file name that
/// `oras pull` gives to the file.
pub fn artifact(
    name: &str,
    artifact_type: &str,
    title: &str,
    file: Blob,
    epoch: u32,
) -> Result<Manifest, OciError> {
    // The blob of the empty config must be in the archive like any other.
    let config = Blob::of_bytes(b"{}".to_vec());
    let layer = file
        .descriptor(MediaType::Other("application/octet-stream".to_owned()))?
        .annotations(map([(ANNOTATION_TITLE, title)]))
        .build()?;
    let artifact_type = MediaType::Other(artifact_type.to_owned());
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .artifact_type(artifact_type.clone())
        .config(config.descriptor(MediaType::EmptyJSON)?.build()?)
        .layers(vec![layer])
        .annotations(map([(ANNOTATION_CREATED, &timestamp::rfc3339(epoch))]))
        .build()?;
    let manifest = Blob::of_bytes(json(&manifest)?);
    let descriptor = manifest
        .descriptor(MediaType::ImageManifest)?
        .artifact_type(artifact_type);
    Manifest::new(name, descriptor, manifest.clone(), vec![config, file])
}
