//! A layer of an image: a tree as tar, packed with gzip.
//!
//! The format is gzip, because every kubelet, docker and CRI-O reads it, and because
//! skopeo and podman push such a layer unchanged. They would compress an uncompressed
//! layer during the push, and so change its digest.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use landfall_initramfs::digest_writer::DigestWriter;
use landfall_initramfs::path_error::PathError;

use super::{Blob, OciError};
use crate::tar_tree::{Content, Naming, TarTree};

#[derive(Debug, Clone)]
pub struct Layer {
    pub(super) blob: Blob,
    /// The digest of the layer before it is packed.
    pub(super) diff_id: String,
}

impl Layer {
    /// Writes the layer into `file`, which must stay there until the archive is
    /// written.
    pub fn write(tree: &TarTree, file: &Path, epoch: u32) -> Result<Self, OciError> {
        let writing = || PathError::new("cannot write", file);
        let out = BufWriter::new(File::create(file).map_err(writing())?);
        let mut packed = DigestWriter::new(out);
        let mut packer = GzBuilder::new()
            .mtime(0)
            .write(&mut packed, Compression::default());
        let mut plain = DigestWriter::new(&mut packer);
        tree.write(&mut plain, Naming::Plain, epoch)?;
        let (_, diff_id) = plain.finish();
        packer.finish().map_err(writing())?;
        packed.flush().map_err(writing())?;
        let (size, sha256) = packed.finish();
        let path = file.to_owned();
        Ok(Self {
            blob: Blob {
                content: Content::OnDisk { path, size },
                sha256,
            },
            diff_id,
        })
    }
}
