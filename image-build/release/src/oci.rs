//! OCI images and artefacts in archives, without a daemon and without a registry.
//!
//! An archive is a tar of the OCI image layout, which podman and skopeo read as
//! `oci-archive:FILE`.
//!
//! oci-spec keeps annotations and labels in hash maps, so its own `to_string` writes
//! them in a different order in each run. [`json`] sorts all keys.

mod archive;
mod artifact;
mod image;
mod layer;

use std::collections::HashMap;
use std::str::FromStr as _;

use landfall_initramfs::digest_writer;
use landfall_initramfs::path_error::PathError;
use oci_spec::OciSpecError;
use oci_spec::image::{Descriptor, DescriptorBuilder, MediaType, Sha256Digest};
use serde::Serialize;

pub use archive::archive;
pub use artifact::artifact;
pub use image::{ImageSettings, image};
pub use layer::Layer;

use crate::tar_tree::{Content, TreeError};

#[derive(Debug, thiserror::Error)]
pub enum OciError {
    #[error("cannot describe the image")]
    Spec(#[from] OciSpecError),
    #[error("cannot write the image's description as JSON")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Path(#[from] PathError),
}

/// Content that is known by its digest.
#[derive(Debug, Clone)]
pub struct Blob {
    pub content: Content,
    /// In hexadecimal, as sha256sum prints it.
    pub sha256: String,
}

/// An image or an artefact: its manifest, and all blobs that it consists of.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The name in an archive, such as `localhost/landfall-agent:0.1.0` or
    /// `kernel`.
    pub name: String,
    /// The digest of the manifest in hexadecimal. `oci://HOST/PATH@sha256:DIGEST`
    /// names it in a registry.
    pub sha256: String,
    descriptor: Descriptor,
    blobs: Vec<Blob>,
}

impl Blob {
    fn of_bytes(bytes: Vec<u8>) -> Self {
        Self {
            sha256: digest_writer::sha256(&bytes),
            content: Content::Bytes(bytes),
        }
    }

    fn descriptor(&self, media_type: MediaType) -> Result<DescriptorBuilder, OciSpecError> {
        Ok(DescriptorBuilder::default()
            .media_type(media_type)
            .digest(Sha256Digest::from_str(&self.sha256)?)
            .size(self.content.size()))
    }
}

/// The value as JSON with sorted keys.
fn json(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&serde_json::to_value(value)?)
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> HashMap<String, String> {
    let owned = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    owned.into_iter().collect()
}

#[cfg(test)]
mod tests;
