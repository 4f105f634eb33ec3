//! The archive of one or more images and artefacts: the OCI image layout as tar.

use oci_spec::OciSpecError;
use oci_spec::image::{
    ANNOTATION_REF_NAME, DescriptorBuilder, ImageIndexBuilder, MediaType, OciLayoutBuilder,
    SCHEMA_VERSION,
};

use super::{Blob, Manifest, OciError, json, map};
use crate::tar_tree::TarTree;

impl Manifest {
    /// Completes the descriptor with the name under which the archive lists it.
    pub(super) fn new(
        name: &str,
        descriptor: DescriptorBuilder,
        manifest: Blob,
        mut blobs: Vec<Blob>,
    ) -> Result<Self, OciError> {
        let descriptor: Result<_, OciSpecError> = descriptor
            .annotations(map([(ANNOTATION_REF_NAME, name)]))
            .build();
        let sha256 = manifest.sha256.clone();
        blobs.push(manifest);
        Ok(Self {
            name: name.to_owned(),
            sha256,
            descriptor: descriptor?,
            blobs,
        })
    }
}

/// The files of the archive. Blobs that several manifests share are there once.
pub fn archive(manifests: &[Manifest]) -> Result<TarTree, OciError> {
    let mut tree = TarTree::default();
    let layout = OciLayoutBuilder::default()
        .image_layout_version("1.0.0")
        .build()?;
    tree.text("oci-layout", json(&layout)?)?;
    let descriptors = manifests.iter().map(|manifest| manifest.descriptor.clone());
    let index = ImageIndexBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageIndex)
        .manifests(descriptors.collect::<Vec<_>>())
        .build()?;
    tree.text("index.json", json(&index)?)?;
    for blob in manifests.iter().flat_map(|manifest| &manifest.blobs) {
        let path = format!("blobs/sha256/{}", blob.sha256);
        // Two layers with the same content are two files on disk.
        if tree.get(&path).is_none() {
            tree.file(&path, blob.content.clone(), 0o644)?;
        }
    }
    Ok(tree)
}
